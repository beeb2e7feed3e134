"""The Markdown extension, without MkDocs."""

import pytest
from html_contract import Element, dedented, read, shown_lines

from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.markdown import CodewalkExtension
from codewalk.source import SourceTree

markdown = pytest.importorskip("markdown")
EXTENSIONS = [
    "abbr",
    "admonition",
    "attr_list",
    "def_list",
    "footnotes",
    "md_in_html",
    "tables",
    "toc",
    "pymdownx.details",
    "pymdownx.highlight",
    "pymdownx.superfences",
    "pymdownx.tabbed",
]
LOOP = "src:demo/kernel.py#loop"


@pytest.fixture
def render(project: Project):
    def convert(text: str, language: str = "en") -> Element:
        extension = CodewalkExtension(root=str(project.root), language=language)
        html = markdown.markdown(text, extensions=[*EXTENSIONS, extension])
        return read(html)

    return convert


def only(elements: list[Element]) -> Element:
    assert len(elements) == 1
    return elements[0]


def test_a_chip_says_and_leads_to_its_lines(render) -> None:
    page = render(f"See [the *loop*]({LOOP}) now.")
    chip = only(page.with_class("cw-ref"))
    assert chip["data-src"] == "src/demo/kernel.py"
    assert (chip["data-start"], chip["data-end"]) == ("14", "20")
    assert chip["href"] == "source/demo/kernel.py/#L14-L20"
    assert only(chip.with_class("cw-place")).text == "kernel.py 14–20"
    assert only(chip.with_class("cw-words")).text == "the loop"
    assert chip.spoken == "the loop, kernel.py, lines 14 to 20"
    assert page.spoken == "See the loop, kernel.py, lines 14 to 20 now."


def test_a_chip_in_chinese(render) -> None:
    chip = only(render(f"看[循环]({LOOP})。", "zh").with_class("cw-ref"))
    assert only(chip.with_class("cw-place")).text == "kernel.py 14–20 行"
    assert not chip.get("aria-label")  # it would leave out the visible "14–20"
    assert chip.spoken == "循环，kernel.py 第 14 到 20 行"


def test_a_chip_beside_an_embed_of_its_file_leaves_the_file_out(render) -> None:
    page = render(
        f"# A\n\n[x]({LOOP})\n\n![]({LOOP})\n\n# B\n\n[y]({LOOP})\n\n"
        f"# C\n\n[z]({LOOP})\n\n![]({LOOP})\n\n![](src:demo/other.py#only)\n"
    )
    places = [chip.text for chip in page.with_class("cw-place")]
    assert places == ["14–20", "kernel.py 14–20", "kernel.py 14–20"]


def test_a_file_name_that_two_files_share_comes_with_its_folder(
    project: Project, render
) -> None:
    (project.root / "src/extra").mkdir()
    (project.root / "src/extra/kernel.py").write_text("x = 1\n")
    chip = only(render(f"[x]({LOOP})").with_class("cw-place"))
    assert chip.text == "demo/kernel.py 14–20"


def test_an_embed_is_the_source(project: Project, render) -> None:
    page = render("![Why](src:demo/kernel.py#inner-step)")
    embed = only(page.with_class("cw-embed"))
    lines = shown_lines(embed)
    span = SourceTree(project).file("demo/kernel.py").span("inner-step")
    assert list(lines) == [16, 17]
    assert list(lines.values()) == dedented(list(span.lines))
    assert only(page.all().__next__().with_class("cw-here")).text == "inner-step"
    crumbs = [crumb.text for crumb in embed.with_class("cw-crumb")]
    assert crumbs == ["scale", "loop", "inner-step"]
    assert only([e for e in embed.all() if e.tag == "figcaption"]).text == "Why"


def test_the_caption_is_by_default_the_step_s_sentence(render) -> None:
    page = render("![](src:demo/kernel.py#scale.double)")
    caption = only([e for e in page.all() if e.tag == "figcaption"])
    assert caption.text == "Twice the input."
    # It is the first line already; for the eye, once is enough.
    assert caption.classes == ["cw-hidden"]


