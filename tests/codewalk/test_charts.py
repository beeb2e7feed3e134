"""What a reader, a screen reader and the page rely on in a chart's SVG."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from chart_reading import SVG, draw, of_kind, peers, points, series, words

from codewalk.render.chart_geometry import text_width
from codewalk.render.charts import Axis, Point, Series

# The document


def test_the_root_scales_with_the_page_and_is_read_as_one_image() -> None:
    root = ET.fromstring(draw(series()))
    assert root.get("viewBox") == "0 0 620 320"
    assert root.get("role") == "img"
    assert root.get("class") == "cw-chart"
    assert root.get("width") is None
    assert root.get("height") is None
    title, desc = root[0], root[1]
    assert (title.tag, title.text) == (SVG + "title", "Ours keeps up")
    assert (desc.tag, desc.text) == (SVG + "desc", "At 4096 keys: ours 250 TFLOP/s")
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"


def test_nothing_inside_speaks_to_a_screen_reader() -> None:
    for element in ET.fromstring(draw(series(), *peers(4))).iter():
        if element.get("class") == "cw-chart":
            continue
        assert not [key for key in element.attrib if key.startswith(("aria", "role"))]


def test_ids_differ_between_charts_and_occur_once() -> None:
    ids: list[str] = []
    charts = (draw(series()), draw(series((1, 2, 3))), draw(series(), title="other"))
    for svg in charts:
        ids += re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids)) == 6


def test_the_page_decides_on_font_ground_and_colours() -> None:
    svg = draw(series(), *peers(3), series((9, 9, 9), "peak", "reference"))
    assert "font-family" not in svg
    assert "sans-serif" not in svg
    assert "<rect" not in svg
    paints = re.findall(r'(?:fill|stroke)="([^"]+)"', svg)
    assert all(p == "none" or p.startswith("var(--cw-") for p in paints)
    fills = {e.get("fill") for e in ET.fromstring(svg).iter(SVG + "text")}
    assert fills == {"var(--cw-text)", "var(--cw-muted)"}


def test_nothing_is_asked_of_another_host_and_nothing_runs() -> None:
    svg = draw(series(), *peers(3)).replace('xmlns="http://www.w3.org/2000/svg"', "")
    for sign in ("http", "//", "href", "url(", "@import", "<script", "<style", " on"):
        assert sign not in svg, sign


def test_text_is_escaped_everywhere() -> None:
    evil = "<b>&</b>\"'"
    svg = draw(
        series(label=evil, stale=True),
        title=evil,
        description=evil,
        x=Axis(evil, log2=True),
        y=Axis(evil, evil),
        old_word=evil,
    )
    assert "<b>" not in svg
    texts = "".join(ET.fromstring(svg).itertext())
    assert texts.count(evil) == 7


def test_characters_that_xml_cannot_hold_are_dropped() -> None:
    svg = draw(series(label="a\x00b\x1b\nc"), title="t\x08")
    assert words(svg, "name") == ["ab c"]
    assert ET.fromstring(svg)[0].text == "t"


def test_the_same_input_gives_the_same_bytes() -> None:
    shown = (series(), *peers(5))
    assert draw(*shown) == draw(*shown)
    backwards = Series("a", "FlashWalk", "ours", points((100, 200, 250))[::-1])
    assert draw(backwards) == draw(series())


# Axes


def test_y_begins_at_zero_on_the_axis_line() -> None:
    svg = draw(series((900, 950, 990)))
    [zero] = [y for e, _, y in of_kind(svg, "label", "text") if e.text == "0"]
    [(_, _, axis)] = of_kind(svg, "domain")
    assert zero == pytest.approx(axis + 4, abs=0.6)  # the baseline of 12 px figures
    tops = [float(e.text or "") for e, _, y in of_kind(svg, "label") if y < axis - 20]
    assert max(tops) >= 990


def test_heights_are_in_proportion_to_values() -> None:
    svg = draw(series((100, 200, 300)))
    [(_, _, axis)] = of_kind(svg, "domain")
    low, middle, high = (axis - y for _, _, y in of_kind(svg, "marker"))
    assert middle == pytest.approx(2 * low, abs=1.5)
    assert high == pytest.approx(3 * low, abs=1.5)


def test_a_log_axis_is_even_in_powers_of_two_and_says_k() -> None:
    xs = (512, 1024, 3000, 4096)
    svg = draw(Series("a", "a", "ours", points((1, 2, 3, 4), xs)))
    ticks = {e.text: x for e, x, _ in of_kind(svg, "label", "text")}
    assert {"512", "1k", "4k"} <= set(ticks)
    assert "3k" not in ticks
    assert ticks["4k"] - ticks["1k"] == pytest.approx(
        2 * (ticks["1k"] - ticks["512"]), abs=0.05
    )


def test_a_linear_axis_is_even_in_values() -> None:
    xs = (64, 128, 256)
    svg = draw(Series("a", "a", "ours", points((1, 2, 3), xs)), log2=False)
    ticks = {e.text: x for e, x, _ in of_kind(svg, "label", "text")}
    left, right = ticks["128"] - ticks["64"], ticks["256"] - ticks["128"]
    assert right == pytest.approx(2 * left, abs=0.1)


def test_x_labels_never_touch_and_the_last_one_stays() -> None:
    xs = [2.0**i for i in range(4, 32)]
    svg = draw(Series("a", "a", "ours", points([1.0] * 28, xs)), width=358)
    [(_, _, axis)] = of_kind(svg, "domain")
    ticks = [(x, e.text or "") for e, x, y in of_kind(svg, "label") if y > axis + 9]
    assert ticks[-1][1] == "2048M"
    for (x, text), (after, following) in pairwise(ticks):
        assert after - x > (text_width(text, 12) + text_width(following, 12)) / 2


def test_axis_titles_lie_level_above_and_below_the_plot() -> None:
    svg = draw(series(), y=Axis("speed", "TFLOP/s"))
    (above, x, y), (below, _, under) = of_kind(svg, "unit", "text")
    assert (above.text, below.text) == (
        "speed (TFLOP/s)",
        "sequence length, log scale",
    )
    assert "rotate" not in svg
    [(_, _, axis)] = of_kind(svg, "domain")
    assert x == 0
    assert y < min(y for _, _, y in of_kind(svg, "grid"))
    assert under > axis + 20


def test_the_grid_is_horizontal_only() -> None:
    lines = [e for e, _, _ in of_kind(draw(series()), "grid")]
    assert len(lines) > 3
    assert {e.get("y2") for e in lines} == {"0"}


# Marks


def test_what_could_not_be_measured_is_a_cross_on_the_axis() -> None:
    svg = draw(series(), series((90, None, None), "b", "peer-2"))
    [(_, _, axis)] = of_kind(svg, "domain")
    crosses = of_kind(svg, "missing")
    assert [e.get("stroke") for e, _, _ in crosses] == ["var(--cw-peer-2)"] * 2
    assert all(y == pytest.approx(axis, abs=0.6) for _, _, y in crosses)
    ticks = {e.text: x for e, x, _ in of_kind(svg, "label", "text")}
    assert [x for _, x, _ in crosses] == pytest.approx(
        [ticks["2k"], ticks["4k"]], abs=0.6
    )
    assert of_kind(draw(series()), "missing") == []


def test_crosses_of_two_series_stand_side_by_side() -> None:
    svg = draw(series((1, 1, None)), series((2, 2, None), "b", "peer-1"))
    (_, left, _), (_, right, _) = sorted(of_kind(svg, "missing"), key=lambda c: c[1])
    assert right - left > 8


def test_a_line_breaks_where_nothing_was_measured() -> None:
    xs = (1, 2, 4, 8, 16)
    gap = Series("a", "a", "ours", points((1, 2, None, 3, 4), xs))
    assert [e.get("d", "").count("L") for e, _, _ in of_kind(draw(gap), "line")] == [
        1,
        1,
    ]
    assert len(of_kind(draw(gap), "marker")) == 4


def test_a_series_that_was_never_measured_keeps_its_name() -> None:
    svg = draw(series((None, None, None)))
    assert words(svg, "name") == ["FlashWalk"]
    assert of_kind(svg, "marker") == []
    assert len(of_kind(svg, "missing")) == 3


def test_a_stale_series_is_hollow_and_says_so() -> None:
    fresh, stale = draw(series()), draw(series(stale=True), old_word="旧")
    assert {e.get("fill") for e, _, _ in of_kind(fresh, "marker")} == {"var(--cw-ours)"}
    assert {e.get("fill") for e, _, _ in of_kind(stale, "marker")} == {"var(--cw-bg)"}
    assert words(fresh, "name") == ["FlashWalk"]
    assert words(stale, "name") == ["FlashWalk ·\u00a0旧"]


def test_only_a_wide_spread_has_whiskers() -> None:
    assert of_kind(draw(series(spread=0.001)), "whisker") == []
    assert len(of_kind(draw(series(spread=0.2)), "whisker")) == 3


def test_each_style_has_its_line_and_marker() -> None:
    styles = ("ours", "peer-1", "peer-2", "peer-3")
    shown = [series((1, 2, i), str(i), style) for i, style in enumerate(styles)]
    svg = draw(*shown, series((5, 5, 5), "peak", "reference"))
    lines = {e.get("stroke"): e for e, _, _ in of_kind(svg, "line")}
    widths = {colour: e.get("stroke-width") for colour, e in lines.items()}
    assert widths == {
        "var(--cw-reference)": "1",
        "var(--cw-peer-1)": "1.5",
        "var(--cw-peer-2)": "1.5",
        "var(--cw-peer-3)": "1.5",
        "var(--cw-ours)": "2.5",
    }
    dashes = {colour for colour, e in lines.items() if e.get("stroke-dasharray")}
    assert dashes == set(widths) - {"var(--cw-ours)", "var(--cw-peer-1)"}
    shapes = {e.get("fill"): e.get("d") for e, _, _ in of_kind(svg, "marker")}
    assert len(set(shapes.values())) == 4
    assert set(shapes) == {f"var(--cw-{style})" for style in styles}


def test_ours_is_drawn_above_all_others() -> None:
    svg = draw(series(), *peers(2))
    colours = [e.get("stroke") for e, _, _ in of_kind(svg, "line")]
    assert colours[-1] == "var(--cw-ours)"


# Errors


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ([], "at least one series"),
        ([Series("a", "a", "ours", ())], "a: a series needs at least one point"),
        ([series(style="peer-9")], "unknown style 'peer-9'"),
        ([series((1, float("nan"), 2))], "must be finite"),
        ([series((1, float("inf"), 2))], "must be finite"),
        ([Series("a", "a", "ours", (Point(float("nan"), 1, 1, 1),))], "finite"),
        ([Series("a", "a", "ours", (Point(1, 1, None, float("inf")),))], "finite"),
        ([series((1, -0.5, 2))], "must not be negative"),
        ([Series("a", "a", "ours", (Point(1, 1, -1, 1),))], "must not be negative"),
        ([Series("a", "a", "ours", (Point(1, 1, 2, 1),))], "is above high"),
        ([Series("a", "a", "ours", (Point(0, 1, 1, 1),))], "x above 0"),
        ([Series("a", "a", "ours", (Point(1, 1, 1, 1),) * 2)], "the same x"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(shown: list[Series], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(*shown)


@pytest.mark.parametrize(
    ("values", "spread"),
    [((0, 0, 0), 0.0), ((1e-9, 2e-9, 1e-9), 0.5), ((1e12, 2e12, 3e12), 0.1)],
)
def test_extreme_values_are_still_numbers(
    values: tuple[float, ...], spread: float
) -> None:
    svg = draw(series(values, spread=spread))
    assert not re.search(r"nan|inf|undefined|null", svg, re.IGNORECASE)
    assert len(of_kind(svg, "marker")) == 3


def test_a_lone_point_and_a_lone_reference_are_visible() -> None:
    point = (Point(4096, 300, None, None),)
    svg = draw(Series("a", "a", "ours", point), Series("b", "b", "reference", point))
    assert len(of_kind(svg, "marker")) == 1
    assert [e.get("stroke") for e, _, _ in of_kind(svg, "line")] == [
        "var(--cw-reference)"
    ]
