"""The MkDocs plugin: whole builds of the small project."""

import json
from pathlib import Path

import pytest
from html_contract import Element, lines_of_file, read

from codewalk.accept import accept
from codewalk.config import Project
from codewalk.references import Library

pytest.importorskip("material", reason="Material for MkDocs is not installed")
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

MKDOCS = """\
site_name: Demo
docs_dir: docs/{language}
site_dir: site/{language}
theme:
  name: material
  language: {language}
  font: false
plugins:
  mkdocs-jupyter:
    include: ["*.ipynb"]
    allow_errors: false
  codewalk: {{}}
markdown_extensions: [attr_list, pymdownx.superfences]
validation: {{links: {{anchors: info}}}}
"""


@pytest.fixture
def site(project: Project):
    """Builds the project with these pages; the site's folder."""

    def make(language: str = "en", live: bool = False, **pages: str) -> Path:
        for name, text in pages.items():
            path = project.root / "docs" / language / f"{name}.md"
            path.write_text(text, encoding="utf-8")
        file = project.root / "mkdocs.yml"
        file.write_text(MKDOCS.format(language=language), encoding="utf-8")
        config = load_config(str(file))
        config.plugins.on_startup(command="serve" if live else "build", dirty=False)
        build(config)
        return Path(config.site_dir)

    return make


@pytest.fixture
def failure(site, caplog: pytest.LogCaptureFixture):
    """Builds what must fail; what the author is told."""

    def make(**pages: str) -> str:
        with pytest.raises(Abort):
            site(**pages)
        return caplog.text

    return make


def page(site: Path, address: str) -> Element:
    return read((site / address / "index.html").read_text(encoding="utf-8"))


def only(elements: list[Element]) -> Element:
    assert len(elements) == 1
    return elements[0]


def test_chips_land_on_elements_of_the_source_page(site) -> None:
    built = site(
        index="# Home\n\n[x](src:demo/kernel.py#loop) [y](src:tests/test_demo.py)\n"
    )
    for chip in page(built, "").with_class("cw-ref"):
        address, _, anchor = chip["href"].partition("#")
        ids = {e["id"] for e in page(built, address).with_attribute("id")}
        assert anchor in ids


def test_a_source_page_shows_every_line_and_region(project: Project, site) -> None:
    source = page(site(), "source/demo/kernel.py")
    text = (project.root / "src/demo/kernel.py").read_text(encoding="utf-8")
    shown = [line.text.removesuffix("\n") for line in source.with_class("cw-line")]
    assert shown == lines_of_file(text)
    regions = {r["data-name"]: r for r in source.with_class("cw-region")}
    assert regions["loop"]["id"] == "L14-L20"
    inside = [line["id"] for line in regions["loop"].with_class("cw-line")]
    assert inside == [f"L{n}" for n in range(14, 21)]
    assert [r["data-name"] for r in regions["loop"].with_class("cw-region")] == [
        "inner-step"
    ]


def test_names_are_anchors_where_they_are_unique(site) -> None:
    ids = [e["id"] for e in page(site(), "source/demo/kernel.py").with_attribute("id")]
    assert len(ids) == len(set(ids))
    assert {"loop", "scale.double", "Box.method.double", "Box", "L6-L20"} <= set(ids)
    assert "double" not in ids


def test_every_source_file_has_a_page_and_the_index_leads_there(site) -> None:
    built = site()
    links = [e["href"] for e in page(built, "source").with_attribute("href")]
    for address in ("demo/kernel.py/", "demo/other.py/", "tests/test_demo.py/"):
        assert address in links
        assert (built / "source" / address / "index.html").is_file()


def test_record_pages_hold_the_row_that_a_value_links_to(site) -> None:
    built = site(index="# Home\n\n[](result:speed?impl=ours&n=2048#tflops)\n")
    link = only(
        [e for e in only(page(built, "").with_class("cw-value")).all() if e.tag == "a"]
    )
    address, _, anchor = link["href"].partition("#")
    record = page(built, address)
    row = only([e for e in record.with_attribute("id") if e["id"] == anchor])
    assert "420" in row.text
    assert "GPU One" in record.text
    assert "python -m demo.speed" in record.text
    assert "src/demo/kernel.py" in record.text


