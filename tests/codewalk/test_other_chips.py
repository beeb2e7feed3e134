"""Chips of other projects' lines, of papers and of tests, in Markdown and sites."""

import shutil

import pytest
from html_contract import Element, read
from reference_files import COMMIT, TEST_FILE, add_reference_files, write_outcomes
from test_plugin import failure, only, page, site, write_notebook  # noqa: F401

from codewalk.check import problems
from codewalk.citations import Paper, read_papers
from codewalk.config import Project, read_project
from codewalk.errors import CodewalkError
from codewalk.markdown import CodewalkExtension
from codewalk.references import Library, scheme_of
from codewalk.upstream.places import Place

markdown = pytest.importorskip("markdown")
DEMO = f"test:{TEST_FILE}::test_demo"


@pytest.fixture
def full(project: Project) -> Project:
    add_reference_files(project)
    made = read_project(project.root)
    write_outcomes(made, test_demo="passed", test_new="failed", test_skipped="skipped")
    return made


@pytest.fixture
def render(full: Project):
    def convert(text: str, language: str = "en") -> Element:
        extension = CodewalkExtension(root=str(full.root), language=language)
        return read(markdown.markdown(text, extensions=["attr_list", extension]))

    return convert


def test_schemes() -> None:
    assert [scheme_of(f"{name}:x") for name in ("up", "cite", "test")] == [
        "up",
        "cite",
        "test",
    ]


def test_a_chip_of_another_project_s_lines(render) -> None:
    chip = only(render("See [their *scale*](up:peer-scale) now.").with_class("cw-up"))
    assert chip["data-id"] == "peer-scale"
    assert (chip["data-repo"], chip["data-commit"]) == ("someone/peer", COMMIT)
    assert (chip["data-path"], chip["data-start"]) == ("src/soft max.h", "1")
    assert chip["href"] == (
        f"https://github.com/someone/peer/blob/{COMMIT}/src/soft%20max.h#L1-L3"
    )
    assert only(chip.with_class("cw-words")).text == "their scale"
    assert only(chip.with_class("cw-place")).text == "peer · soft max.h 1–3"
    assert chip.spoken == "their scale, Peer, soft max.h, lines 1 to 3"


def test_one_line_at_a_commit_of_its_own_in_chinese(render) -> None:
    chip = only(render("见[](up:peer-line)。", "zh").with_class("cw-up"))
    assert only(chip.with_class("cw-place")).text == "peer · a.py 7 行"
    assert chip["href"].endswith(f"/blob/{'b' * 40}/a.py#L7")
    assert chip.spoken == "Peer，a.py 第 7 行"


@pytest.mark.parametrize(
    ("identity", "english", "chinese"),
    [
        ("one", "[Lovelace 1843]", "[Lovelace 1843]"),
        ("two", "[Cee & Dee 1999]", "[Cee & Dee 1999]"),
        ("three", "[Eff et al. 2001a]", "[Eff 等 2001a]"),
        ("four", "[Eff et al. 2001b]", "[Eff 等 2001b]"),
        ("manual", "[Manual]", "[Manual]"),
    ],
)
def test_citations(render, identity: str, english: str, chinese: str) -> None:
    for language, mark in (("en", english), ("zh", chinese)):
        chip = only(render(f"[](cite:{identity})", language).with_class("cw-cite"))
        assert (chip["data-id"], chip.text) == (identity, mark)
        assert chip["href"] == f"references/#{identity}"


def test_a_citation_with_words(render) -> None:
    chip = only(render("[the *first* program](cite:one)").with_class("cw-cite"))
    assert chip.text == "the first program [Lovelace 1843]"
    assert only(chip.with_class("cw-cite-mark")).text == "[Lovelace 1843]"


@pytest.mark.parametrize(
    ("name", "outcome", "english", "chinese"),
    [
        ("test_demo", "passed", "✓\u00a0test_demo", "在 GPU One 上通过"),
        ("test_new", "failed", "✗\u00a0test_new", "在 GPU One 上失败"),
        ("test_skipped", "not-run", "○\u00a0test_skipped", "没有运行过"),
    ],
)
def test_a_chip_of_a_test(
    render, name: str, outcome: str, english: str, chinese: str
) -> None:
    text = f"[it holds](test:{TEST_FILE}::{name})"
    chip = only(render(text).with_class("cw-test"))
    assert (chip["data-outcome"], chip["data-src"]) == (outcome, TEST_FILE)
    assert chip["data-devices"] == ("" if outcome == "not-run" else "cpu")
    assert only(chip.with_class("cw-place")).text == english
    start, end = chip["data-start"], chip["data-end"]
    assert chip["href"] == f"source/tests/test_demo.py/#L{start}-L{end}"
    said = "not run" if outcome == "not-run" else f"{outcome} on GPU One"
    assert chip.spoken == f"it holds, {name}, {said}"
    other = only(render(text, "zh").with_class("cw-test"))
    assert other.spoken == f"it holds，{name}，{chinese}"


def test_an_old_outcome_says_so(full: Project, render, edit) -> None:
    edit("src/demo/kernel.py", "2 * x", "3 * x")
    chip = only(render(f"[it holds]({DEMO})").with_class("cw-test"))
    assert only(chip.with_class("cw-age")).text == "old"
    assert chip.spoken.endswith("passed on GPU One, an old result")
    assert "src/demo/kernel.py changed" in chip["title"]


