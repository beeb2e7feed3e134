"""Who multiplies and who takes exponentials, over time: drawn, not measured.

Lengths are those of the chapter: at the published rates a product of 64 queries
with 128 keys of head dim 128 takes as long as the exponentials of its scores.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bench.figures.drawing import GAP, arrow, box, sheet, text, word

LEFT, BAR, LANE = 132, 24, 30  # where time begins; a bar's height; a lane's


class Span(NamedTuple):
    """Something that takes from `start` for `length` units; a word if it fits."""

    start: float
    length: float
    label: str
    kind: str


def product(start: float, length: float, label: str = "") -> Span:
    return Span(start, length, label, "nearer")


def softmax(start: float, length: float, label: str = "") -> Span:
    return Span(start, length, label, "tile")


def idle(start: float, length: float) -> Span:
    return Span(start, length, "", "skipped")


def lane(y: float, name: str, spans: Iterable[Span], unit: float) -> list[str]:
    """One line of time: its name, and what happens on it."""
    parts = [text(0, y + BAR / 2, name, "start", "quiet")]
    for span in spans:
        x, width = LEFT + span.start * unit, span.length * unit - GAP
        parts.append(box(x, y, width, BAR, span.kind))
        if span.label:
            parts.append(text(x + width / 2, y + BAR / 2, span.label, "index"))
    return parts


def time_axis(y: float, end: float) -> list[str]:
    return [
        text(LEFT, y, word("time"), "start", "quiet"),
        arrow(LEFT + 96, y, end, y),
    ]


def in_flight() -> str:
    """One warpgroup in turn, as the next rung is written, and as it is compiled."""
    unit, blocks = 48, 3
    in_turn = [
        *(product(3 * j, 1, f"S{j}") for j in range(blocks)),
        *(softmax(3 * j + 1, 1) for j in range(blocks)),
        *(product(3 * j + 2, 1, f"O{j}") for j in range(blocks)),
    ]
    # After the first block: the scores of j and, behind them, the values of j - 1.
    written = [product(0, 1, "S0"), softmax(1, 1)]
    compiled = [product(0, 1, "S0"), softmax(1, 1)]
    for j in range(1, blocks + 1):
        start = 2 * j
        written += [product(start, 1, f"S{j}"), product(start + 1, 1, f"O{j - 1}")]
        written.append(softmax(start + 1, 1))
    for j in range(1, blocks):
        start = 3 * j - 1
        compiled += [product(start, 1, f"S{j}"), product(start + 1, 1, f"O{j - 1}")]
        compiled += [softmax(start + 1, 0.4), softmax(start + 2, 0.75)]
    parts: list[str] = []
    y = 16.0
    for key, spans in (("turn", in_turn), ("written", written), ("compiled", compiled)):
        parts.append(text(0, y, word(key), "start"))
        multiplied = [s for s in spans if s.kind == "nearer"]
        weighed = [s for s in spans if s.kind == "tile"]
        parts += lane(y + 14, word("products"), multiplied, unit)
        parts += lane(y + 14 + LANE, word("softmax"), weighed, unit)
        y += 100
    return sheet("in-flight", y + 6, [*parts, *time_axis(y - 6, LEFT + 9 * unit)])


def turns() -> str:
    """Warpgroups in step, two of them, and in turn, three."""
    unit = 40
    parts = [text(0, 16, word("step"), "start")]
    for group in range(2):
        spans = [
            span
            for start in (0, 4, 8)
            for span in (product(start, 2), softmax(start + 2, 2))
        ]
        parts += lane(30 + group * LANE, f"{word('group')} {group}", spans, unit)
    busy = [
        span
        for start in (0, 4, 8)
        for span in (product(start, 2, word("busy")), idle(start + 2, 2))
    ]
    parts += lane(38 + 2 * LANE, word("cores"), busy, unit)

    parts.append(text(0, 158, word("turn"), "start"))
    for group in range(3):
        spans = []
        for start in range(group, 12, 3):
            spans += [product(start, 1), softmax(start + 1, min(2, 11 - start))]
        if group:
            spans.insert(0, idle(0, group))
        spans = [s for s in spans if s.length > 0]
        parts += lane(172 + group * LANE, f"{word('group')} {group}", spans, unit)
    busy = [product(0, 12, word("busy"))]
    parts += lane(180 + 3 * LANE, word("cores"), busy, unit)
    return sheet("turns", 320, [*parts, *time_axis(308, LEFT + 12 * unit)])
