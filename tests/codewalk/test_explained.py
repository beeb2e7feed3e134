"""From source back to prose: the margins of source pages, and what is explained."""

import json

import pytest
from html_contract import Element, read
from test_plugin import failure, only, page, site

from codewalk.config import Project
from codewalk.explained import Explained, Text, plain
from codewalk.references import Library
from codewalk.scan import markdown_of

__all__ = ["failure", "site"]  # fixtures, whole builds of the small project

CHAPTER = """\
---
title: "A chapter"
---

# The *chapter* { #chapter }

[all of it](src:demo/kernel.py)

## The `loop` { #the-loop }

[the loop](src:demo/kernel.py#loop), and again [here](src:demo/kernel.py#scale.loop)

## Shown { #shown }

![](src:demo/kernel.py#loop)

`[x](src:demo/kernel.py#Box)` and [y](src:demo/kernel.py#nothing)
"""


def find(project: Project, *texts: Text) -> Explained:
    return Explained(Library(project), texts)


def names(explained: Explained, project: Project, fragment: str) -> list[str]:
    file = Library(project).sources.file("demo/kernel.py")
    region = file.addresses[fragment] if fragment else None
    return [
        f"{m.url}#{m.anchor} {m.page}/{m.section}{'!' if m.shown else ''}"
        for m in explained.of(file.path, region)
    ]


def test_who_shows_lines_comes_before_who_mentions_them(project: Project) -> None:
    explained = find(project, Text("a/", "A chapter", CHAPTER))
    assert explained.paths == ["src/demo/kernel.py"]
    assert names(explained, project, "loop") == [
        "a/#shown A chapter/Shown!",
        "a/#the-loop A chapter/The loop",
    ]
    assert names(explained, project, "") == ["a/#chapter A chapter/The chapter"]


def test_examples_and_broken_references_explain_nothing(project: Project) -> None:
    explained = find(project, Text("a/", "", CHAPTER))
    assert names(explained, project, "Box") == []


def test_a_page_without_a_title_has_that_of_its_first_heading(
    project: Project,
) -> None:
    explained = find(project, Text("a/", "", CHAPTER.partition("---\n\n")[2]))
    assert names(explained, project, "") == ["a/#chapter The chapter/"]


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("exp, or `exp2`", "exp, or exp2"),
        ("The *mask* [of](x.md) it", "The mask of it"),
        ("$m$ and more", "m and more"),
    ],
)
def test_titles_lose_their_markdown(title: str, words: str) -> None:
    assert plain(title) == words


def test_a_notebook_is_read_by_its_markdown() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "text"]},
        {"cell_type": "code", "source": "x = 1"},
        {"cell_type": "markdown", "source": "more"},
    ]
    assert markdown_of(json.dumps({"cells": cells})) == "# A\ntext\n\nmore"
    assert markdown_of("{") == markdown_of("[]") == markdown_of('{"cells": 1}') == ""


def margins(source: Element) -> dict[str, list[tuple[str, str]]]:
    """The links in the margin of each region, by the region's name."""
    return {
        region["data-name"]: [
            (link.text, link["href"])
            for part in region.inside
            if isinstance(part, Element) and "cw-margin" in part.classes
            for link in part.with_class("cw-explained")
        ]
        for region in source.with_class("cw-region")
    }


def explained_page(site, language: str = "en", **pages: str):
    text = CHAPTER.replace(" and [y](src:demo/kernel.py#nothing)", "")
    return site(language, chapter=text, **pages)


def test_a_source_page_shows_who_explains_each_region(site) -> None:
    source = page(explained_page(site), "source/demo/kernel.py")
    found = margins(source)
    assert found["loop"] == [
        ("A chapterShown", "../../../chapter/#shown"),
        ("A chapterThe loop", "../../../chapter/#the-loop"),
    ]
    assert found["inner-step"] == found["scale"] == []
    whole = only(source.with_class("cw-source-explained"))
    assert only(whole.with_class("cw-explained"))["href"].endswith("chapter/#chapter")


def test_every_margin_leads_to_the_section_that_it_names(site) -> None:
    built = explained_page(site)
    for link in page(built, "source/demo/kernel.py").with_class("cw-explained"):
        address, _, anchor = link["href"].partition("#")
        path = (built / "source/demo/kernel.py" / address / "index.html").resolve()
        ids = [e["id"] for e in read(path.read_text()).with_attribute("id")]
        assert anchor in ids


def test_margins_do_not_depend_on_the_order_of_the_pages(site, project) -> None:
    last = "# Z\n\n## S { #s }\n\n[x](src:demo/kernel.py#inner-step)\n"
    built = site(zzz=last)
    assert margins(page(built, "source/demo/kernel.py"))["inner-step"] == [
        ("ZS", "../../../zzz/#s")
    ]


def test_the_lines_of_a_source_page_stay_the_file(project: Project, site) -> None:
    lines = page(explained_page(site), "source/demo/kernel.py").with_class("cw-line")
    text = (project.root / "src/demo/kernel.py").read_text(encoding="utf-8")
    assert "".join(line.text for line in lines) == text


def test_a_margin_with_many_sections_leads_to_the_rest(site) -> None:
    text = "# H { #h }\n" + "".join(
        f"\n## S{n} {{ #s{n} }}\n\n[x](src:demo/kernel.py#loop)\n" for n in range(5)
    )
    built = site(many=text)
    source = page(built, "source/demo/kernel.py")
    assert len(margins(source)["loop"]) == 3
    more = only(source.with_class("cw-explained-more"))
    assert more.text == "and 2 more"
    address, _, anchor = more["href"].partition("#")
    assert address == "../../../coverage/"
    coverage = page(built, "coverage")
    row = only([e for e in coverage.with_attribute("id") if e["id"] == anchor])
    assert len(row.with_class("cw-explained")) == 5


def test_the_coverage_page_counts_and_names_what_is_missing(site) -> None:
    coverage = page(explained_page(site), "coverage")
    rows = {
        row["id"].partition(":")[2]: row["data-explained"]
        for row in coverage.with_attribute("data-part")
    }
    assert rows == {
        "scale": "none",
        "scale.double": "no",
        "scale.loop": "yes",
        "scale.inner-step": "no",
        "Box": "none",
        "Box.method": "none",
        "Box.method.double": "no",
    }
    count = only(coverage.with_class("cw-coverage-count")).text
    assert count.startswith("1 of 4 parts explained, 5 of their 12 lines.")
    assert "Not yet: scale.double, scale.inner-step, Box.method.double." in count
    inner = only([e for e in coverage.with_attribute("id") if "inner-step" in e["id"]])
    assert "only as a part of loop" in inner.text


def test_a_book_that_speaks_of_no_code_says_so(site) -> None:
    assert "No page speaks of any file yet." in page(site(), "coverage").text


def test_coverage_in_chinese(site) -> None:
    text = page(explained_page(site, "zh"), "coverage").text
    assert "尚缺：" in text
    assert "讲到了哪些代码" in text
