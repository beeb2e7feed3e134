"""Line charts as inline SVG, in the page's own colours and font.

`line_chart` knows nothing of records or of MkDocs: numbers and words in, SVG text
out, the same bytes for the same input. Colours are CSS variables, so a chart follows
the page's light and dark scheme; its size follows the page's width.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from codewalk.render.chart_geometry import (
    Scale,
    plain_labels,
    push_apart,
    text_width,
    ticks_from_zero,
    wrap,
    x_scale,
    x_ticks,
)
from codewalk.render.chart_panel import (
    LABEL,
    LINE,
    MARKER,
    MUTED,
    STYLES,
    TICK,
    Panel,
    Style,
)

WIDTH, HEIGHT = 620, 320
TOP, BOTTOM = 34, 46  # above a plot: the y title; below it: ticks and the x title
INSET = 12  # from the plot's edges to the first and the last x
LABEL_GAP = 10  # from the plot to the labels
PEERS_IN_ONE_PLOT = 3
PANEL_PLOT, PANEL_GAP = 140, 24
BOLD = 1.2  # how much wider the bold letters of a panel's title are
TITLE_FOOT = 12  # from a panel's title to its plot
SWATCH = 26


@dataclass(frozen=True)
class Point:
    """A measurement; `y` is None where none was possible, for the reason given."""

    x: float
    y: float | None
    low: float | None
    high: float | None
    reason: str = ""


@dataclass(frozen=True)
class Series:
    """Points under one name, drawn in one of the `STYLES`."""

    name: str
    label: str
    style: str
    points: tuple[Point, ...]
    stale: bool = False


@dataclass(frozen=True)
class Axis:
    """What an axis shows; `log2` is heeded on the x axis."""

    label: str
    unit: str = ""
    log2: bool = False

    @property
    def title(self) -> str:
        """The words at the axis."""
        label, unit = _printable(self.label), _printable(self.unit)
        return f"{label} ({unit})" if label and unit else label or unit


def line_chart(
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    title: str,
    description: str,
    old_word: str = "old",
    width: int = WIDTH,
) -> str:
    """Draw series as lines named at their ends; return the text of an `<svg>`.

    More than three peers become small multiples, one panel a peer. `width` is the
    viewBox's: a chart for a narrow column is laid out anew, so its text keeps its size.
    """
    _check(series, x)
    drawn = [_named(one, old_word) for one in series]
    peers = sum(one.style.startswith("peer") for one in drawn)
    compose = _multiples if peers > PEERS_IN_ONE_PLOT else _single
    height, parts = compose(drawn, x, y, width)
    return _document(width, height, _printable(title), _printable(description), parts)


def _check(series: Sequence[Series], x: Axis) -> None:
    if not series:
        raise ValueError("a chart needs at least one series")
    for one in series:
        if one.style not in STYLES:
            known = ", ".join(STYLES)
            raise ValueError(f"{one.name}: unknown style {one.style!r}, not of {known}")
        if not one.points:
            raise ValueError(f"{one.name}: a series needs at least one point")
        for point in one.points:
            _check_point(one.name, point, x)
        if len({point.x for point in one.points}) < len(one.points):
            raise ValueError(f"{one.name}: two points have the same x")


def _check_point(name: str, point: Point, x: Axis) -> None:
    where = f"{name} at x = {point.x}"
    numbers = [n for n in (point.x, point.y, point.low, point.high) if n is not None]
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"{where}: numbers must be finite, got {numbers}")
    if x.log2 and point.x <= 0:
        raise ValueError(f"{where}: a log scale needs x above 0")
    if any(number < 0 for number in numbers[1:]):
        raise ValueError(f"{where}: y must not be negative, got {numbers[1:]}")
    if point.low is not None and point.high is not None and point.low > point.high:
        raise ValueError(f"{where}: low {point.low} is above high {point.high}")


def _printable(text: str) -> str:
    """Turn line breaks into spaces and drop what XML cannot hold."""
    spaced = "".join(" " if c in "\t\n\r" else c for c in text)
    return "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cs"))


def _named(one: Series, old_word: str) -> Series:
    """Sort the points, and put the old word after a stale series' name."""
    mark = f" ·\u00a0{old_word}" if one.stale else ""
    points = tuple(sorted(one.points, key=lambda point: point.x))
    return replace(one, label=_printable(one.label + mark), points=points)


def _single(
    series: Sequence[Series], x: Axis, y: Axis, width: int
) -> tuple[float, list[ET.Element]]:
    """One plot with every name at its line's end."""
    limit = width * 0.34
    blocks = [wrap(one.label, LABEL, limit) for one in series]
    right = LABEL_GAP + max(text_width(line, LABEL) for b in blocks for line in b)
    stack = float(LINE * sum(len(block) for block in blocks))
    height = max(HEIGHT - TOP - BOTTOM, stack)
    ticks, left = _y_ticks(series, 7)
    plot = _plot(series, x, ticks, width - left - right, height)
    for one in _ours_last(series):
        _draw_series(plot, one, series)
    _draw_labels(plot, series, blocks)
    _axis_titles(plot, x, y, left)
    return TOP + height + BOTTOM, [_moved(left, TOP, plot)]


