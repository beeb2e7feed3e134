"""A diff on a page: what it shows, what it says of it, where it leads."""

import pytest
from diff_files import FILES, FIRST, SECOND, add_diff_files
from example_project import make_project
from html_contract import Element, check_diff, diff_lines, read
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plugin import failure, only, page, site, write_notebook
from test_robust_properties import programs

from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.markdown import CodewalkExtension
from codewalk.pairs import Pair, Side
from codewalk.references import Library
from codewalk.render import fragments
from codewalk.render.links import Links
from codewalk.render.page import Page
from codewalk.repository import Repository
from codewalk.source import SourceFile

markdown = pytest.importorskip("markdown")

__all__ = ["failure", "site"]  # fixtures, whole builds of the small project

BOTH = "demo/first.py#first_sum..demo/second.py#second_sum"


@pytest.fixture(autouse=True)
def _files(project: Project) -> None:
    add_diff_files(project)


@pytest.fixture
def render(project: Project):
    def convert(text: str, language: str = "en", layout: str = "") -> Element:
        root = str(project.root)
        ours = CodewalkExtension(root=root, language=language, layout=layout)
        extensions = ["attr_list", "md_in_html", "toc", ours]
        return read(markdown.markdown(text, extensions=extensions))

    return convert


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """One library for all examples of a property."""
    return Library(make_project(tmp_path_factory.mktemp("project")))


def diff(render, rest: str, **options: str) -> Element:
    return only(render(f"![](diff:{rest})", **options).with_class("cw-diff"))


def since(figure: Element) -> str:
    return only(figure.with_class("cw-since")).text


def rows(figure: Element) -> list[str]:
    """The lines as a screen reader has them, each with its word."""
    return [
        only(row.with_class("cw-mark")).text.lstrip("+−") + line.text.rstrip("\n")
        for row in figure.with_class("cw-row")
        for line in [only(row.with_class("cw-line"))]
    ]


@pytest.mark.parametrize(
    "rest",
    [
        FILES,
        BOTH,
        f"{FILES}#loop",
        f"{FILES}#add",
        f"{FILES}#limit",
        f"{FILES}#scale",
        "demo/first.py#tail..demo/second.py#rest",
        "demo/second.py..demo/first.py",
        "demo/first.py..demo/kernel.py",
    ],
)
def test_a_diff_turns_the_old_lines_into_the_new_ones(
    project: Project, render, rest: str
) -> None:
    figure = diff(render, rest)
    old, new = (
        (project.root / figure[name]).read_text(encoding="utf-8")
        for name in ("data-old-src", "data-src")
    )
    check_diff(figure, old, new)
    assert {e["data-old-src"] for e in figure.with_attribute("data-old-line")} <= {
        figure["data-old-src"]
    }


@settings(derandomize=True, deadline=None, max_examples=80)
@given(old=programs(), new=programs(), start=st.integers(0, 20))
def test_any_two_programs(library: Library, old: bytes, new: bytes, start: int) -> None:
    files = SourceFile("src/demo/a.py", old), SourceFile("src/demo/b.py", new)
    names = list(files[1].addresses)
    fragment = names[start % len(names)]
    for one, other in (("", ""), ("first", "first"), ("first", fragment)):
        pair = Pair(
            Side(files[0], one, files[0].span(one)),
            Side(files[1], other, files[1].span(other)),
        )
        at = Page(library, Repository(library.project.root, ""), Links("x/"), "en")
        figure = only(read(fragments.block(at, pair, "", {})).with_class("cw-diff"))
        check_diff(figure, files[0].text, files[1].text)


