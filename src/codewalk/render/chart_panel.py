"""One panel of a chart: Altair marks in, tidy SVG elements out.

A panel's origin is the upper left corner of its plot; titles and labels stand outside
of it, at negative or larger coordinates. What is data is drawn through Altair's
scales, what is annotation is placed in pixels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from xml.etree import ElementTree as ET

from codewalk.render.chart_geometry import Scale

LABEL, TICK, LINE = 13, 12, 16  # text sizes, and the height of a line of labels
MARKER = 10.0  # how much room a marker takes, with a hair of ground around it
CROSS = "M-1,-1L1,1M1,-1L-1,1"
GEOMETRY = frozenset(("d", "dy", "transform", "x", "x2", "y", "y2"))
PAINT = frozenset(("fill", "stroke", "stroke-dasharray", "stroke-width"))
TEXT = frozenset(("font-size", "font-weight", "text-anchor"))
KIND = re.compile(r"\b([a-z]+)_\d+_marks\b")
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


@dataclass(frozen=True)
class Style:
    """How a series looks: its colour, its line, and its marker if it has one."""

    colour: str
    width: float
    dash: tuple[int, ...] = ()
    shape: str = ""
    area: float = 0.0

    @property
    def stroke(self) -> dict[str, Any]:
        """The line's properties, in Vega's words."""
        dash = {"strokeDash": list(self.dash)} if self.dash else {}
        return {"color": self.colour, "strokeWidth": self.width, **dash}


@dataclass
class Panel:
    """A plot that is drawn mark by mark; later marks lie above earlier ones."""

    x: Scale
    y: Scale
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    x_labels: bool = True
    y_labels: bool = True
    _layers: list[Any] = field(default_factory=list, init=False)

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
        rows = [
            {"x": x, "y": y, "part": number}
            for number, part in enumerate(parts)
            for x, y in part
        ]
        mark = {"type": "line", "strokeJoin": "round", **s.stroke}
        self._data("line", mark, rows, detail="part:N")

    def markers(
        self, points: Sequence[tuple[float, float]], s: Style, *, hollow: bool
    ) -> None:
        """Draw a series' markers, hollow ones on the page's ground."""
        rows = [{"x": x, "y": y} for x, y in points]
        self._data("marker", self._marker(s, hollow), rows)

    def whiskers(self, spreads: Sequence[tuple[float, float, float]], s: Style) -> None:
        """Draw spreads, each as x, low and high, with a short bar at both ends."""
        rows = [{"x": x, "y": low, "y2": high} for x, low, high in spreads]
        ends = [{"x": x, "y": end} for x, *both in spreads for end in both]
        bar = {"color": s.colour, "thickness": 1.25, "size": 7, "orient": "horizontal"}
        rule = {"type": "rule", "color": s.colour, "strokeWidth": 1.25}
        self._data("whisker", rule, rows, y2="y2:Q")
        self._data("bar", {"type": "tick", **bar}, ends)

    def dashes(self, points: Sequence[tuple[float, float]], s: Style) -> None:
        """Draw short level lines, for lone points of a series without markers."""
        rows = [{"x": x, "y": y} for x, y in points]
        dash = {"type": "point", "shape": "stroke", "size": 600}
        dash |= {"stroke": s.colour, "strokeWidth": s.width, "strokeDash": [*s.dash]}
        self._data("line", dash, rows)

    def crosses(self, places: Sequence[tuple[float, float]], s: Style) -> None:
        """Put an × on the baseline for each x, moved sideways by a few pixels."""
        for x, shift in places:
            mark = {"type": "point", "shape": CROSS, "size": 70, "xOffset": shift}
            mark |= {"stroke": s.colour, "strokeWidth": 1.75, "fill": None}
            self._data("missing", mark, [{"x": x, "y": 0}])

    def text(
        self,
        kind: str,
        x: float,
        y: float,
        text: str | Sequence[str],
        *,
        size: int = LABEL,
        colour: str = "var(--cw-text)",
        **more: Any,
    ) -> None:
        """Write a text, or its lines, vertically centred at a pixel."""
        lines = text if isinstance(text, str) else list(text)
        mark = {"type": "text", "text": lines, "fontSize": size, "color": colour}
        mark |= {"align": "left", "baseline": "middle", "lineHeight": LINE, **more}
        self._pixels(kind, mark, x=x, y=y)

    def rule(
        self, kind: str, start: tuple[float, float], end: tuple[float, float], s: Style
    ) -> None:
        """Draw a straight line between two pixels."""
        places = {"x": start[0], "y": start[1], "x2": end[0], "y2": end[1]}
        self._pixels(kind, {"type": "rule", **s.stroke}, **places)

    def swatch(self, x: float, y: float, length: float, s: Style, hollow: bool) -> None:
        """Draw a piece of a series' line with its marker, as its key."""
        self.rule("key", (x, y), (x + length, y), s)
        if s.shape:
            self._pixels("key", self._marker(s, hollow), x=x + length / 2, y=y)

    def draw(self) -> list[ET.Element]:
        """Return the panel's SVG elements, freed of all that Vega adds."""
        # Both take most of a second to load: only a build with a chart pays.
        import altair as alt
        import vl_convert

        chart = alt.layer(*self._layers, width=self.width, height=self.height)
        chart = chart.properties(
            padding=0, autosize=alt.AutoSizeParams(type="none")
        ).configure(view={"stroke": None})
        # Altair's own check of what it is given took more time than the drawing.
        svg: str = vl_convert.vegalite_to_svg(chart.to_dict(validate=False))
        return [part for child in ET.fromstring(svg) for part in _tidied(child)]

    def _marker(self, s: Style, hollow: bool) -> dict[str, Any]:
        fill = "var(--cw-bg)" if hollow else s.colour
        mark = {"type": "point", "shape": s.shape, "size": s.area, "opacity": 1}
        return mark | {"fill": fill, "stroke": s.colour, "strokeWidth": 1.5}

    def _data(
        self, kind: str, mark: Any, rows: list[dict[str, float]], **more: str
    ) -> None:
        if rows:
            self._add(kind, mark, rows, **self._axes, **more)

    def _pixels(self, kind: str, mark: Any, **places: float) -> None:
        import altair as alt

        at = {channel: alt.value(place) for channel, place in places.items()}
        self._add(kind, mark, [{}], **at)

    def _add(self, kind: str, mark: Any, rows: list[Any], **encoding: Any) -> None:
        import altair as alt

        name = f"{kind}_{len(self._layers)}"  # comes back as a class in the SVG
        chart = alt.Chart(alt.InlineData(values=rows), name=name, mark=mark)
        self._layers.append(chart.encode(**encoding))

    @cached_property
    def _axes(self) -> dict[str, Any]:
        return {
            "x": self._axis("X", self.x, self.x_ticks, self.x_labels, grid=False),
            "y": self._axis("Y", self.y, self.y_ticks, self.y_labels, grid=True),
        }

    def _axis(
        self,
        channel: str,
        scale: Scale,
        ticks: Sequence[tuple[float, str]],
        labels: bool,
        *,
        grid: bool,
    ) -> Any:
        """An Altair channel. Only the y axis has a grid, only the x axis a line."""
        import altair as alt

        values = [value for value, _ in ticks]
        texts = json.dumps([text for _, text in ticks])
        axis = alt.Axis(
            title=None,
            values=values,
            labelExpr=f"{texts}[indexof({json.dumps(values)}, datum.value)]",
            labels=labels,
            labelFontSize=TICK,
            labelColor="var(--cw-muted)",
            labelOverlap=False,
            labelFlush=False,
            labelPadding=8 if grid else 4,
            grid=grid,
            gridColor="var(--cw-rule)",
            ticks=not grid,
            tickSize=4,
            tickColor="var(--cw-muted)",
            domain=not grid,
            domainColor="var(--cw-muted)",
        )
        kind: dict[str, Any] = {"type": "log", "base": 2} if scale.log2 else {}
        return getattr(alt, channel)(
            f"{channel.lower()}:Q",
            axis=axis,
            scale=alt.Scale(
                domain=[scale.low, scale.high],
                range=[scale.start, scale.stop],
                nice=False,
                zero=False,
                **kind,
            ),
        )


def _tidied(element: ET.Element) -> list[ET.Element]:
    """Copy a Vega element with what a page needs: no roles, fonts, empty groups.

    A group that says nothing is replaced by its children, hence a list.
    """
    tag = element.tag.rpartition("}")[2]
    name = element.get("class", "")
    if tag == "rect" or name in ("background", "foreground"):
        return []
    children = [part for child in element for part in _tidied(child)]
    attributes = {
        key: LONG_NUMBER.sub(_shorter, value) if key in GEOMETRY else value
        for key, value in element.items()
        if key in GEOMETRY | PAINT | TEXT and value != "translate(0,0)"
    }
    if kind := KIND.search(name):
        attributes["class"] = f"cw-chart-{kind[1]}"
    elif "role-axis-" in name:
        attributes["class"] = f"cw-chart-{name.rpartition('role-axis-')[2]}"
    if tag == "g" and not (attributes and children):
        return children
    copy = ET.Element(tag, attributes)
    copy.text = element.text
    copy.extend(children)
    return [copy]


def _shorter(number: re.Match[str]) -> str:
    """A hundredth of a pixel is finer than any screen."""
    return f"{round(float(number[0]), 2) + 0.0:.12g}"