def _multiples(
    series: Sequence[Series], x: Axis, y: Axis, width: int
) -> tuple[float, list[ET.Element]]:
    """One panel a peer with ours and the references in each, all on one scale."""
    peers = [one for one in series if one.style.startswith("peer")]
    common = [one for one in series if one not in peers]
    columns = 2 if width >= 480 else 1
    ticks, left = _y_ticks(series, 4)
    inner = (width - left - PANEL_GAP * (columns - 1)) / columns
    keys, top = _key_places(common, left, y, width)
    titles = [wrap(one.label, LABEL * BOLD, inner - SWATCH - 6) for one in peers]
    head = TITLE_FOOT + 2 + LINE * max(len(lines) for lines in titles)
    step = head + PANEL_PLOT + PANEL_GAP
    parts = []
    for number, peer in enumerate(peers):
        row, column = divmod(number, columns)
        lowest = number + columns >= len(peers)  # of its column
        plot = _plot(series, x, ticks, inner, PANEL_PLOT)
        plot = replace(plot, x_labels=lowest, y_labels=column == 0)
        shown = [*common, peer]
        for one in _ours_last(shown):
            _draw_series(plot, one, shown)
        lines = titles[number]
        middle = -TITLE_FOOT - LINE * len(lines) / 2
        _key(plot, "title", peer, 0, middle, lines, weight="600")
        if number == 0:
            up = top + head
            _y_title(plot, y, left, 12 - up)
            for one, (key_x, key_y) in zip(common, keys, strict=True):
                _key(plot, "name", one, key_x - left, key_y - up, [one.label])
        if lowest:
            _x_title(plot, x)
        right = left + column * (inner + PANEL_GAP)
        parts.append(_moved(right, top + head + row * step, plot))
    rows = math.ceil(len(peers) / columns)
    return top + rows * step - PANEL_GAP + BOTTOM, parts


def _y_ticks(
    series: Iterable[Series], count: int
) -> tuple[list[tuple[float, str]], float]:
    """Return ticks from 0 to above all that is drawn, and the room they take."""
    points = [point for one in series for point in one.points if point.y is not None]
    tops = [n for p in points for n in (p.y, p.high) if n is not None]
    ticks = ticks_from_zero(max(tops, default=0.0), count)
    labels = plain_labels(ticks)
    room = max(text_width(label, TICK) for label in labels) + 9
    return list(zip(ticks, labels, strict=True)), math.ceil(room)


def _plot(
    series: Sequence[Series],
    x: Axis,
    y_ticks: list[tuple[float, str]],
    width: float,
    height: float,
) -> Panel:
    values = [point.x for one in series for point in one.points]
    across = x_scale(values, width, INSET, x.log2)
    up = Scale(0, y_ticks[-1][0], height, 0)
    return Panel(across, up, x_ticks(values, across, TICK), y_ticks)


def _ours_last(series: Sequence[Series]) -> list[Series]:
    """Order of drawing: references lowest, ours on top of everything."""
    depth = {"reference": 0, "ours": 2}
    return sorted(series, key=lambda one: depth.get(one.style, 1))


def _draw_series(plot: Panel, one: Series, shown: Sequence[Series]) -> None:
    style = STYLES[one.style]
    parts = _unbroken(one.points)
    measured = [place for part in parts for place in part]
    plot.curve([part for part in parts if len(part) > 1], style)
    if style.shape:
        plot.whiskers(_wide_spreads(plot, one.points), style)
        plot.markers(measured, style, hollow=one.stale)
    else:
        plot.dashes([part[0] for part in parts if len(part) == 1], style)
    plot.crosses(_cross_places(one, shown), style)


def _unbroken(points: Sequence[Point]) -> list[list[tuple[float, float]]]:
    """Split at the points without a value: a line there would be an invention."""
    parts: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point.y is None:
            parts.append([])
        else:
            parts[-1].append((point.x, point.y))
    return [part for part in parts if part]


def _wide_spreads(
    plot: Panel, points: Sequence[Point]
) -> list[tuple[float, float, float]]:
    """Spreads that show beside the marker; the value stands in for a missing end."""
    spreads = []
    for point in points:
        if point.y is None:
            continue
        low = point.y if point.low is None else point.low
        high = point.y if point.high is None else point.high
        if plot.y(low) - plot.y(high) > MARKER:
            spreads.append((point.x, low, high))
    return spreads


