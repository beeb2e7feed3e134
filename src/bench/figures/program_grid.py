"""The programs of a small launch, in the order of their ids."""

from bench.figures.drawing import GAP, arrow, box, sheet, text, word

LEFT, TOP = 96, 62
CELL_W, CELL_H = 40, 52
BETWEEN = 12  # two batches


def program_grid(
    batch: int = 2,
    nheads: int = 6,
    nheads_k: int = 2,
    seqlen_q: int = 10,
    block_m: int = 4,
    marked: int = 25,
) -> str:
    """The example that the page works by hand; `marked` is one program's id."""
    blocks = -(-seqlen_q // block_m)
    below = TOP + blocks * (CELL_H + GAP)
    parts = [
        text(0, TOP - 14, word("head"), "start", "quiet"),
        *_rows(blocks, block_m, seqlen_q),
        arrow(LEFT - 12, TOP, LEFT - 12, below - GAP),
        *(
            _program(b, h, m, nheads, blocks, block_m, seqlen_q, marked)
            for b in range(batch)
            for h in range(nheads)
            for m in range(blocks)
        ),
        *(part for b in range(batch) for part in _heads(b, nheads)),
        *(part for b in range(batch) for part in _keys(b, nheads, nheads_k, below)),
    ]
    return sheet("program-grid", below + 62, parts)


def _x(b: int, h: int, nheads: int) -> float:
    return LEFT + b * (nheads * (CELL_W + GAP) + BETWEEN) + h * (CELL_W + GAP)


def _rows(blocks: int, block_m: int, seqlen_q: int) -> list[str]:
    """The queries of each block, left of it."""
    ranges = [
        (m * block_m, min((m + 1) * block_m, seqlen_q) - 1) for m in range(blocks)
    ]
    return [
        text(
            0, TOP + m * (CELL_H + GAP) + CELL_H / 2, f"{word('rows')} {a}–{b}", "start"
        )
        for m, (a, b) in enumerate(ranges)
    ]


def _program(
    b: int,
    h: int,
    m: int,
    nheads: int,
    blocks: int,
    block_m: int,
    seqlen_q: int,
    marked: int,
) -> str:
    index = (b * nheads + h) * blocks + m
    x, y = _x(b, h, nheads), TOP + m * (CELL_H + GAP)
    share = min(block_m, seqlen_q - m * block_m) / block_m
    outline = "now" if index == marked else ""
    parts = [
        box(x, y, CELL_W, CELL_H * share, "near"),
        box(x, y, CELL_W, CELL_H, outline or ("past" if share == 1 else "skipped")),
        text(x + CELL_W / 2, y + CELL_H * share / 2, str(index)),
    ]
    return "\n".join(part for part in parts if part)


def _heads(b: int, nheads: int) -> list[str]:
    middle = (_x(b, 0, nheads) + _x(b, nheads - 1, nheads) + CELL_W) / 2
    return [
        text(middle, 12, f"{word('batch')} {b}", "strong"),
        *(
            text(_x(b, h, nheads) + CELL_W / 2, TOP - 14, str(h), "quiet")
            for h in range(nheads)
        ),
    ]


def _keys(b: int, nheads: int, nheads_k: int, below: float) -> list[str]:
    """The keys and values that a group of query heads shares."""
    group = nheads // nheads_k
    width = group * (CELL_W + GAP) - GAP
    parts = []
    for head in range(nheads_k):
        x = _x(b, head * group, nheads)
        parts += [
            arrow(x + width / 2, below + 24, x + width / 2, below + 2),
            box(x, below + 26, width, 34, "far"),
            text(x + width / 2, below + 43, f"K, V {head}"),
        ]
    return parts