def test_marks_and_context(render) -> None:
    page = render('![](src:demo/kernel.py#inner-step){ mark="y" context="1" }')
    embed = only(page.with_class("cw-embed"))
    assert [m.text for m in embed.with_class("cw-name")] == ["y", "y"]
    assert [e["data-line"] for e in embed.with_class("cw-marked")] == ["17"]
    assert [e["data-context"] for e in embed.with_class("cw-context")] == ["15", "18"]
    assert list(shown_lines(embed)) == [16, 17]


def test_what_comes_from_source_is_escaped(project: Project, render) -> None:
    text = "def f():\n    # [s] S.\n    return '</script><b>&amp;'\n"
    (project.root / "src/demo/nasty.py").write_text(text)
    embed = only(render("![](src:demo/nasty.py#s)").with_class("cw-embed"))
    assert shown_lines(embed)[3] == "return '</script><b>&amp;'"
    assert not [e for e in embed.all() if e.tag == "script"]


@pytest.mark.parametrize(
    "text",
    [
        "- item\n\n    ![c]({0})\n",
        "1. ![c]({0})\n2. two\n",
        "!!! note\n    ![c]({0})\n",
        "??? note\n    ![c]({0})\n",
        '=== "Tab"\n\n    ![c]({0})\n',
        "> ![c]({0})\n",
        '<div markdown="1">\n\n![c]({0})\n\n</div>\n',
        "word[^1]\n\n[^1]: Note.\n\n    ![c]({0})\n\n    The end.\n",
    ],
    ids=[
        "list",
        "tight list",
        "admonition",
        "details",
        "tab",
        "quote",
        "div",
        "footnote",
    ],
)
def test_embeds_inside_other_blocks(render, text: str) -> None:
    page = render(text.format(LOOP))
    assert len(shown_lines(only(page.with_class("cw-embed")))) == 7


def test_chips_in_tables_and_nested_markup(render) -> None:
    page = render(f"| a | b |\n| - | - |\n| **[x]({LOOP})** | [`y`]({LOOP}) |\n")
    assert len(page.with_class("cw-ref")) == 2
    assert page.with_class("cw-words")[1].text == "y"


def test_the_same_lines_twice(render) -> None:
    page = render(f"![]({LOOP})\n\n![]({LOOP})\n")
    heads = [head["id"] for head in page.with_class("cw-embed-head")]
    assert len(set(heads)) == 2


def test_code_and_comments_are_left_alone(render) -> None:
    text = f"```\n[x]({LOOP})\n```\n\n`[x]({LOOP})`\n\n<!-- [x]({LOOP}) -->\n"
    page = render(text)
    assert not page.with_class("cw-ref")
    assert page.text.count(f"[x]({LOOP})") == 2


def test_references_by_definition(render) -> None:
    assert render(f"[x][1]\n\n[1]: {LOOP}\n").with_class("cw-ref")


def test_other_links_are_left_alone(render) -> None:
    page = render("[a](b.md) ![c](d.png) [e](https://example.org)")
    assert [e.get("href") for e in page.all() if e.tag == "a"] == [
        "b.md",
        "https://example.org",
    ]


def test_value(render) -> None:
    page = render("It runs at [](result:speed?impl=ours&n=1024#tflops).")
    value = only(page.with_class("cw-value"))
    assert value.text == "412\u00a0TFLOP/s"
    assert (value["data-job"], value["data-device"]) == ("speed", "gpu-one")
    assert (value["data-key"], value["data-state"]) == ("tflops", "fresh")
    link = only([e for e in value.all() if e.tag == "a"])
    assert link["href"] == "results/gpu-one/speed/#row-1"
    assert "407 to 417" in link["title"]


def test_the_first_value_of_a_section_says_whence_on_paper(render) -> None:
    value = "[](result:speed?impl=ours&n=1024#tflops)"
    page = render(f"# A\n\n{value} and {value}\n\n## B\n\n{value}\n")
    said = [v.get("data-print") for v in page.with_class("cw-value")]
    assert said == ["GPU One, 2026-11-30", "", "GPU One, 2026-11-30"]


