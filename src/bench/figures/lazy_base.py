"""A row's maximum, block by block, and the base that a lazy rescale keeps."""

from itertools import pairwise

from bench.figures.drawing import arrow, box, path, sheet, text, word

MAXIMA = (3, 5, 6, 6, 10, 12, 13, 14)  # of the scores so far, in base 2
GROWTH = 8
LEFT, STEP, FLOOR, UNIT = 60, 66, 214, 12


def bases(maxima: tuple[int, ...], growth: int) -> list[int]:
    """The base after each block: the old one, until it is outgrown."""
    kept: list[int] = []
    for maximum in maxima:
        if not kept or maximum - kept[-1] > growth:
            kept.append(maximum)
        else:
            kept.append(kept[-1])
    return kept


def lazy_base() -> str:
    kept = bases(MAXIMA, GROWTH)
    parts = [path([(LEFT, FLOOR), (LEFT + len(MAXIMA) * STEP, FLOOR)], "rule")]
    for block, (base, maximum) in enumerate(zip(kept, MAXIMA, strict=True)):
        x = LEFT + block * STEP
        height = (maximum - base) * UNIT
        if height:
            parts.append(box(x, FLOOR - maximum * UNIT, STEP, height, "near"))
        parts.append(text(x + STEP / 2, FLOOR + 16, str(block), "index", "quiet"))
    parts.append(path(_stairs(MAXIMA), "past"))
    parts.append(path(_stairs(kept), "now"))
    for block, (before, after) in enumerate(pairwise(kept), start=1):
        if after != before:
            x = LEFT + block * STEP
            parts.append(text(x - 8, FLOOR - 11.4 * UNIT, word("moves"), "end"))
    right = LEFT + len(MAXIMA) * STEP
    parts += [
        text(LEFT, 14, word("score"), "start", "quiet"),
        text(right - 4, FLOOR - 15.2 * UNIT, word("maximum"), "end", "quiet"),
        text(right - 4, FLOOR - 10.8 * UNIT, word("base"), "end", "strong"),
        text(LEFT, FLOOR + 40, word("blocks"), "start", "quiet"),
        arrow(LEFT + 130, FLOOR + 40, right, FLOOR + 40),
    ]
    return sheet("lazy-base", FLOOR + 56, parts)


def _stairs(values: tuple[int, ...] | list[int]) -> list[tuple[float, float]]:
    """A step a block."""
    return [
        (LEFT + (block + side) * STEP, FLOOR - value * UNIT)
        for block, value in enumerate(values)
        for side in (0, 1)
    ]