def test_a_record_whose_job_is_gone_is_still_listed(site, edit) -> None:
    edit("docs/jobs.toml", "[jobs.speed]", "[jobs.speeds]")
    links = [e["href"] for e in page(site(), "results").with_attribute("href")]
    assert "gpu-one/speed/" in links


def test_moved_lines_are_followed(site, edit) -> None:
    edit("src/demo/kernel.py", "import math\n", "import math\n" + "X = 1\n" * 10)
    chip = only(
        page(site(index="# H\n\n[x](src:demo/kernel.py#loop)\n"), "").with_class(
            "cw-ref"
        )
    )
    assert (chip["data-start"], chip["data-end"]) == ("24", "30")


def test_a_removed_step_fails_the_build_and_writes_nothing(
    project: Project, failure, edit
) -> None:
    edit("src/demo/kernel.py", "# [loop] Again and again.", "# Again and again.")
    text = "---\ntitle: T\n---\n# H\n\n[x](src:demo/kernel.py#loop)\n"
    message = failure(index=text, more="# M\n\n\n![x](src:demo/kernel.py#loop)\n")
    assert "2 problems" in message
    assert "docs/en/index.md:6: src/demo/kernel.py#loop: no step or symbol" in message
    assert "docs/en/more.md:4:" in message
    assert "nearest: " in message
    assert not list((project.root / "site").rglob("*.html"))


def test_a_malformed_step_fails_the_build(failure, edit) -> None:
    edit("src/demo/other.py", "# [only] Here.", "# [other] Here.")
    assert "src/demo/other.py:2: step [other]" in failure()


def test_a_broken_record_fails_the_build(project: Project, failure) -> None:
    path = project.root / "docs/results/gpu-one/speed.json"
    path.write_text(path.read_text()[:-40])
    assert "gpu-one/speed.json" in failure()


def test_a_reference_in_raw_html_is_found_after_the_build(failure) -> None:
    text = '# H\n\n<div><a href="src:demo/kernel.py#loop">x</a></div>\n'
    assert "index.html: nobody resolved src:demo" in failure(index=text)


def test_a_live_preview_shows_the_error_and_lives_on(site) -> None:
    built = page(site(live=True, index="# H\n\n[x](src:demo/kernel.py#lop)\n"), "")
    assert "docs/en/index.md:3" in only(built.with_class("cw-error-bar")).text
    assert "no step or symbol" in only(built.with_class("cw-error")).text


def test_a_page_with_old_values_says_so_under_its_title(site, edit) -> None:
    edit("src/demo/kernel.py", "2 * x", "3 * x")
    text = "# H\n\n[](result:speed?impl=ours&n=1024#tflops)\n"
    note = only(page(site(index=text), "").with_class("cw-behind"))
    assert "1 value is behind the code" in note.text
    assert "src/demo/kernel.py changed" in note.text


def test_a_page_where_all_is_current_says_nothing(site) -> None:
    text = "# H\n\n[](result:speed?impl=ours&n=1024#tflops)\n"
    assert not page(site(index=text), "").with_class("cw-behind")


UNREAD = """\
# H { #h }

[](result:speed?impl=ours&n=1024#tflops)

[x](src:demo/kernel.py#loop)

## Doubling <i> { #doubling }

![](src:demo/kernel.py#scale.double)

## Box { #box }

[b](src:demo/kernel.py#Box)
"""