def _cross_places(one: Series, shown: Sequence[Series]) -> list[tuple[float, float]]:
    """Where a series has no value; crosses of several series stand side by side."""
    places = []
    for x in (point.x for point in one.points if point.y is None):
        sharing = [s for s in shown if any(p.x == x and p.y is None for p in s.points)]
        middle = (len(sharing) - 1) / 2
        places.append((x, (sharing.index(one) - middle) * 11))
    return places


def _draw_labels(
    plot: Panel, series: Sequence[Series], blocks: Sequence[Sequence[str]]
) -> None:
    """Write the names beside the plot, in the order in which the lines end."""
    ends = [_end(plot, one) for one in series]
    order = sorted(range(len(series)), key=lambda number: ends[number][1])
    wanted = [ends[number][1] for number in order]
    heights = [float(LINE * len(blocks[number])) for number in order]
    # Half a line may stand above and below the plot: names end on its edges too.
    room = (-LINE / 2, plot.height + LINE / 2)
    centres = push_apart(wanted, heights, *room)
    for number, centre in zip(order, centres, strict=True):
        reference = series[number].style == "reference"
        colour = MUTED if reference else "var(--cw-text)"
        _leader(plot, ends[number], centre, STYLES[series[number].style])
        x = plot.width + LABEL_GAP
        plot.text("name", x, centre, blocks[number], colour=colour)


def _end(plot: Panel, one: Series) -> tuple[float, float]:
    """The pixel where a line ends; on the axis for one that was never measured."""
    parts = _unbroken(one.points)
    x, y = parts[-1][-1] if parts else (one.points[-1].x, 0.0)
    return plot.x(x), plot.y(y)


def _leader(plot: Panel, end: tuple[float, float], centre: float, style: Style) -> None:
    """Tie a name to its line when it stands more than half a line off, or far away.

    From a line that ends early the leader is grey: it must not look like more data.
    """
    x, y = end
    start = x + MARKER * 0.75
    thin = Style(style.colour, 0.75)
    if x < plot.width - INSET - 1:
        thin = Style(MUTED, 0.75)
        plot.rule("leader", (start, y), (plot.width, y), thin)
        start = plot.width
    elif abs(centre - y) <= LINE / 2:
        return
    plot.rule("leader", (start, y), (plot.width + LABEL_GAP - 3, centre), thin)


def _axis_titles(plot: Panel, x: Axis, y: Axis, left: float) -> None:
    _y_title(plot, y, left, 10 - TOP)
    _x_title(plot, x)


def _y_title(plot: Panel, y: Axis, left: float, down: float) -> None:
    """Level and above the axis: a turned title is slow to read."""
    plot.text("unit", -left, down, y.title, size=TICK, colour=MUTED)


def _x_title(plot: Panel, x: Axis) -> None:
    middle, down = plot.width / 2, plot.height + 36
    plot.text("unit", middle, down, x.title, size=TICK, colour=MUTED, anchor="middle")


def _key(
    plot: Panel,
    kind: str,
    one: Series,
    x: float,
    y: float,
    lines: Sequence[str],
    weight: str = "",
) -> None:
    """A piece of the line, then the series' name in ink that is always readable."""
    plot.swatch(x, y, SWATCH, STYLES[one.style], one.stale)
    plot.text(kind, x + SWATCH + 6, y, lines, weight=weight)


def _key_places(
    common: Sequence[Series], left: float, y: Axis, width: float
) -> tuple[list[tuple[float, float]], float]:
    """Place the keys of what every panel shows, after the y title, in rows.

    Also return where the panels may begin.
    """
    places: list[tuple[float, float]] = []
    x, row = max(left, text_width(y.title, TICK) + 20), 12.0
    for one in common:
        taken = SWATCH + 6 + text_width(one.label, LABEL)
        if x > left and x + taken > width:
            x, row = left, row + LINE + 4
        places.append((x, row))
        x += taken + 20
    return places, row + 22


def _moved(x: float, y: float, plot: Panel) -> ET.Element:
    move = f"translate({x:.6g},{y:.6g})"
    group = ET.Element("g", {"fill": "none", "transform": move})
    group.extend(plot.draw())
    return group


def _document(
    width: float, height: float, title: str, description: str, parts: list[ET.Element]
) -> str:
    """Wrap the drawing in an `<svg>` that is read out as its title and description."""
    drawing = "".join(ET.tostring(part, encoding="unicode") for part in parts)
    content = "\0".join((title, description, drawing))
    key = f"cw-chart-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
    svg.set("class", "cw-chart")
    svg.set("viewBox", f"0 0 {width:.6g} {height:.6g}")
    svg.set("aria-labelledby", f"{key}-title {key}-desc")
    ET.SubElement(svg, "title", {"id": f"{key}-title"}).text = title
    ET.SubElement(svg, "desc", {"id": f"{key}-desc"}).text = description
    svg.extend(parts)
    return ET.tostring(svg, encoding="unicode")
