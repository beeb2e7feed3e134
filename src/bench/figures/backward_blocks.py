"""Blocks that each have a softmax of their own, and how two answers are joined."""

import math

from bench.figures.drawing import box, path, sheet, text, word

SCORES = (0.0, 0.0, 10.0, 10.0)  # in two blocks of two
VALUES = (0.0, 0.0, 1.0, 1.0)
BAR, GAP, BLOCK_GAP = 30, 6, 18
FLOOR, HEIGHT = 176, 110  # of a weight of a half


def weights(scores: tuple[float, ...]) -> list[float]:
    top = max(scores)
    exponentials = [math.exp(score - top) for score in scores]
    return [x / sum(exponentials) for x in exponentials]


def alone() -> list[float]:
    """Each block by itself: both sum to 1."""
    return weights(SCORES[:2]) + weights(SCORES[2:])


def answer(each: list[float]) -> float:
    return sum(w * v for w, v in zip(each, VALUES, strict=True))


def blocks_alone() -> str:
    """Three charts of four bars: two blocks, their mean, the whole row."""
    halved = [weight / 2 for weight in alone()]
    row = weights(SCORES)
    parts = []
    for x, title, bars, found in (
        (10, "alone", alone(), "0 | 1"),
        (222, "mean", halved, f"{answer(halved):g}"),
        (434, "row", row, f"{answer(row):.7f}"),
    ):
        width = 4 * BAR + 2 * GAP + BLOCK_GAP
        parts.append(text(x + width / 2, 16, word(title), "strong"))
        parts.append(path([(x - 8, FLOOR), (x + width + 8, FLOOR)]))
        for index, weight in enumerate(bars):
            at = x + index * BAR + (index // 2) * BLOCK_GAP + (index - index // 2) * GAP
            height = HEIGHT * weight / 0.5
            if height >= 0.5:
                parts.append(box(at, FLOOR - height, BAR, height, "nearer"))
            label = _weight(weight)
            parts.append(text(at + BAR / 2, FLOOR - height - 12, label, "index"))
            parts.append(
                text(at + BAR / 2, FLOOR + 16, f"{SCORES[index]:g}", "index", "quiet")
            )
        parts.append(text(x + width / 2, FLOOR + 44, word("answer") + " " + found))
    parts.append(text(0, FLOOR + 72, word("scores"), "start", "quiet"))
    return sheet("blocks-alone", FLOOR + 86, parts)


def _weight(weight: float) -> str:
    """A fraction where it is one, up to what cannot be seen."""
    for fraction, sign in ((0.5, "½"), (0.25, "¼"), (0.0, "≈ 0")):
        if abs(weight - fraction) < 1e-4:
            return sign
    raise ValueError(f"no sign for a weight of {weight}")


CURVE_LEFT, CURVE_RIGHT, CURVE_TOP, CURVE_FLOOR = 70, 590, 40, 200
LIMIT = 12


def share(gap: float) -> float:
    """Of the second block, whose lse is `gap` above that of the first."""
    return 1 / (1 + math.exp(-gap))


def lse_gap() -> str:
    """The share as a curve; the mean is right at one point of it."""
    curve = [_at(step / 4) for step in range(-4 * LIMIT, 4 * LIMIT + 1)]
    parts = [
        path([(CURVE_LEFT, CURVE_FLOOR), (CURVE_RIGHT, CURVE_FLOOR)], "rule"),
        path([(CURVE_LEFT, CURVE_TOP), (CURVE_RIGHT, CURVE_TOP)], "rule"),
        text(CURVE_LEFT - 10, CURVE_FLOOR, "0", "end", "quiet"),
        text(CURVE_LEFT - 10, CURVE_TOP, "1", "end", "quiet"),
        text(0, 14, word("share"), "start", "quiet"),
        path(curve, "now"),
    ]
    for gap in (-10, -5, 0, 5, 10):
        x, _ = _at(gap)
        parts.append(text(x, CURVE_FLOOR + 18, str(gap).replace("-", "−"), "quiet"))
    for gap, key, dx, dy, kind in (
        (0, "equal", 14, 8, "start"),
        (10, "example", 0, 22, ""),
    ):
        x, y = _at(gap)
        parts.append(box(x - 4, y - 4, 8, 8, "data"))
        parts.append(text(x + dx, y + dy, word(key), kind))
    parts.append(text((CURVE_LEFT + CURVE_RIGHT) / 2, CURVE_FLOOR + 44, word("gap")))
    return sheet("lse-gap", CURVE_FLOOR + 60, parts)


def _at(gap: float) -> tuple[float, float]:
    x = CURVE_LEFT + (gap + LIMIT) / (2 * LIMIT) * (CURVE_RIGHT - CURVE_LEFT)
    return x, CURVE_FLOOR - share(gap) * (CURVE_FLOOR - CURVE_TOP)