def test_the_contract_finds_what_is_wrong(render) -> None:
    figure = diff(render, BOTH)
    for was, would_be in (
        ("y = y + n", "y = y + m"),  # a line that the file has not
        ("x = x + 0", "x = x + 0; y = 1"),
    ):
        text = FIRST.replace(was, would_be)
        with pytest.raises(AssertionError):
            check_diff(figure, text, SECOND)
    with pytest.raises(AssertionError):
        check_diff(figure, FIRST, SECOND.replace("end = min(3, x)", "end = 3"))
    lost = only([e for e in figure.all() if e.get("data-old-line") == "9"])
    del lost.attributes["data-old-line"]
    with pytest.raises(AssertionError):
        check_diff(figure, FIRST, SECOND)


# --- What is shown ------------------------------------------------------------


def test_signs_stand_before_lines_and_are_said_in_words(render) -> None:
    figure = diff(render, f"{FILES}#loop")
    assert rows(figure) == [
        "# [loop] Again and again.",
        "removed for n in range(3):",
        "added for n in range(end):",
        "    # [add] Once more.",
        "    y = y + x  # another note",
        "    y = y + n",
        'removed     y = max(y, "<b>")',
        'added     y = max(y, "<i>")',
        "",
        "    # [rest] What is over.",
        "    y = y - n",
        "",
        "return y",
    ]
    marks = [only(row.with_class("cw-mark")) for row in figure.with_class("cw-row")]
    signs = [mark.with_attribute("aria-hidden") for mark in marks]
    assert ["".join(e.text for e in sign) for sign in signs] == [
        *["", "−", "+", "", "", "", "−", "+"],
        *[""] * 5,
    ]
    numbers = [(mark.get("data-old"), mark.get("data-new")) for mark in marks]
    assert numbers[:4] == [("17", "11"), ("18", ""), ("", "12"), ("19", "13")]


def test_new_lines_have_colours_and_gone_ones_none(render) -> None:
    figure = diff(render, f"{FILES}#loop")
    (new, *_) = figure.with_class("cw-new")
    (gone, *_) = figure.with_class("cw-gone")
    assert [e.text for e in new.with_class("cw-k")] == ["for", "in"]
    assert not gone.with_class("cw-k")
    assert [e.text for e in gone.with_class("cw-word")] == ["3"]
    assert [e.text for e in new.with_class("cw-word")] == ["end"]


def test_words_that_have_changed_keep_their_colours(render, edit) -> None:
    edit("src/demo/second.py", "range(end)", 'range(int("12"))')
    edit("src/demo/first.py", "range(3)", 'range(int("3"))')
    (new, *_) = diff(render, f"{FILES}#loop").with_class("cw-new")
    word = only(new.with_class("cw-word"))
    assert word.text == "12"
    assert only(word.with_class("cw-s")).text == "12"


def test_long_runs_are_folded(render) -> None:
    figure = diff(render, BOTH)
    closed = [e for e in figure.all() if e.tag == "details"]
    summaries = [next(e.text for e in c.all() if e.tag == "summary") for c in closed]
    assert summaries == ["− 8 lines", "3 lines unchanged"]
    assert all("open" not in e.attributes for e in closed)
    assert [len(e.with_class("cw-row")) for e in closed] == [8, 3]


def test_a_part_that_is_gone_has_no_new_lines(render) -> None:
    figure = diff(render, f"{FILES}#scale")
    assert (figure["data-start"], figure["data-end"]) == ("1", "0")
    assert figure["data-src"] == "src/demo/second.py"
    assert not figure.with_attribute("data-line")
    assert [line.old for line in diff_lines(figure)] == list(range(8, 16))
    assert only(figure.with_class("cw-file")).text == "first.py"
    assert only(figure.with_class("cw-range"))["href"].endswith("first.py/#L8-L15")


