"""Who owns which block in the backward: one pass or two, and where walks begin."""

from collections.abc import Iterable

import numpy as np

from bench.claims_backward_kernels import BLOCK, walk_of_keys, walk_of_queries
from bench.figures.drawing import GAP, arrow, box, cells, labelled, sheet, text, word

BLOCKS, CELL = 4, 28
STEP = CELL + GAP
TOP = 44
PANEL = 212  # from one panel to the next
GRAD = 52  # width of a gradient's box


def owners() -> str:
    """Three panels: the fused pass, and the two passes of the portable kernels."""
    parts = [
        *_panel(1, "one-pass", column=1, sums=True),
        *_panel(1 + PANEL, "first", column=1, sums=False),
        *_panel(1 + 2 * PANEL, "second", row=2, sums=False),
    ]
    return sheet("backward-owners", TOP + BLOCKS * STEP + 80, parts)


def _panel(
    x: float, key: str, *, column: int = -1, row: int = -1, sums: bool
) -> Iterable[str]:
    """A grid of blocks, the one walk that is drawn in it, and what it computes."""
    yield text(x, 12, word(key), "start")

    def kind(m: int, n: int) -> str:
        return "full" if n == column or m == row else "past"

    yield cells(x, TOP, BLOCKS, BLOCKS, kind)
    bottom = TOP + BLOCKS * STEP
    if column >= 0:
        middle = x + column * STEP + CELL / 2
        yield arrow(middle, TOP + 4, middle, bottom - GAP - 4)
        yield labelled(middle - 32, bottom + 10, 64, CELL, "dK, dV", "full")
    if row >= 0:
        y: float = TOP + row * STEP
        yield arrow(x + 4, y + CELL / 2, x + BLOCKS * STEP - GAP - 4, y + CELL / 2)
        yield labelled(x + BLOCKS * STEP + 8, y, GRAD, CELL, "dQ", "full")
    if sums:
        for m in range(BLOCKS):
            y = TOP + m * STEP + CELL / 2
            end = x + BLOCKS * STEP + 22
            yield arrow(x + (column + 1) * STEP, y, end, y)
            yield labelled(end + 6, y - CELL / 2, GRAD - 8, CELL, "+dQ", "diagonal")
    yield text(x, bottom + 62, word(f"{key}-products"), "start", "quiet")


# --- Causal ---

WIDE, TALL = 44, 30  # a cell of the second figure
SEQLENS = (64, 96)


def walks() -> str:
    """The order of visits: down the columns, and along the rows."""
    rows, columns = (seqlen // BLOCK for seqlen in SEQLENS)
    right = columns * WIDE + 60
    by_keys = {
        (m, n): order
        for n in range(columns)
        for order, m in enumerate(walk_of_keys(n * BLOCK, *SEQLENS))
    }
    by_queries = {
        (m, n): order
        for m in range(rows)
        for order, n in enumerate(walk_of_queries(m * BLOCK, *SEQLENS))
    }
    parts = [
        *_visits(1, "dkdv", by_keys),
        *_visits(right, "dq", by_queries),
    ]
    bottom = TOP + rows * TALL
    middle = WIDE / 2 - 1
    parts += [
        arrow(middle, TOP - 18, middle, TOP - 4),
        arrow(right - 18, TOP + TALL / 2, right - 4, TOP + TALL / 2),
        text(0, bottom + 18, word("masked"), "start", "quiet"),
    ]
    return sheet("backward-walks", bottom + 34, parts)


def _visits(x: float, key: str, order: dict[tuple[int, int], int]) -> Iterable[str]:
    """A grid with the number of each visit, counted from 0."""
    yield text(x, 12, word(key), "start")
    rows, columns = (seqlen // BLOCK for seqlen in SEQLENS)
    mask = np.tri(*SEQLENS, SEQLENS[1] - SEQLENS[0], dtype=bool)
    for m in range(rows):
        for n in range(columns):
            here = mask[m * BLOCK : (m + 1) * BLOCK, n * BLOCK : (n + 1) * BLOCK]
            at = (x + n * WIDE, TOP + m * TALL, WIDE - GAP, TALL - GAP)
            if (m, n) not in order:
                yield box(*at, "skipped")
                continue
            kind = "full" if here.all() else "diagonal"
            yield labelled(*at, str(order[m, n]), kind)
