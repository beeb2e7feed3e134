"""One panel of a chart as SVG elements.

A panel's origin is the upper left corner of its plot; titles and labels stand outside
of it, at negative or larger coordinates. What is data is given in its own numbers and
goes through the scales; what is annotation is given in pixels. Every element is drawn
around its own origin and moved to its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from codewalk.render.chart_geometry import Scale

LABEL, TICK, LINE = 13, 12, 16  # text sizes, and the height of a line of labels
MARKER = 10.0  # how much room a marker takes, with a hair of ground around it
MUTED = "var(--cw-muted)"
# Lines of one pixel are sharp where they lie on the middle of a pixel.
SHARP = 0.5
TICK_LENGTH = 4
WHISKER, WHISKER_END = 1.25, 7.0
CROSS, CROSS_STROKE = 4.2, 1.75
DASH = 24.0  # a lone point of a series without markers is a level line this long
MARKER_STROKE = 1.5
# From the middle of a letter down to its baseline, in parts of its size.
BASELINE = 0.3

Attributes = Mapping[str, str]


@dataclass(frozen=True)
class Style:
    """How a series looks: its colour, its line, and its marker if it has one.

    `radius` is half of the marker's width.
    """

    colour: str
    width: float
    dash: tuple[int, ...] = ()
    shape: str = ""
    radius: float = 0.0

    @property
    def stroke(self) -> Attributes:
        """The line's attributes."""
        dashes = {"stroke-dasharray": ",".join(map(str, self.dash))}
        return _stroke(self.colour, self.width) | (dashes if self.dash else {})


STYLES: Mapping[str, Style] = {
    "ours": Style("var(--cw-ours)", 2.5, (), "circle", 3.5),
    "peer-1": Style("var(--cw-peer-1)", 1.5, (), "square", 3.3),
    "peer-2": Style("var(--cw-peer-2)", 1.5, (9, 4), "triangle", 3.5),
    "peer-3": Style("var(--cw-peer-3)", 1.5, (4, 3), "diamond", 3.7),
    "reference": Style("var(--cw-reference)", 1, (2, 3)),
}


@dataclass
class Panel:
    """A plot that is drawn mark by mark; later marks lie above earlier ones."""

    x: Scale
    y: Scale
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    x_labels: bool = True
    y_labels: bool = True
    _marks: list[ET.Element] = field(default_factory=list, init=False)

    @property
    def width(self) -> float:
        """The plot's width: where its x scale stops."""
        return self.x.stop

    @property
    def height(self) -> float:
        """The plot's height: where y = 0 is."""
        return self.y.start

    def curve(self, parts: Sequence[Sequence[tuple[float, float]]], s: Style) -> None:
        """Draw a line in parts: it breaks where nothing was measured."""
        paths = [
            "M" + "L".join(f"{_short(self.x(x))},{_short(self.y(y))}" for x, y in part)
            for part in parts
        ]
        self._add("line", (_element("path", s.stroke, d=path) for path in paths))

    def markers(
        self, points: Sequence[tuple[float, float]], s: Style, *, hollow: bool
    ) -> None:
        """Draw a series' markers, hollow ones on the page's ground."""
        places = ((self.x(x), self.y(y)) for x, y in points)
        self._add("marker", (_marker(x, y, s, hollow) for x, y in places))

    def whiskers(self, spreads: Sequence[tuple[float, float, float]], s: Style) -> None:
        """Draw spreads, each as x, low and high, with a short bar at both ends."""
        stroke = _stroke(s.colour, WHISKER)
        places = [(self.x(x), self.y(low), self.y(high)) for x, low, high in spreads]
        self._add(
            "whisker", (_line(x, low, 0, high - low, stroke) for x, low, high in places)
        )
        self._add(
            "bar",
            (
                _line(x - WHISKER_END / 2, y, WHISKER_END, 0, stroke)
                for x, *ends in places
                for y in ends
            ),
        )

    def dashes(self, points: Sequence[tuple[float, float]], s: Style) -> None:
        """Draw short level lines, for lone points of a series without markers."""
        places = ((self.x(x) - DASH / 2, self.y(y)) for x, y in points)
        self._add("line", (_line(x, y, DASH, 0, s.stroke) for x, y in places))

    def crosses(self, places: Sequence[tuple[float, float]], s: Style) -> None:
        """Put an × on the baseline for each x, moved sideways by a few pixels."""
        stroke, r = _stroke(s.colour, CROSS_STROKE), CROSS
        path = f"M{-r},{-r}L{r},{r}M{r},{-r}L{-r},{r}"
        self._add(
            "missing",
            (
                _element("path", stroke, _moved(self.x(x) + shift, self.height), d=path)
                for x, shift in places
            ),
        )

    def text(
        self,
        kind: str,
        x: float,
        y: float,
        text: str | Sequence[str],
        *,
        size: int = LABEL,
        colour: str = "var(--cw-text)",
        anchor: str = "start",
        weight: str = "",
    ) -> None:
        """Write a text, or its lines, vertically centred at a pixel."""
        lines = [text] if isinstance(text, str) else text
        look = {"font-weight": weight} if weight else {}
        self._add(kind, [_text(x, y, lines, size, colour, anchor, look)])

    def rule(
        self, kind: str, start: tuple[float, float], end: tuple[float, float], s: Style
    ) -> None:
        """Draw a straight line between two pixels."""
        (x, y), (to_x, to_y) = start, end
        self._add(kind, [_line(x, y, to_x - x, to_y - y, s.stroke)])

    def swatch(self, x: float, y: float, length: float, s: Style, hollow: bool) -> None:
        """Draw a piece of a series' line with its marker, as its key."""
        self.rule("key", (x, y), (x + length, y), s)
        if s.shape:
            self._add("key", [_marker(x + length / 2, y, s, hollow)])

    def draw(self) -> list[ET.Element]:
        """Return the panel's SVG elements: first the axes, then the marks."""
        return [*self._axes(), *self._marks]

    def _axes(self) -> Iterable[ET.Element]:
        """Only the y axis has a grid, only the x axis a line and ticks."""
        rule, muted = _stroke("var(--cw-rule)", 1), _stroke(MUTED, 1)
        across = [(self.x(value), text) for value, text in self.x_ticks]
        up = [(self.y(value), text) for value, text in self.y_ticks]
        foot = self.height + SHARP
        grid = (_line(SHARP, round(y) + SHARP, self.width, 0, rule) for y, _ in up)
        ticks = (
            _line(round(x) + SHARP, foot, 0, TICK_LENGTH, muted) for x, _ in across
        )
        yield _group("grid", grid)
        yield _group("tick", ticks)
        yield _group("domain", [_line(SHARP, foot, self.width, 0, muted)])
        if self.x_labels:
            y = self.height + TICK_LENGTH + 4 + TICK * 0.45
            yield _group("label", (_label(x, y, text, "middle") for x, text in across))
        if self.y_labels:
            yield _group("label", (_label(-8, y, text, "end") for y, text in up))

    def _add(self, kind: str, elements: Iterable[ET.Element]) -> None:
        group = _group(kind, elements)
        if len(group):
            self._marks.append(group)


