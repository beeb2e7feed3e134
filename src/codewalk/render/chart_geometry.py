"""Arithmetic of the charts: scales, ticks, text widths, labels pushed apart.

Everything here is numbers and strings in, numbers and strings out. The page's font
is not known when a chart is drawn, so widths of text are estimates on the wide side.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

NARROW = frozenset("ijlftrI.,:;'|!()[]/- \u00a0·")
WIDE = frozenset("mwMW@%")
CLOSING = frozenset("，。、；：！？）》」』”’")
TICK_GAP = 10.0


@dataclass(frozen=True)
class Scale:
    """One axis: the values `low` to `high` lie on the pixels `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float
    log2: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high = self.low, self.high
        if self.log2:
            value, low, high = math.log2(value), math.log2(low), math.log2(high)
        return self.start + (value - low) / (high - low) * (self.stop - self.start)


def x_scale(values: Sequence[float], width: float, inset: float, log2: bool) -> Scale:
    """Scale that puts the outermost values `inset` pixels inside of the plot.

    A lone value stands in the middle.
    """
    low, high = min(values), max(values)
    if low == high:
        low, high = (low / 2, high * 2) if log2 else (low - 1, high + 1)
    share = inset / (width - 2 * inset)
    if log2:
        factor = (high / low) ** share
        return Scale(low / factor, high * factor, 0, width, log2)
    more = (high - low) * share
    return Scale(low - more, high + more, 0, width)


def text_width(text: str, size: float) -> float:
    """Estimate how wide a text is drawn in a sans-serif font of this size."""
    return size * sum(_em(char) for char in text)


def _em(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in NARROW:
        return 0.35
    if char in WIDE:
        return 0.92
    return 0.7 if char.isupper() else 0.58


def wrap(text: str, size: float, limit: float) -> list[str]:
    """Break a text into lines no wider than `limit`, inside a word only if it must.

    A Chinese closing mark may stick out: it must not begin a line.
    """
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if text_width(longer, size) <= limit:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for char in word:
            full = text_width(lines[-1] + char, size) > limit
            if lines[-1] and full and char not in CLOSING:
                lines.append("")
            lines[-1] += char
    return lines


def nice_step(span: float, count: int) -> float:
    """Return the smallest of 1, 2, 2.5, 5 × 10ⁿ with at most `count` steps in span."""
    power = math.floor(math.log10(span / count))
    candidates = (m * 10.0**e for e in (power, power + 1) for m in (1, 2, 2.5, 5))
    # The last candidate always fits; the tolerance forgives the division's rounding.
    return next(step for step in candidates if span / step <= count + 1e-9)


def ticks_from_zero(top: float, count: int) -> list[float]:
    """Ticks from 0 to the first nice value that is not below `top`."""
    step = nice_step(top or 1.0, count)
    number = max(1, math.ceil((top or 1.0) / step - 1e-9))
    return [_tidy(i * step) for i in range(number + 1)]


def _tidy(value: float) -> float:
    """Drop the digits that only rounding put there: 0.30000000000000004."""
    return float(f"{value:.12g}")


def plain_labels(ticks: Sequence[float]) -> list[str]:
    """Print ticks with equally many decimals, as many as the finest one needs."""
    texts = [f"{tick:.12g}" for tick in ticks]
    if any("e" in text for text in texts):
        return texts
    decimals = max(len(text.partition(".")[2]) for text in texts)
    return [f"{tick:.{decimals}f}" for tick in ticks]


def binary_label(value: float) -> str:
    """Print a size as people say it: 512, 1k for 1024, 1M for 1024²."""
    for unit, letter in ((1024**2, "M"), (1024, "k")):
        if value >= unit and value % unit == 0:
            return f"{value / unit:.12g}{letter}"
    return f"{value:.12g}"


def x_ticks(
    values: Sequence[float], scale: Scale, size: float
) -> list[tuple[float, str]]:
    """Choose the x ticks and their labels, as many as stand side by side."""
    occurring = sorted(set(values))
    if scale.log2:
        chosen = [v for v in occurring if math.log2(v).is_integer()] or occurring
        return _thin([(v, binary_label(v)) for v in chosen], scale, size)
    labelled = list(zip(occurring, plain_labels(occurring), strict=True))
    if _fit(labelled, scale, size) or len(occurring) == 1:
        return labelled
    step = nice_step(scale.high - scale.low, 6)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    ticks = [_tidy(i * step) for i in range(first, last + 1)]
    return _thin(list(zip(ticks, plain_labels(ticks), strict=True)), scale, size)


def _thin(
    ticks: list[tuple[float, str]], scale: Scale, size: float
) -> list[tuple[float, str]]:
    """Keep every n-th tick, counted from the last, so that labels do not touch."""
    for stride in range(1, len(ticks)):
        kept = ticks[::-1][::stride][::-1]
        if _fit(kept, scale, size):
            return kept
    return ticks[-1:]


def _fit(ticks: Sequence[tuple[float, str]], scale: Scale, size: float) -> bool:
    widths = [text_width(label, size) for _, label in ticks]
    places = [scale(value) for value, _ in ticks]
    return all(
        places[i + 1] - places[i] >= (widths[i] + widths[i + 1]) / 2 + TICK_GAP
        for i in range(len(ticks) - 1)
    )


def push_apart(
    wanted: Sequence[float], heights: Sequence[float], low: float, high: float
) -> list[float]:
    """Move centres, given in ascending order, until no two boxes overlap.

    The order stays and the squared moves are the least possible: once each box's
    share of the stack is subtracted, the task is to make a sequence non-descending,
    which pooling neighbours that are out of order solves exactly. The caller sees to
    it that the boxes fit between `low` and `high`.
    """
    offsets = [0.0]
    for above, below in pairwise(heights):
        offsets.append(offsets[-1] + (above + below) / 2)
    pools: list[tuple[float, int]] = []  # the sum of each pool, and its size
    for want, offset in zip(wanted, offsets, strict=True):
        total, size = want - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / size:
            before, count = pools.pop()
            total, size = total + before, size + count
        pools.append((total, size))
    least = low + heights[0] / 2
    most = high - heights[-1] / 2 - offsets[-1]
    starts = [total / size for total, size in pools for _ in range(size)]
    return [
        max(least, min(most, start)) + offset
        for start, offset in zip(starts, offsets, strict=True)
    ]
