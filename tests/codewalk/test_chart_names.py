"""Where a chart's names stand: at the line ends, above panels, never in the way."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from chart_reading import draw, of_kind, peers, series, words
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codewalk.render.chart_geometry import (
    binary_label,
    push_apart,
    text_width,
    ticks_from_zero,
    wrap,
)

LINE = 16.0
few = settings(max_examples=25, derandomize=True, deadline=None)


def names_from_the_top(svg: str) -> list[str]:
    names = [(y, "".join(e.itertext())) for e, _, y in of_kind(svg, "name", "text")]
    return [name for _, name in sorted(names)]


def end_of_line(svg: str, colour: str) -> float:
    """How far down the plot a series' line ends, read from the path itself."""
    [path] = [e for e, _, _ in of_kind(svg, "line") if e.get("stroke") == colour]
    return float(path.get("d", "").rpartition(",")[2])


# Names at the line ends


ends = st.lists(st.floats(0, 1000, allow_subnormal=False), min_size=2, max_size=4)


@few
@given(ends)
@example([0.0, 0.0, 0.0, 0.0])
@example([1000.0, 1000.0, 999.0, 998.0])
def test_names_never_overlap_and_follow_the_ends(values: list[float]) -> None:
    styles = ("ours", "peer-1", "peer-2", "peer-3")
    shown = [
        series((1, 1, value), f"s{i}", styles[i]) for i, value in enumerate(values)
    ]
    svg = draw(*shown)
    centres = sorted(y for _, _, y in of_kind(svg, "name", "text"))
    assert len(centres) == len(values)
    assert all(b - a >= LINE - 0.02 for a, b in pairwise(centres))
    [(_, _, axis)] = of_kind(svg, "domain")
    top = min(y for _, _, y in of_kind(svg, "grid"))
    assert top - 5 < centres[0]
    assert centres[-1] < axis + 5  # 5: a text's baseline is below its middle
    by_height = sorted(range(len(values)), key=lambda i: (-values[i], i))
    drawn = [end_of_line(svg, f"var(--cw-{styles[i]})") for i in by_height]
    if all(b > a for a, b in pairwise(drawn)):  # else the ends are the same pixel
        assert names_from_the_top(svg) == [f"s{i}" for i in by_height]


boxes = st.lists(
    st.tuples(st.floats(-50, 400), st.sampled_from([16.0, 32.0])),
    min_size=1,
    max_size=8,
)


@few
@given(boxes)
def test_boxes_are_pushed_apart_within_their_bounds(
    wanted: list[tuple[float, float]],
) -> None:
    wanted.sort()
    heights = [height for _, height in wanted]
    centres = push_apart([want for want, _ in wanted], heights, 0, 300)
    tops = [c - h / 2 for c, h in zip(centres, heights, strict=True)]
    feet = [c + h / 2 for c, h in zip(centres, heights, strict=True)]
    assert all(top >= foot - 1e-6 for foot, top in zip(feet, tops[1:], strict=False))
    assert tops[0] >= -1e-6
    assert feet[-1] <= 300 + 1e-6


def test_boxes_that_have_room_stay_and_others_share_the_move() -> None:
    assert push_apart([50, 100], [16, 16], 0, 300) == [50, 100]
    assert push_apart([100, 100], [16, 16], 0, 300) == [92, 108]


def test_names_beyond_the_plot_make_the_chart_taller() -> None:
    shown = [series((i, i, i), f"s{i}", "reference") for i in range(1, 25)]
    svg = draw(*shown)
    centres = sorted(y for _, _, y in of_kind(svg, "name", "text"))
    assert all(b - a >= LINE - 0.02 for a, b in pairwise(centres))
    assert float(ET.fromstring(svg).get("viewBox", "").split()[3]) > 400


def test_a_name_of_several_lines_is_centred_on_the_end_of_its_line() -> None:
    long = "FlashAttention-2, the implementation of its authors, in CUDA"
    svg = draw(series((9, 9, 200)), series((1, 1, 100), long, "peer-1"), width=358)
    [(name, _, first)] = [one for one in of_kind(svg, "name", "text") if len(one[0])]
    assert len(name) > 3
    last = first + sum(float(line.get("dy", 0)) for line in name)
    plot = 34 + 4  # where a plot begins, and how far a baseline is below the middle
    end = plot + end_of_line(svg, "var(--cw-peer-1)")
    assert (first + last) / 2 == pytest.approx(end, abs=1)
    assert of_kind(svg, "leader") == []