def _circle(r: float) -> str:
    return f"M{r},0A{r},{r},0,1,1,{-r},0A{r},{r},0,1,1,{r},0Z"


def _square(r: float) -> str:
    return f"M{-r},{-r}H{r}V{r}H{-r}Z"


def _triangle(r: float) -> str:
    """Of equal sides."""
    h = round(r * 3**0.5 / 2, 2)
    return f"M0,{-h}L{r},{h}H{-r}Z"


def _diamond(r: float) -> str:
    return f"M0,{-r}L{r},0L0,{r}L{-r},0Z"


SHAPES: Mapping[str, Callable[[float], str]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "diamond": _diamond,
}


def _marker(x: float, y: float, s: Style, hollow: bool) -> ET.Element:
    fill = "var(--cw-bg)" if hollow else s.colour
    look = {"fill": fill, **_stroke(s.colour, MARKER_STROKE)}
    return _element("path", look, _moved(x, y), d=SHAPES[s.shape](s.radius))


def _line(x: float, y: float, dx: float, dy: float, look: Attributes) -> ET.Element:
    return _element("line", look, _moved(x, y), x2=_short(dx), y2=_short(dy))


def _label(x: float, y: float, text: str, anchor: str) -> ET.Element:
    return _text(x + SHARP, y + SHARP, [text], TICK, MUTED, anchor, {})


def _text(
    x: float,
    y: float,
    lines: Sequence[str],
    size: int,
    colour: str,
    anchor: str,
    look: Attributes,
) -> ET.Element:
    first = y - LINE * (len(lines) - 1) / 2 + round(size * BASELINE)
    ink = {"font-size": f"{size}px", "fill": colour, "text-anchor": anchor}
    text = _element("text", ink | dict(look), _moved(x, first))
    if len(lines) == 1:
        text.text = lines[0]
        return text
    for number, line in enumerate(lines):
        step = {"x": "0", "dy": str(LINE)} if number else {}
        ET.SubElement(text, "tspan", step).text = line
    return text


def _group(kind: str, elements: Iterable[ET.Element]) -> ET.Element:
    group = ET.Element("g", {"class": f"cw-chart-{kind}"})
    group.extend(elements)
    return group


def _element(tag: str, *attributes: Attributes, **more: str) -> ET.Element:
    return ET.Element(
        tag, {k: v for one in (*attributes, more) for k, v in one.items()}
    )


def _stroke(colour: str, width: float) -> dict[str, str]:
    return {"stroke": colour, "stroke-width": f"{width:g}"}


def _moved(x: float, y: float) -> Attributes:
    return {"transform": f"translate({_short(x)},{_short(y)})"}


def _short(number: float) -> str:
    """A hundredth of a pixel is finer than any screen."""
    return f"{round(number, 2) + 0.0:.12g}"