@pytest.mark.parametrize(
    ("language", "lead", "said"),
    [
        (
            "en",
            "2 sections and 1 value are behind the code:",
            "The code of this section has changed since the text was last read "
            "against it on 20 Nov 2026.",
        ),
        (
            "zh",
            "本页有 2 节和 1 个数值落后于代码：",
            "正文上次对照代码读过是在 2026 年 11 月 20 日，之后本节的代码改过。",
        ),
    ],
)
def test_a_page_with_unread_changes_says_so(
    language: str, lead: str, said: str, project: Project, site, edit
) -> None:
    (project.root / f"docs/{language}/index.md").write_text(UNREAD)
    names = [f"{language}/index#{name}" for name in ("h", "doubling", "box")]
    list(accept(Library(project), names, "2026-11-20"))
    edit("src/demo/kernel.py", "y = 2 * x", 'y = 2 * x + len("<b>")')
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    built = page(site(language), "")
    top = only(built.with_class("cw-behind"))
    assert top.text.startswith(lead)
    links = [e["href"] for e in top.with_attribute("href")]
    assert links == ["#h", "#doubling"]
    notes = built.with_class("cw-unread")
    assert [note["role"] for note in notes] == ["note", "note"]
    assert all(said in note.text for note in notes)
    assert '\N{MINUS SIGN} y = 2 * x\n+ y = 2 * x + len("<b>")\n' in notes[1].text
    assert [e.attributes for e in notes[1].all() if e.tag == "details"] == [{}]
    html = (project.root / "site" / language / "index.html").read_text()
    places = [html.index(text) for text in ("</h1>", "cw-behind", "cw-unread")]
    assert places == sorted(places)
    assert html.rindex('class="cw-unread"') < html.index('<h2 id="doubling"')
    assert html.index("cw-value") < html.rindex('class="cw-unread"')


def test_a_page_that_was_read_again_says_nothing(project: Project, site, edit) -> None:
    text = "# H { #h }\n\n[x](src:demo/kernel.py#loop)\n"
    (project.root / "docs/en/index.md").write_text(text)
    assert not page(site(), "").with_class("cw-unread")  # never read: check says so
    list(accept(Library(project), ["en/index#h"], "2026-11-20"))
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    assert page(site(), "").with_class("cw-unread")
    list(accept(Library(project), ["en/index#h"], "2026-11-28"))
    assert not page(site(), "").with_class("cw-unread")
    assert not page(site(), "").with_class("cw-behind")


def test_broken_reviews_fail_the_build(project: Project, failure) -> None:
    (project.root / "docs/reviews.json").write_text("{")
    assert "reviews.json: not JSON" in failure()


def test_generated_pages_are_not_searched(site) -> None:
    built = site(index="# Home\n\nfindme\n")
    index = built / "search" / "search_index.json"
    if index.exists():
        places = {doc["location"] for doc in json.loads(index.read_text())["docs"]}
        assert not [p for p in places if p.startswith("source/")]


def test_chinese(site) -> None:
    built = page(site("zh", index="# 首页\n\n[循环](src:demo/kernel.py#loop)\n"), "")
    assert only(built.with_class("cw-place")).text == "kernel.py 14–20 行"


def test_a_notebook_s_references_are_resolved(project: Project, site) -> None:
    cells = [
        "# N\n\n[the loop](src:demo/kernel.py#loop) x\n\n![c](src:demo/kernel.py#loop)",
        "[](result:speed?impl=ours&n=1024#tflops)",
    ]
    write_notebook(project.root / "docs/en/book.ipynb", cells)
    built = page(site(), "book")
    assert only(built.with_class("cw-ref"))["data-start"] == "14"
    assert len(only(built.with_class("cw-embed")).with_attribute("data-line")) == 7
    assert only(built.with_class("cw-value")).text == "412\u00a0TFLOP/s"


def test_a_wrong_reference_in_a_notebook_fails_the_build(
    project: Project, failure
) -> None:
    write_notebook(project.root / "docs/en/book.ipynb", ["[x](src:demo/kernel.py#lop)"])
    assert "docs/en/book.ipynb: src/demo/kernel.py#lop" in failure()


def write_notebook(path: Path, cells: list[str]) -> None:
    book = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"language_info": {"name": "python"}},
        "cells": [
            {"cell_type": "markdown", "id": f"c{n}", "metadata": {}, "source": text}
            for n, text in enumerate(cells)
        ],
    }
    path.write_text(json.dumps(book), encoding="utf-8")