def test_a_leader_ties_only_names_that_moved() -> None:
    apart = draw(series((1, 1, 100)), series((1, 1, 200), "b", "peer-1"))
    assert of_kind(apart, "leader") == []
    close = draw(series((1, 1, 200)), *[series((1, 1, 200), "b", "peer-1")] * 2)
    assert len(of_kind(close, "leader")) == 2


def test_a_name_follows_a_line_that_ends_early() -> None:
    svg = draw(series((100, 100, 100)), series((200, None, None), "b", "peer-1"))
    assert names_from_the_top(svg) == ["b", "FlashWalk"]
    across = of_kind(svg, "leader")[0][0]
    assert across.get("stroke") == "var(--cw-muted)"


def test_names_fit_into_the_view_however_long() -> None:
    svg = draw(series(label="FlashAttention-2（论文作者的实现，CUDA）and more of it"))
    right = max(
        x + text_width(line.text or "", 13)
        for e, x, _ in of_kind(svg, "name")
        for line in [e, *e]
    )
    assert 400 < right <= 620


def test_panel_titles_stay_in_their_panels_however_long() -> None:
    long = series((1, 1, 1), "a memory-efficient attention by (somebody)", "peer-1")
    svg = draw(series(), long, *peers(3))
    title = of_kind(svg, "title")[0][0]
    assert len(title) == 2
    assert all(text_width(line.text or "", 13 * 1.2) < 260 for line in title)


# Small multiples


def test_more_than_three_peers_have_a_panel_each() -> None:
    svg = draw(series(), *peers(5))
    titles = of_kind(svg, "title", "text")
    assert [e.text for e, _, _ in titles] == [f"peer no. {i}" for i in range(5)]
    assert len({x for _, x, _ in titles}) == 2
    assert len({y for _, _, y in titles}) == 3
    colours = [e.get("stroke") for e, _, _ in of_kind(svg, "line")]
    assert colours.count("var(--cw-ours)") == 5
    assert words(svg, "name") == ["FlashWalk"]
    assert of_kind(draw(series(), *peers(3)), "title") == []


def test_panels_share_their_scales_and_label_only_the_edges() -> None:
    svg = draw(series(), *peers(4))
    ours = [
        (x, y)
        for e, x, y in of_kind(svg, "marker")
        if e.get("fill") == "var(--cw-ours)"
    ]
    panels = [ours[i : i + 3] for i in range(0, 12, 3)]
    moves = {
        (round(x - x0, 1), round(y - y0, 1))
        for panel in panels
        for (x, y), (x0, y0) in [(panel[i], panel[0]) for i in (1, 2)]
    }
    assert len(moves) == 2  # the same two steps in all four panels
    labels = words(svg, "label")
    assert labels.count("0") == 2
    assert labels.count("4k") == 2


def test_a_narrow_chart_has_one_panel_a_row() -> None:
    svg = draw(series(), *peers(4), width=358)
    titles = of_kind(svg, "title", "text")
    assert len({x for _, x, _ in titles}) == 1
    assert ET.fromstring(svg).get("viewBox", "").startswith("0 0 358 ")


# Arithmetic


def test_sizes_are_said_as_people_say_them() -> None:
    sizes = (512, 1024, 16384, 1048576, 1536)
    assert [binary_label(n) for n in sizes] == ["512", "1k", "16k", "1M", "1536"]


@few
@given(st.floats(1e-6, 1e9))
def test_ticks_reach_the_top_in_few_even_steps(top: float) -> None:
    ticks = ticks_from_zero(top, 7)
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-6)
    assert ticks[-2] < top
    assert 3 <= len(ticks) - 1 <= 7


def test_wrapping_breaks_at_spaces_and_never_before_a_closing_mark() -> None:
    assert wrap("one two three", 10, 45) == ["one two", "three"]
    assert wrap("实现，好", 10, 20) == ["实现，", "好"]
    assert "".join(wrap("x" * 40, 10, 60)) == "x" * 40