# --- What is said -------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "english", "chinese"),
    [
        (
            f"{FILES}#loop",
            "since first.py: 2 lines changed; comments differ in 1 place; "
            "first_sum is now second_sum; step tail is now rest",
            "相对 first.py：改动 2 行；注释有 1 处不同；"
            "first_sum 改名为 second_sum；步骤 tail 改名为 rest",
        ),
        (
            BOTH,
            "since first.py: 3 lines new, 2 changed, 9 gone; comments differ in 2 "
            "places; first_sum is now second_sum; step tail is now rest",
            "相对 first.py：新增 3 行，改动 2 行，删去 9 行；注释有 2 处不同；"
            "first_sum 改名为 second_sum；步骤 tail 改名为 rest",
        ),
        (
            f"{FILES}#limit",
            "new since first.py: 2 lines",
            "first.py 中没有：新增 2 行",
        ),
        (
            f"{FILES}#scale",
            "gone in second.py: 8 lines",
            "second.py 中已删去：8 行",
        ),
        (
            "demo/first.py#tail..demo/second.py#rest",
            "since first.py: no code has changed; first_sum is now second_sum; "
            "step tail is now rest",
            "相对 first.py：代码没有改动；first_sum 改名为 second_sum；"
            "步骤 tail 改名为 rest",
        ),
    ],
)
def test_the_head_says_what_has_changed(
    render, rest: str, english: str, chinese: str
) -> None:
    assert since(diff(render, rest)) == english
    assert since(diff(render, rest, language="zh")) == chinese


def test_chinese_folds_and_signs(render) -> None:
    figure = diff(render, BOTH, language="zh")
    summaries = [e.text for e in figure.all() if e.tag == "summary"]
    assert summaries == ["− 8 行", "3 行未变"]
    hidden = {e.text for e in figure.with_class("cw-hidden") if e.tag == "span"}
    assert hidden == {"新增 ", "删去 "}


def test_the_head_leads_to_both_sides(render) -> None:
    figure = diff(render, f"{FILES}#loop")
    assert only(figure.with_class("cw-range"))["href"] == (
        "source/demo/second.py/#L11-L21"
    )
    link = only([e for e in only(figure.with_class("cw-since")).all() if e.tag == "a"])
    assert link["href"] == "source/demo/first.py/#L17-L27"
    assert link["aria-label"] == "first.py, lines 17 to 27"
    crumbs = [e.text for e in figure.with_class("cw-crumb")]
    assert crumbs == ["second_sum", "loop"]


def test_a_file_that_has_no_such_part_is_linked_as_a_whole(render) -> None:
    for rest, address in ((f"{FILES}#limit", "first"), (f"{FILES}#scale", "second")):
        head = only(diff(render, rest).with_class("cw-since"))
        (link,) = (e for e in head.all() if e.tag == "a")
        assert link["href"] == f"source/demo/{address}.py/"


def test_the_caption_is_the_author_s_or_the_step_s(render) -> None:
    text = f"![Mine](diff:{FILES}#loop)\n\n![](diff:{FILES}#loop)\n"
    captions = [e for e in render(text).all() if e.tag == "figcaption"]
    assert [(c.text, c.classes) for c in captions] == [
        ("Mine", []),
        ("Again and again.", ["cw-hidden"]),
    ]


# --- Where it stands ----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a\n\n[x](diff:{FILES}#loop)", "3: this stands alone in its paragraph"),
        (f"a ![x](diff:{FILES}#loop)", "1: .*an image stands alone in its paragraph"),
        (f"# A ![x](diff:{FILES}#loop)", "1: .*a heading holds no reference"),
        (f"![](diff:{FILES}#lop)", "1: diff:.*#lop: neither file has"),
        (f'![](diff:{FILES}#loop){{ mark="y" }}', "no attribute 'mark'; allowed: none"),
        (f"![](dif:{FILES}#loop)", "no such scheme; nearest: diff"),
    ],
)
def test_errors_name_the_line(render, text: str, message: str) -> None:
    with pytest.raises(CodewalkError, match=rf"page\.md:{message}|{message}"):
        render(text)


def test_a_chip_beside_a_diff_of_its_file_leaves_the_file_out(render) -> None:
    text = (
        f"# A\n\n[x](src:demo/second.py#add) [y](src:demo/first.py#add)\n\n"
        f"![](diff:{FILES}#loop)\n"
    )
    places = [chip.text for chip in render(text).with_class("cw-place")]
    assert places == ["13–16", "first.py 19–22"]


