"""What lies between forward and backward, to scale, and who is alive when."""

import math

from bench.cases import SEEDS
from bench.figures.drawing import box, path, sheet, text, word

SIDE = 176  # of the matrix of weights
CASE = SEEDS[128]

FORWARD, BETWEEN, BACKWARD, END = 116, 276, 388, 612


def sides() -> dict[str, float]:
    """The sides of squares whose areas are the bytes, in the order of size."""
    matrix = CASE.seqlen_k * 2  # bytes a row, in 16 bits
    bytes_of = {"P": matrix, "Q": CASE.head_dim * 2, "lse": 4}
    return {name: SIDE * math.sqrt(size / matrix) for name, size in bytes_of.items()}


def memory_bill() -> str:
    """On the left what autograd keeps of the naive version, on the right ours."""
    small = sides()["Q"]
    dot = sides()["lse"]
    parts = [
        text(0, 14, word("naive"), "start", "strong"),
        *_squares(0, 34, "QKV", small),
        box(150, 34, SIDE, SIDE, "nearer"),
        text(150 + SIDE / 2, 34 + SIDE / 2, "P: " + _size(CASE.seqlen_k * 2)),
        text(380, 14, word("ours"), "start", "strong"),
        *_squares(380, 34, "QKVO", small),
        box(380, 100, dot, dot, "data"),
        text(394, 101, "lse: " + _size(4), "start"),
        text(380, 138, word("no-p"), "start", "quiet"),
        text(0, 138, word("each") + " " + _size(CASE.head_dim * 2), "start", "quiet"),
    ]
    return sheet("memory-bill", 226, parts)


def _squares(x: float, y: float, names: str, side: float) -> list[str]:
    step = side + 22
    parts = []
    for index, name in enumerate(names):
        parts.append(box(x + index * step, y, side, side, "data"))
        parts.append(text(x + index * step + side / 2, y + side + 14, name))
    return parts


def _size(row: int) -> str:
    """Bytes a row, written as the bytes of all rows."""
    whole = CASE.batch * CASE.nheads * CASE.seqlen_q * row
    gib, mib = whole / 2**30, whole / 2**20
    return f"{gib:g} GiB" if gib >= 1 else f"{mib:g} MiB"


# Name, from where to where, and how large: 2 a matrix, 1 a tensor, 0 a number a row.
NAIVE = (
    ("Q, K, V", FORWARD, END, 1),
    ("S", FORWARD + 16, FORWARD + 80, 2),
    ("P", FORWARD + 64, BACKWARD + 128, 2),
    ("O", FORWARD + 128, BETWEEN + 16, 1),
    ("dP", BACKWARD + 24, BACKWARD + 128, 2),
    ("dS", BACKWARD + 96, BACKWARD + 200, 2),
    ("dQ, dK, dV", BACKWARD + 40, END, 1),
)
OURS = (
    ("Q, K, V", FORWARD, END, 1),
    ("O", FORWARD + 16, BACKWARD + 60, 1),
    ("lse", FORWARD + 16, BACKWARD + 200, 0),
    ("δ", BACKWARD + 24, BACKWARD + 200, 0),
    ("dQ, dK, dV", BACKWARD + 60, END, 1),
)
HEIGHTS, KINDS = (2, 6, 18), ("data", "data", "nearer")


def alive_when() -> str:
    """Bars along the time; a matrix is thick. The thickness is not to scale."""
    parts = [
        text((FORWARD + BETWEEN) / 2, 14, word("forward"), "strong"),
        text((BETWEEN + BACKWARD) / 2, 14, word("between"), "quiet"),
        text((BACKWARD + END) / 2, 14, word("backward"), "strong"),
    ]
    y = 40.0
    for title, rows in (("naive", NAIVE), ("ours", OURS)):
        parts.append(text(0, y, word(title), "start", "strong"))
        top = y
        y += 24
        for name, start, stop, size in rows:
            height = HEIGHTS[size]
            parts.append(text(100, y, name, "end"))
            kind = KINDS[size]
            parts.append(box(start, y - height / 2, stop - start, height, kind))
            y += 25
        parts += [path([(x, top), (x, y - 10)], "rule") for x in (BETWEEN, BACKWARD)]
        y += 14
    return sheet("alive-when", y - 10, parts)
