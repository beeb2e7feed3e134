"""The blocks that a causal mask leaves: one square, and five other shapes."""

from typing import NamedTuple

from bench.causal_blocks import DIAGONAL, SKIPPED, Blocks
from bench.figures.drawing import GAP, arrow, box, shape, sheet, text, word

Point = tuple[float, float]


class Place(NamedTuple):
    """Where a grid of blocks is drawn, and how many units a key or query takes."""

    x: float
    y: float
    scale: float


def causal_blocks(seqlen: int = 256, block: int = 64) -> str:
    """The square of the page: as many queries as keys, blocks of equal sides."""
    blocks = Blocks(seqlen, seqlen, block, block)
    place = Place(86, 42, 44 / block)
    side = seqlen * place.scale
    rows = [
        text(
            place.x + side + 16,
            place.y + (m + 0.5) * block * place.scale,
            f"hi = {blocks.bound(m)}",
            "start",
            "quiet",
        )
        for m in range(blocks.rows)
    ]
    parts = [
        text(place.x, 16, word("keys"), "start"),
        arrow(place.x, 32, place.x + side - GAP, 32),
        text(0, place.y + 22, word("queries"), "start"),
        arrow(place.x - 12, place.y + 42, place.x - 12, place.y + side - GAP),
        *grid(blocks, place),
        *rows,
        *_legend(404, place.y + 6, block, place.scale),
    ]
    return sheet("causal-blocks", place.y + side + 6, parts)


def _legend(x: float, y: float, block: int, scale: float) -> list[str]:
    """One block of each kind, with its name."""
    one, side = Blocks(block, block, block, block), block * scale
    return [
        box(x, y, side - GAP, side - GAP, "full"),
        *grid(one, Place(x, y + 60, scale)),
        box(x, y + 120, side - GAP, side - GAP, "skipped"),
        *(
            text(x + side + 12, y + 60 * n + 21, word(kind), "start")
            for n, kind in enumerate(("full", "diagonal", "skipped"))
        ),
    ]


# The other shapes: the words' key, and the blocks, in keys of which 64 are one
# side of a small block.
SHAPES = {
    "tall": Blocks(256, 256, 128, 64),
    "wide": Blocks(256, 256, 64, 128),
    "shifted": Blocks(192, 224, 64, 64),
    "few": Blocks(128, 320, 64, 64),
    "one": Blocks(16, 320, 64, 64),
    "many": Blocks(320, 128, 64, 64),
}
_COLUMNS = 3
_PITCH = 212  # from one panel to the next
_TALLEST = {0: 256, 1: 320}  # queries in the panels of each row


def causal_shapes() -> str:
    """Small multiples: tiles of unequal sides, and lengths that differ."""
    scale = 36 / 64
    parts, y = [], 0.0
    for row in range(2):
        names = list(SHAPES)[row * _COLUMNS : (row + 1) * _COLUMNS]
        for column, name in enumerate(names):
            x = 1 + column * _PITCH
            parts += [
                text(x, y + 12, word(name), "start"),
                text(x, y + 34, word(name + "-sizes"), "start", "quiet", "index"),
                *grid(SHAPES[name], Place(x, y + 52, scale)),
            ]
        y += 52 + _TALLEST[row] * scale + 26
    return sheet("causal-shapes", y - 20, parts)


def grid(blocks: Blocks, place: Place) -> list[str]:
    """Every block: whole, cut along the diagonal, or an empty dashed outline."""
    return [
        _block(blocks, m, n, place)
        for m in range(blocks.rows)
        for n in range(blocks.cols)
    ]


def _block(blocks: Blocks, m: int, n: int, place: Place) -> str:
    top, left = m * blocks.block_m, n * blocks.block_n
    bottom = min(top + blocks.block_m, blocks.seqlen_q)
    right = min(left + blocks.block_n, blocks.seqlen_k)
    gap = GAP / place.scale
    corners = [
        (left, top),
        (right - gap, top),
        (right - gap, bottom - gap),
        (left, bottom - gap),
    ]
    (x0, y0), _, (x1, y1), _ = (_drawn(corner, place) for corner in corners)
    kind = blocks.kind(m, n)
    if kind == SKIPPED:
        return box(x0, y0, x1 - x0, y1 - y0, "skipped")
    if kind != DIAGONAL:
        return box(x0, y0, x1 - x0, y1 - y0, "full")
    seen = [_drawn(point, place) for point in visible_part(corners, blocks.shift)]
    outline = box(x0, y0, x1 - x0, y1 - y0, "past")
    return outline + "\n" + shape(seen, "diagonal")


def _drawn(point: Point, place: Place) -> Point:
    return place.x + point[0] * place.scale, place.y + point[1] * place.scale


def visible_part(corners: list[Point], shift: float) -> list[Point]:
    """The part of a polygon, points (key, query), where key <= query + shift."""
    kept: list[Point] = []
    for start, end in zip(corners, corners[1:] + corners[:1], strict=True):
        before, after = (start[0] - start[1] - shift, end[0] - end[1] - shift)
        if before <= 0:
            kept.append(start)
        if before * after < 0:
            share = before / (before - after)
            kept.append(
                (
                    start[0] + share * (end[0] - start[0]),
                    start[1] + share * (end[1] - start[1]),
                )
            )
    return kept
