"""What a thread of a multiplying warpgroup holds in its registers, to scale."""

from collections.abc import Iterable
from typing import NamedTuple

from bench.figures.drawing import GAP, box, path, sheet, text, word

LEFT, BAR, LANE = 150, 28, 62
ROWS, THREADS = 64, 128  # of a warpgroup


class Holding(NamedTuple):
    """A tile of one warpgroup. limit: the registers that its threads have."""

    name: str
    head_dim: int
    block_n: int
    limit: int

    def parts(self) -> list[tuple[str, int]]:
        """(name, registers a thread): fp32 takes one each, 16 bits half of one."""
        scores = ROWS * self.block_n // THREADS
        columns = ROWS * self.head_dim // THREADS
        return [("O", columns), ("S", scores), ("P", scores // 2), ("Q", columns // 2)]


# The kernel's; a test compares them with it.
USED = (
    Holding(word("d64"), 64, 128, 160),
    Holding(word("d128"), 128, 128, 240),
    Holding(word("d256"), 256, 64, 240),
)


def register_bars() -> str:
    """The three tiles of the kernel, each with Q as if it were in registers."""
    return sheet("register-bars", 232, list(_bars(USED, 1.8, with_q=True)))


def between_powers() -> str:
    """At head dim 128: our tile, FlashAttention-3's, and the next power of two."""
    tiles = [
        Holding(word("keys-128"), 128, 128, 240),
        Holding(word("keys-176"), 128, 176, 240),
        Holding(word("keys-256"), 128, 256, 240),
    ]
    return sheet("between-powers", 232, list(_bars(tiles, 1.75, with_q=False)))


def _bars(tiles: Iterable[Holding], unit: float, with_q: bool) -> Iterable[str]:
    """A bar a tile; the limit as a thick line; what is beyond it is dashed."""
    y = 44.0
    yield text(LEFT, 10, word("registers"), "start", "quiet")
    for tile in tiles:
        yield text(0, y + BAR / 2, tile.name, "start")
        at = 0
        for name, size in tile.parts():
            if name == "Q" and not with_q:
                continue
            x, width = LEFT + at * unit, size * unit - GAP
            fits = at + size <= tile.limit
            kind = "skipped" if not fits else "tile" if name == "Q" else "nearer"
            yield box(x, y, width, BAR, kind)
            yield text(x + width / 2, y + BAR / 2, name)
            yield text(x + width / 2, y + BAR + 13, str(size), "index", "quiet")
            at += size
        edge = LEFT + tile.limit * unit
        yield path([(edge, y - 6), (edge, y + BAR + 6)], "now")
        yield text(edge, y - 16, str(tile.limit), "index")
        y += LANE
