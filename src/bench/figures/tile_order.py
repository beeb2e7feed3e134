"""Tiles of the plan: where a head is cut, and in which order tiles are walked."""

from itertools import pairwise

from bench.figures.drawing import (
    GAP,
    arrow,
    box,
    labelled,
    path,
    shape,
    sheet,
    text,
    word,
)

SEQLEN, BLOCK_M, BLOCK_N, ROWS = 1024, 192, 128, 64
SCALE = 0.2  # of a drawn row or key
LEFT, UNIT, BAR = 132, 24.5, 30


def sequence_end() -> str:
    """Tiles of 192 rows on 1024: counted from row 0, and from the end."""
    starts = list(range(0, SEQLEN, BLOCK_M))
    from_end = [SEQLEN - BLOCK_M * (n + 1) for n in range(len(starts))][::-1]
    return sheet(
        "sequence-end",
        312,
        [*_triangle(30, "from-start", starts), *_triangle(350, "from-end", from_end)],
    )


def _triangle(x: float, key: str, starts: list[int]) -> list[str]:
    """The scores of a causal head, and what each tile computes of them."""
    top, side = 72, SEQLEN * SCALE
    parts = [text(x, 14, word(key), "start")]
    for start in starts:
        for row in range(start, start + BLOCK_M, ROWS):
            y = top + row * SCALE
            end = row + ROWS
            if row < 0 or row >= SEQLEN:
                blocks = 0 if row < 0 else -(-SEQLEN // BLOCK_N)
            else:
                blocks = -(-end // BLOCK_N)
            keys = min(SEQLEN, blocks * BLOCK_N) * SCALE
            missing = row < 0 or row >= SEQLEN
            width = keys if keys else 26
            kind = "skipped" if missing else "nearer"
            parts.append(box(x, y, width, ROWS * SCALE, kind))
        edge = top + start * SCALE
        parts.append(path([(x - 10, edge), (x + side, edge)], "rule"))
    parts.append(shape([(x, top), (x + side, top + side), (x, top + side)]))
    return parts


def tile_order(heads: int = 6, seqlen: int = 512, blocks: int = 4) -> str:
    """A real plan, small: causal tiles of a few heads on four thread blocks."""
    from flashwalk.hopper.schedule import Tiling, plan  # which needs PyTorch

    tiling = Tiling(heads, seqlen, seqlen, 128, 128, 0, heads_at_once=3)
    tiles, starts = plan(tiling, blocks)
    parts = []
    ends = []
    for p, (a, b) in enumerate(pairwise(starts)):
        y = 10 + p * (BAR + 8)
        parts.append(text(0, y + BAR / 2, f"{word('thread-block')} {p}", "start"))
        at = 0.0
        for tile in tiles[a:b]:
            head, number = divmod(tile, tiling.tiles_per_head)
            cost = tiling.cost(number)
            x, width = LEFT + at * UNIT, cost * UNIT - GAP
            kind = "nearer" if head < tiling.heads_at_once else "tile"
            parts.append(labelled(x, y, width, BAR, f"{'abcdef'[head]}{number}", kind))
            at += cost
        ends.append(at)
    last = max(ends)
    for p, end in enumerate(ends):
        if (last - end) * UNIT > GAP:
            y = 10 + p * (BAR + 8)
            x = LEFT + end * UNIT
            parts.append(box(x, y, (last - end) * UNIT - GAP, BAR, "skipped"))
    bottom = 10 + blocks * (BAR + 8) + 12
    parts += [
        text(LEFT, bottom, word("time"), "start", "quiet"),
        arrow(LEFT + 60, bottom, LEFT + last * UNIT, bottom),
    ]
    return sheet("tile-order", bottom + 16, parts)
