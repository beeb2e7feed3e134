"""What a program writes at its end, and how little that is, to scale."""

import math

from bench.cases import SEEDS
from bench.figures.drawing import arrow, box, labelled, sheet, text, word

_WEIGHTS_SIDE = 178


def row_end() -> str:
    """On the left a row's state and its two results; on the right their memory."""
    parts = [
        text(0, 14, word("state"), "start", "quiet"),
        labelled(1, 30, 64, 36, "acc", "tile"),
        labelled(1, 92, 64, 36, "ℓ", "tile"),
        labelled(1, 154, 64, 36, "m", "tile"),
        text(196, 14, word("stored"), "start", "quiet"),
        arrow(65, 48, 150, 48),
        arrow(65, 172, 150, 172),
        *_join(65, 110, 107, 48, "÷"),
        *_join(65, 110, 107, 172, "+ log"),
        labelled(156, 30, 116, 36, "acc / ℓ", "full"),
        labelled(156, 154, 116, 36, "m + log ℓ", "full"),
        text(214, 84, "out", "code"),
        text(214, 208, "lse", "code"),
        *_areas(344, 30),
    ]
    return sheet("row-end", 240, parts)


def _join(x0: float, y: float, x1: float, y1: float, sign: str) -> list[str]:
    """A line from the denominator that turns and meets the line at y1."""
    end = y1 + 6 if y1 < y else y1 - 6
    turn = f'<path d="M{x0} {y}H{x1}V{end}"/>'
    return [turn, text(x1 + 8, (y + end) / 2, sign, "start", "quiet")]


def _areas(x: float, y: float) -> list[str]:
    """Squares whose areas are the bytes of the weights, the output and lse."""
    case = SEEDS[64]
    weights = case.seqlen_k * 2  # bytes a row, in 16 bits
    out, lse = case.head_dim * 2, 4
    sides = [_WEIGHTS_SIDE * math.sqrt(size / weights) for size in (out, lse)]
    right = x + _WEIGHTS_SIDE + 18
    return [
        text(x, y - 16, word("never"), "start", "quiet"),
        box(x, y, _WEIGHTS_SIDE, _WEIGHTS_SIDE, "skipped"),
        text(x + _WEIGHTS_SIDE / 2, y + _WEIGHTS_SIDE / 2, "P"),
        box(right, y, sides[0], sides[0], "full"),
        text(right + sides[0] + 8, y + sides[0] / 2, "out", "start", "code"),
        box(right, y + 62, sides[1], sides[1], "full"),
        text(right + sides[0] + 8, y + 64, "lse", "start", "code"),
        text(right, y + 110, word("scale"), "start", "quiet"),
    ]