def test_a_value_that_could_not_be_measured_is_never_a_number(render) -> None:
    value = only(
        render("[](result:speed?impl=peer&n=2048#tflops)").with_class("cw-value")
    )
    assert value["data-state"] == "unmeasured"
    assert value.text == "out of memory"


def test_a_stale_value_says_since_when(render, edit) -> None:
    edit("src/demo/kernel.py", "2 * x", "3 * x")
    value = only(
        render("[](result:speed?impl=ours&n=1024#tflops)").with_class("cw-value")
    )
    assert value["data-state"] == "stale"
    assert value.text == "412\u00a0TFLOP/sold"
    title = only([e for e in value.all() if e.tag == "a"])["title"]
    assert "measured 2026-11-30; src/demo/kernel.py changed" in title


def test_a_missing_optional_value(render) -> None:
    value = only(render("[](result:never?n=1#v){ optional }").with_class("cw-value"))
    assert (value["data-state"], value.text) == ("missing", "—")


def test_table(render) -> None:
    page = render("![Walk](result:facts?claim=walk&table=block,m)")
    rows = [e for e in page.all() if e.tag == "tr"]
    assert [[c.text for c in row.inside if isinstance(c, Element)] for row in rows] == [
        ["block", "m"],
        ["1", "2 | 0"],
        ["2", "3"],
    ]


def test_plot_with_its_table(render) -> None:
    page = render("![Speed](result:speed?x=n&y=tflops&by=impl)")
    plot = only(page.with_class("cw-plot"))
    drawings = [e for e in plot.all() if e.tag == "svg"]
    assert [e["role"] for e in drawings] == ["img", "img"]
    ids = [e["id"] for e in plot.with_attribute("id")]
    assert len(ids) == len(set(ids))
    cells = [e.text for e in plot.all() if e.tag == "td"]
    assert cells == ["412", "400", "420", "out of memory"]
    assert "At length 2048: demo 420 TFLOP/s" in plot.text


def test_figure(render) -> None:
    figure = only(render("![A claim](figure:walk)").with_class("cw-figure"))
    assert "keys < all" in figure.text
    assert "<?xml" not in figure.text


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\n\n[x](src:demo/kernel.py#lop)", 3, "no step or symbol"),
        (f"# Head [x]({LOOP})", 1, "a heading holds no reference"),
        (f"text ![x]({LOOP})", 1, "stands alone in its paragraph"),
        (
            "a\n\n![x](result:speed?impl=ours&n=1024#tflops)",
            3,
            "a value stands in a line",
        ),
        ("a [x](scr:demo/kernel.py#loop)", 1, "no such scheme; nearest: .*src"),
        ("[x](figure:walk)", 1, "stands alone in its paragraph, as an image"),
        (f'![x]({LOOP}){{ mark="zz" }}', 1, "do not use that name"),
        (f'![x]({LOOP}){{ context="9" }}', 1, "expected 0 to 3"),
        (f'![x]({LOOP}){{ color="red" }}', 1, "no attribute 'color'"),
    ],
)
def test_errors_name_the_line(render, text: str, line: int, message: str) -> None:
    with pytest.raises(CodewalkError, match=rf"page\.md:{line}: .*{message}"):
        render(text)


def test_all_errors_come_together(render) -> None:
    text = "[a](src:x.py)\n\n```\n[b](src:y.py)\n```\n\n[c](src:z.py)\n[d](src:x.py)\n"
    with pytest.raises(CodewalkError) as caught:
        render(text)
    assert "3 problems" in str(caught.value)
    assert [f"page.md:{n}:" in str(caught.value) for n in (1, 7, 8)] == [True] * 3


def test_a_figure_may_not_hold_scripts(render, edit) -> None:
    edit("docs/figures/walk.svg", "<text>", '<text onclick="x()">')
    with pytest.raises(CodewalkError, match="may not hold scripts"):
        render("![x](figure:walk)")