def test_what_is_written_elsewhere_is_escaped(render) -> None:
    chip = only(render("[](cite:one)").with_class("cw-cite"))
    assert chip["title"] == "On <one> thing"


ERRORS = [
    ("[x](up:peer-scal)", r"up:peer-scal: no such place.*nearest: peer-scale"),
    ("[](cite:on)", r"cite:on: no such entry in papers\.json; nearest: one"),
    (f"[x](test:{TEST_FILE}::test_dem)", r"no such test; nearest: test_demo"),
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *ERRORS,
        ("![x](up:peer-scale)", "stands in a line, as a link"),
        ("![x](cite:one)", "stands in a line, as a link"),
        (f"![x]({DEMO})", "stands in a line, as a link"),
        ("# H [x](up:peer-scale)", "a heading holds no reference"),
        ('[x](cite:one){ mark="a" }', "cite: no attribute 'mark'; allowed: none"),
    ],
)
def test_errors_name_the_line(render, text: str, message: str) -> None:
    with pytest.raises(CodewalkError, match=rf"page\.md:3: .*{message}"):
        render(f"a\n\n{text}")


def test_check_finds_them_too(full: Project) -> None:
    text = "# H\n\n" + "\n\n".join(text for text, _ in ERRORS) + "\n"
    (full.root / "docs/en/index.md").write_text(text)
    assert [(p.path, p.line) for p in problems(full)] == [
        ("docs/en/index.md", line) for line in (3, 5, 7)
    ]


def test_a_project_without_the_files(project: Project) -> None:
    library = Library(project)
    assert (library.papers, library.upstream.places) == ({}, {})
    for target in ("up:x", "cite:x"):
        with pytest.raises(CodewalkError, match="there are none"):
            library.resolve(target, "en")


def test_things_are_found(full: Project) -> None:
    library = Library(full)
    assert isinstance(library.resolve("up:peer-scale", "en"), Place)
    assert isinstance(library.resolve("cite:one", "en"), Paper)


PAGE = """\
---
title: "A page"
---
# A page { #top }

By [](cite:one) and [](cite:one), `[](cite:two)`.

## The `inner` part { #inner }

As in [x](up:peer-line) and [y](cite:one).
"""


def test_the_references_page(full: Project, site) -> None:  # noqa: F811
    built = site(index="# Home\n\n[](cite:three)\n", more=PAGE)
    references = page(built, "references")
    papers = references.with_class("cw-paper")
    assert [p["data-id"] for p in papers] == ["one", "three"]
    links = [(e["href"], e.text) for e in papers[0].all() if e.tag == "a"]
    assert links == [
        ("https://arxiv.org/abs/1843.00001", "arXiv:1843.00001"),
        ("../more/#top", "A page"),
        ("../more/#inner", "A page: The inner part"),
    ]
    assert "Note G: a program" in papers[0].text
    assert [e["href"] for e in papers[1].all() if e.tag == "a"][1:] == ["../"]
    project = only(references.with_class("cw-project"))
    assert "MIT" in project.text
    assert COMMIT[:12] in project.text
    assert "b" * 12 in project.text
    assert "../more/#inner" in [e.get("href") for e in project.all()]
    ids = {e["id"] for e in references.with_attribute("id")}
    for chip in page(built, "more").with_class("cw-cite"):
        address, _, anchor = chip["href"].partition("#")
        assert (address, anchor in ids) == ("../references/", True)


def test_the_references_page_in_chinese(full: Project, site) -> None:  # noqa: F811
    built = page(site("zh", index="# 首页\n\n见[](cite:one)。\n"), "references")
    paper = only(built.with_class("cw-paper"))
    assert "一个程序" in paper.text
    assert "引用于" in paper.text


def test_in_a_notebook(full: Project, site) -> None:  # noqa: F811
    text = f"# N\n\n[a](up:peer-scale) [](cite:one) [t]({DEMO})"
    write_notebook(full.root / "docs/en/book.ipynb", [text])
    built = site()
    book = page(built, "book")
    assert only(book.with_class("cw-up"))["data-start"] == "1"
    assert only(book.with_class("cw-cite")).text == "[Lovelace 1843]"
    assert only(book.with_class("cw-test"))["data-outcome"] == "passed"
    links = [e.get("href") for e in page(built, "references").all() if e.tag == "a"]
    assert "../book/" in links


@pytest.mark.parametrize("target", ["up:peer-scale", "cite:one", DEMO])
def test_raw_html_is_found_after_the_build(
    full: Project,
    failure,  # noqa: F811
    target: str,
) -> None:
    text = f'# H\n\n<div><a href="{target}">x</a></div>\n'
    assert f"nobody resolved {target}" in failure(index=text)


@pytest.mark.parametrize("name", ["papers.json", "upstream.json"])
def test_a_broken_file_fails_the_build(full: Project, failure, name: str) -> None:  # noqa: F811
    path = full.root / "docs" / name
    path.write_text(path.read_text()[:-5])
    assert name in failure()
    assert any(name in problem.message for problem in problems(full))


def test_a_paper_is_described_in_the_languages_that_have_pages(full: Project) -> None:
    path = full.root / "docs/papers.json"
    path.write_text(path.read_text().replace(', "zh": "一个程序"', ""))
    with pytest.raises(CodewalkError, match="about: expected en and zh"):
        read_papers(path)
    shutil.rmtree(full.root / "docs/zh")
    assert read_papers(path)["one"].sections[0].about == {"en": "a program"}
