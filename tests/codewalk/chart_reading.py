"""Small charts for the tests, and ways to read what was drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from codewalk.render.charts import Axis, Point, Series, line_chart

SVG = "{http://www.w3.org/2000/svg}"
LENGTHS = (1024, 2048, 4096)


def points(
    values: Sequence[float | None], xs: Sequence[float] = LENGTHS, spread: float = 0.0
) -> tuple[Point, ...]:
    return tuple(
        Point(x, y, y and y * (1 - spread), y and y * (1 + spread))
        for x, y in zip(xs, values, strict=True)
    )


def series(
    values: Sequence[float | None] = (100, 200, 250),
    label: str = "FlashWalk",
    style: str = "ours",
    *,
    stale: bool = False,
    spread: float = 0.0,
) -> Series:
    return Series(label, label, style, points(values, spread=spread), stale)


def draw(*shown: Series, log2: bool = True, **more: object) -> str:
    settled: dict[str, object] = {
        "x": Axis("sequence length, log scale", log2=log2),
        "y": Axis("", "TFLOP/s"),
        "title": "Ours keeps up",
        "description": "At 4096 keys: ours 250 TFLOP/s",
    }
    return line_chart(shown, **(settled | more))  # type: ignore[arg-type]


def placed(
    element: ET.Element, x: float = 0, y: float = 0, group: str = ""
) -> Iterator[tuple[str, ET.Element, float, float]]:
    """Walk the drawing: each element with its group's class and where it really is."""
    group = element.get("class") or group
    for move in re.findall(
        r"translate\(([^,)]+),([^)]+)\)", element.get("transform", "")
    ):
        x, y = x + float(move[0]), y + float(move[1])
    yield group.removeprefix("cw-chart-"), element, x, y
    for child in element:
        yield from placed(child, x, y, group)


def of_kind(
    svg: str, kind: str, tag: str = ""
) -> list[tuple[ET.Element, float, float]]:
    """The drawn elements of one kind, in the order of the text."""
    return [
        (element, x, y)
        for group, element, x, y in placed(ET.fromstring(svg))
        if group == kind and element.tag != SVG + "g" and tag in element.tag
    ]


def words(svg: str, kind: str) -> list[str]:
    return ["".join(e.itertext()) for e, _, _ in of_kind(svg, kind, "text")]


def peers(number: int) -> list[Series]:
    return [
        series((90 + 9 * i, 150, 170), f"peer no. {i}", f"peer-{i % 3 + 1}")
        for i in range(number)
    ]
