"""The softmax's inner sum in two ways, and what one bad row does to all keys."""

from bench.figures.drawing import CELL, GAP, arrow, box, cells, path, sheet, text, word

KEYS, DIM = 132, 40  # of a drawn V
THIN = 12


def delta_two_ways() -> str:
    """p V g, with V g first and with p V first."""
    parts = []
    for x, title in ((0, "along"), (326, "output")):
        parts.append(text(x, 14, word(title), "start", "strong"))
    parts += _product(0, first=True) + _product(326, first=False)
    return sheet("delta-two-ways", 268, parts)


def _product(x: float, *, first: bool) -> list[str]:
    """p, V and g in a row; what is multiplied first has a line around it."""
    top = 48
    p_y = top + (KEYS - THIN) / 2
    v_x, g_x = x + 112, x + 186
    around = (v_x - 10, g_x + THIN + 10) if first else (x - 0, v_x + DIM + 10)
    parts = [
        box(around[0] + 1, top - 8, around[1] - around[0] - 2, KEYS + 16, "skipped"),
        box(x + 8, p_y, 84, THIN, "nearer"),
        text(x + 50, p_y + 28, "p"),
        box(v_x, top, DIM, KEYS, "tile"),
        text(v_x + DIM / 2, top + KEYS / 2, "V"),
        box(g_x, top + (KEYS - DIM) / 2, THIN, DIM, "nearer"),
        text(g_x + THIN / 2, top + (KEYS + DIM) / 2 + 16, "g"),
    ]
    middle = (around[0] + around[1]) / 2
    parts.append(arrow(middle, top + KEYS + 8, middle, top + KEYS + 32))
    result_y = top + KEYS + 50
    words = word("dp") if first else word("o")
    parts.append(text(middle, result_y, words))
    return parts


QUERIES, COLUMNS = 6, 5
BAD = 2


def one_bad_row() -> str:
    """A grid of weights, queries down and keys right; dv sums its columns."""
    x, y, step = 150, 40, CELL + GAP
    right = x + COLUMNS * step
    below = y + QUERIES * step
    bad_y = y + BAD * step + CELL / 2
    parts = [
        text(x + COLUMNS * step / 2 - GAP, 16, "P"),
        cells(x, y, QUERIES, COLUMNS, lambda r, _c: "now" if r == BAD else "tile"),
        text(x - 12, bad_y, word("bad"), "end"),
    ]
    for column in range(COLUMNS):
        at = x + column * step + CELL / 2
        parts.append(text(at, bad_y, "×", "strong"))
        parts.append(arrow(at, below + 2, at, below + 26))
        parts.append(box(at - CELL / 2, below + 30, CELL, CELL, "now"))
        parts.append(text(at, below + 30 + CELL / 2, "×", "strong"))
    parts += [
        text(x - 12, below + 30 + CELL / 2, "dV", "end"),
        text(right + 24, bad_y, word("own"), "start", "quiet"),
        path([(right + 2, bad_y), (right + 18, bad_y)]),
        text(right + 24, below + 30 + CELL / 2, word("all"), "start", "quiet"),
        path([(right + 2, below + 44), (right + 18, below + 44)]),
    ]
    return sheet("one-bad-row", below + 74, parts)
