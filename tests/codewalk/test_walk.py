"""The walk layout: sections as elements, the strip, the contents, long embeds."""

import logging

import pytest
from html_contract import Element, read
from test_plugin import failure, only, page, site

from codewalk.config import Project
from codewalk.markdown import CodewalkExtension

markdown = pytest.importorskip("markdown")

__all__ = ["failure", "site"]  # fixtures, whole builds of the small project

TEXT = """\
# Title { #title }

A question.

## The loop { #the-loop }

Words about [it](src:demo/kernel.py#loop).

![](src:demo/kernel.py#loop)

More words.[^1]

### Inside { #inside }

![](src:demo/kernel.py#inner-step)

![](src:demo/other.py#only)

[^1]: A footnote.
"""


@pytest.fixture
def render(project: Project):
    def convert(text: str, layout: str = "walk", language: str = "en") -> Element:
        root = str(project.root)
        ours = CodewalkExtension(root=root, language=language, layout=layout)
        extensions = ["attr_list", "footnotes", "toc", ours]
        return read(markdown.markdown(text, extensions=extensions))

    return convert


def tags(element: Element) -> list[str]:
    return [part.tag for part in element.inside if isinstance(part, Element)]


def test_each_section_is_an_element_with_its_embeds_in_the_order_of_the_text(
    render,
) -> None:
    walks = render(TEXT).with_class("cw-walk")
    assert [tags(walk) for walk in walks] == [
        ["h1", "details", "p"],
        ["h2", "p", "figure", "p"],
        ["h3", "figure", "figure"],
    ]


def test_nothing_is_lost_or_doubled(render) -> None:
    walk, plain = render(TEXT), render(TEXT, "")
    for name in ("cw-embed", "cw-ref", "cw-line", "footnote"):
        found = walk.with_class(name)
        assert len(found) == len(plain.with_class(name)) > 0
    assert not only(walk.with_class("cw-embed")[:1]).with_class("cw-embed")


def test_a_reading_page_has_no_such_sections(render) -> None:
    plain = render(TEXT, "")
    for name in ("cw-walk", "cw-strip", "cw-chapter"):
        assert not plain.with_class(name)


def test_footnotes_stay_outside(render) -> None:
    for walk in render(TEXT).with_class("cw-walk"):
        assert not walk.with_class("footnote")


def test_the_contents_stand_closed_under_the_title(render) -> None:
    contents = only(render(TEXT).with_class("cw-chapter"))
    assert contents.tag == "details"
    assert "open" not in contents.attributes
    links = {e["href"]: e.text for e in contents.with_attribute("href")}
    assert links == {"#the-loop": "The loop", "#inside": "Inside"}


def test_contents_escape_what_they_quote(render) -> None:
    text = "# T\n\n## `a < b` & *c* { #x }\n"
    contents = only(render(text).with_class("cw-chapter"))
    assert only(contents.with_attribute("href")).text == "a < b & c"


def test_the_strip_has_every_step_in_order_and_to_scale(render) -> None:
    first, second, other = render(TEXT).with_class("cw-strip")
    steps = first.with_attribute("href")
    assert [step["aria-label"] for step in steps] == [
        "step 1 of 3: double",
        "step 2 of 3: loop",
        "step 3 of 3: inner-step",
    ]
    # Lines that a step has before the next one begins.
    assert [step["style"] for step in steps] == [
        "flex-grow: 3",
        "flex-grow: 2",
        "flex-grow: 2",
    ]
    assert [step.get("aria-current") for step in steps] == ["", "step", ""]
    assert [step.classes for step in steps] == [[], ["cw-current"], ["cw-inside"]]
    assert [s.get("aria-current") for s in second.with_attribute("href")][2] == "step"
    assert [s["aria-label"] for s in other.with_attribute("href")] == [
        "step 1 of 1: only"
    ]


def test_a_step_leads_to_its_section_or_else_to_the_source(render) -> None:
    steps = render(TEXT).with_class("cw-strip")[0].with_attribute("href")
    assert [step["href"] for step in steps] == [
        "source/demo/kernel.py/#L10-L12",
        "#the-loop",
        "#inside",
    ]


def test_the_keyboard_stops_at_the_step_and_its_neighbours_only(render) -> None:
    steps = render(TEXT).with_class("cw-strip")[1].with_attribute("href")
    assert [step.get("tabindex") for step in steps] == ["-1", "", ""]


def test_the_strip_of_a_whole_function_has_no_current_step(render) -> None:
    strip = only(
        render("# T\n\n![](src:demo/kernel.py#scale)\n").with_class("cw-strip")
    )
    assert not strip.with_attribute("aria-current")
    assert len(strip.with_class("cw-inside")) == 3


def test_lines_without_steps_have_no_strip(render) -> None:
    assert not render("# T\n\n![](src:tests/test_demo.py)\n").with_class("cw-strip")


def test_chinese(render) -> None:
    walk = render(TEXT, language="zh")
    assert "本章内容" in only(walk.with_class("cw-chapter")).text
    strip = walk.with_class("cw-strip")[0]
    assert strip["aria-label"] == "scale 的步骤"
    label = strip.with_attribute("href")[1]["aria-label"]
    assert label == "第 2 步，共 3 步：loop"


def test_a_page_chooses_the_layout_in_its_front_matter(site) -> None:
    text = f"---\nlayout: walk\n---\n\n{TEXT}"
    built = site(walk=text, plain=TEXT)
    assert len(page(built, "walk").with_class("cw-walk")) == 3
    assert not page(built, "plain").with_class("cw-walk")


def test_an_unknown_layout_is_an_error(failure) -> None:
    text = "---\nlayout: wlak\n---\n\n# T\n"
    assert "docs/en/walk.md: layout: wlak: expected walk" in failure(walk=text)


def test_more_lines_than_a_window_holds_are_warned_of(
    project: Project, site, caplog: pytest.LogCaptureFixture
) -> None:
    body = "".join(f"    x = {n}\n" for n in range(30))
    path = project.root / "src/demo/long.py"
    path.write_text(f"def f():\n    # [long] Long.\n{body}")
    text = "# T\n\n![](src:demo/long.py#long)\n"
    with caplog.at_level(logging.WARNING, "mkdocs.plugins.codewalk"):
        site(walk=f"---\nlayout: walk\n---\n{text}", plain=text)
    messages = [r.getMessage() for r in caplog.records if "codewalk" in r.name]
    assert messages == [
        "docs/en/walk.md:6: src:demo/long.py#long: 31 lines beside the text, "
        "more than 30: split the section, or the step"
    ]