def test_on_a_walk_page_a_long_one_goes_below_the_text(render, edit) -> None:
    text = f"# T\n\n## A {{ #a }}\n\n![](diff:{FILES}#second_sum)\n"
    assert (
        "cw-long" not in only(render(text, layout="walk").with_class("cw-diff")).classes
    )
    body = "".join(f"    x = x + {n}\n" for n in range(30))
    edit("src/demo/second.py", "    end = min(3, x)\n", f"    end = 3\n{body}")
    figure = only(render(text, layout="walk").with_class("cw-diff"))
    assert "cw-long" in figure.classes
    strip = only(figure.with_class("cw-strip")).with_attribute("href")
    assert len(strip) == 5
    gone = only(
        render(f"# T\n\n![](diff:{FILES}#scale)\n", layout="walk").with_class("cw-diff")
    )
    assert not gone.with_class("cw-strip")


def test_a_step_of_the_strip_leads_to_the_diff_that_shows_it(render) -> None:
    text = f"# T\n\n## A {{ #a }}\n\n![](diff:{FILES}#loop)\n"
    strip = only(render(text, layout="walk").with_class("cw-strip"))
    assert [e["href"] for e in strip.with_attribute("href")][2] == "#a"


# --- In a build ---------------------------------------------------------------

PAGE = (
    f"# H {{ #h }}\n\nWords.\n\n## Changed {{ #changed }}\n\n![](diff:{FILES}#loop)\n"
)


def test_the_new_side_is_explained_and_the_old_is_not(site) -> None:
    built = site(index=PAGE)
    links = page(built, "source/demo/second.py").with_class("cw-explained")
    assert [link["href"] for link in links] == ["../../../#changed"]
    assert "cw-shown" in links[0].classes
    assert not page(built, "source/demo/first.py").with_class("cw-explained")
    coverage = page(built, "coverage")
    row = only(
        [
            e
            for e in coverage.with_attribute("data-part")
            if ":second_sum.loop" in e["id"]
        ]
    )
    assert row["data-explained"] == "yes"
    only(page(site(index=PAGE.replace("#loop", "#scale")), "").with_class("cw-diff"))


def test_a_preview_follows_both_sides(site, edit) -> None:
    def shown() -> list[str]:
        return rows(only(page(site(live=True, index=PAGE), "").with_class("cw-diff")))

    before = shown()
    edit("src/demo/first.py", "range(3)", "range(4)")
    assert [line for line in shown() if line not in before] == [
        "removed for n in range(4):"
    ]
    edit("src/demo/second.py", "y = y - n", "y = y * n")
    assert "added     y = y * n" in shown()


def test_a_preview_shows_the_error(site, edit) -> None:
    built = page(site(live=True, index=PAGE.replace("#loop", "#lop")), "")
    assert "docs/en/index.md:7" in only(built.with_class("cw-error-bar")).text
    assert "neither file has" in only(built.with_class("cw-error")).text


def test_a_diff_that_leads_nowhere_fails_the_build(failure) -> None:
    message = failure(index=PAGE.replace("#loop", "#lop"))
    assert f"docs/en/index.md:7: diff:{FILES}#lop: neither file has a step" in message


def test_a_diff_in_raw_html_is_found_after_the_build(failure) -> None:
    text = f'# H\n\n<div><img src="diff:{FILES}#loop"></div>\n'
    assert f"index.html: nobody resolved diff:{FILES}#loop" in failure(index=text)


def test_a_notebook_may_hold_one(project: Project, site) -> None:
    cells = [f"# N\n\n![c](diff:{FILES}#loop)"]
    write_notebook(project.root / "docs/en/book.ipynb", cells)
    figure = only(page(site(), "book").with_class("cw-diff"))
    check_diff(figure, FIRST, SECOND)
