"""Which thread block computes which tiles, and in which order.

One thread block per multiprocessor lives for the whole launch and walks a list
of tiles. The lists are made on the host, once a shape: a tile goes to the thread
block that would be free first, as if all ran in step. Causal tiles are of unequal
length, so the longest come first (longest processing time first, Graham 1969),
a few heads at a time, so that the keys and values in use stay in the L2 cache.
"""

import functools
import heapq
from itertools import pairwise
from typing import NamedTuple

import torch

# Keys and values of the heads in progress may take this much of L2 (50 MB on an
# H200). Twice and half as much were measured to be alike, all heads at once slower.
_L2_BYTES = 32e6
# Starting and ending a tile takes about as long as this many blocks of keys.
_TILE_COST = 0.7
_KEY_TILE_COST = 1.0
# Rows of one warpgroup. Tiles end at a multiple of it.
ROWS = 64


class Tiling(NamedTuple):
    """What the order of the tiles depends on.

    heads: batch * nheads. row_end: where the last tile of a head ends, at or
    after the last query. block_m: rows of a tile. keys_after: how many more
    keys than its number a row sees; None where every row sees all.
    """

    heads: int
    row_end: int
    seqlen_k: int
    block_m: int
    block_n: int
    keys_after: int | None
    heads_at_once: int

    @classmethod
    def of(
        cls,
        q: torch.Tensor,
        k: torch.Tensor,
        causal: bool,
        *,
        block_m: int,
        block_n: int,
    ) -> "Tiling":
        """The tiling of q, (batch, nheads, seqlen_q, head_dim), on the keys k."""
        batch, nheads, seqlen_q, head_dim = q.shape
        nheads_k, seqlen_k = k.shape[1:3]
        return cls(
            heads=batch * nheads,
            row_end=seqlen_q + -seqlen_q % ROWS,
            seqlen_k=seqlen_k,
            block_m=block_m,
            block_n=block_n,
            keys_after=seqlen_k - seqlen_q if causal else None,
            heads_at_once=heads_in_l2(seqlen_k, head_dim, nheads // nheads_k)
            if causal
            else 1,
        )

    @property
    def tiles_per_head(self) -> int:
        """Counted from the end: the first one may begin before row 0."""
        return -(-self.row_end // self.block_m)

    def cost(self, tile: int) -> float:
        """Blocks of keys that the tile-th tile of a head sees, and a constant."""
        keys = self.seqlen_k
        if self.keys_after is not None:
            end = self.row_end - (self.tiles_per_head - 1 - tile) * self.block_m
            keys = min(keys, end + self.keys_after)
        share = 1.0
        if tile == 0 and self.row_end % self.block_m:
            # Fewer warpgroups, which then hide less of each other's work.
            share = 0.4 + 0.6 * (self.row_end % self.block_m) / self.block_m
        return -(-keys // self.block_n) * share + _TILE_COST


def heads_in_l2(seqlen_k: int, head_dim: int, group_size: int) -> int:
    """How many query heads to work on at once: a power of two of key heads."""
    key_heads = max(1, int(_L2_BYTES / (2 * 2 * seqlen_k * head_dim)))
    return group_size << (key_heads.bit_length() - 1)


class KeyTiling(NamedTuple):
    """The backward's tiles: of keys, each of which meets the queries that see it.

    heads: batch * nheads_k. group_size: query heads that share a key head. block_m:
    queries of a block. query_blocks: blocks of a head. block_n: keys of a tile.
    keys_after: as in `Tiling`. masked_blocks: how many blocks at least a tile
    visits; they come first, and a mask may cut no others.
    """

    heads: int
    nheads_k: int
    group_size: int
    query_blocks: int
    seqlen_k: int
    block_m: int
    block_n: int
    keys_after: int | None
    masked_blocks: int
    heads_at_once: int

    @property
    def tiles_per_head(self) -> int:
        return -(-self.seqlen_k // self.block_n)

    def first_block(self, tile: int) -> int:
        """The block of queries where the tile-th tile of a head begins."""
        if self.keys_after is None:
            return 0
        first = max(0, tile * self.block_n - self.keys_after) // self.block_m
        return min(first, self.query_blocks - self.masked_blocks)

    def cost(self, tile: int) -> float:
        """Blocks of queries that the tile-th tile of a head visits, and a constant."""
        return (
            self.group_size * (self.query_blocks - self.first_block(tile))
            + _KEY_TILE_COST
        )

    def record(self, tile: int, number: int) -> tuple[int, ...]:
        """What the kernel reads of a tile; `backward_problem` names the fields.

        number: how many tiles its thread block has before it.
        """
        head, n = divmod(tile, self.tiles_per_head)
        block = self.first_block(n)
        row = (head * self.group_size * self.query_blocks + block) * self.block_m
        return (
            head // self.nheads_k,
            head % self.nheads_k,
            n * self.block_n,
            block,
            number,
            row,
            self.query_blocks - block,
            0,
        )


class QueryTiling(NamedTuple):
    """The tiles of dQ alone: of queries, which meet the keys that they see.

    heads: batch * nheads. block_m: queries of a tile, in two halves. block_n: keys
    of a block. keys_after: as in `Tiling`.
    """

    heads: int
    nheads: int
    group_size: int
    seqlen_q: int
    seqlen_k: int
    block_m: int
    block_n: int
    keys_after: int | None
    heads_at_once: int

    @property
    def tiles_per_head(self) -> int:
        return -(-self.seqlen_q // self.block_m)

    def blocks(self, end: int) -> int:
        """Blocks of keys that the rows before `end` see; at least one is visited."""
        keys = self.seqlen_k
        if self.keys_after is not None:
            keys = min(keys, end + self.keys_after)
        return max(1, -(-keys // self.block_n))

    def cost(self, tile: int) -> float:
        """Blocks of keys that the tile-th tile of a head visits, and a constant."""
        return self.blocks((tile + 1) * self.block_m) + _KEY_TILE_COST

    def record(self, tile: int, number: int) -> tuple[int, ...]:
        """What the kernel reads of a tile; `backward_queries` names the fields."""
        head, n = divmod(tile, self.tiles_per_head)
        row = n * self.block_m
        middle, end = row + self.block_m // 2, row + self.block_m
        return (
            head // self.nheads,
            head % self.nheads,
            head % self.nheads // self.group_size,
            row,
            head * self.tiles_per_head * self.block_m + row,
            self.blocks(middle),
            self.blocks(end),
            number,
        )


def plan(
    tiling: Tiling | KeyTiling | QueryTiling, thread_blocks: int
) -> tuple[list[int], list[int]]:
    """(tiles, starts): thread block p walks tiles[starts[p]:starts[p + 1]].

    A tile is head * tiles_per_head + its number in the head.
    """
    runs: list[list[int]] = [[] for _ in range(thread_blocks)]
    free = [(0.0, p) for p in range(thread_blocks)]
    costs = [tiling.cost(n) for n in range(tiling.tiles_per_head)]
    longest_first = sorted(range(len(costs)), key=lambda n: -costs[n])
    for group in range(0, tiling.heads, tiling.heads_at_once):
        heads = range(group, min(tiling.heads, group + tiling.heads_at_once))
        for n in longest_first:
            for head in heads:
                busy, p = free[0]
                runs[p].append(head * tiling.tiles_per_head + n)
                heapq.heapreplace(free, (busy + costs[n], p))
    starts = [0]
    for run in runs:
        starts.append(starts[-1] + len(run))
    return [tile for run in runs for tile in run], starts


def _refuse_capture() -> None:
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "the order of the tiles of this shape must be copied to the GPU before "
            "a CUDA graph is captured: call attention once with it, then capture"
        )


@functools.lru_cache(maxsize=256)
def plan_on_device(
    tiling: Tiling, thread_blocks: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """The plan as two int32 tensors on the device.

    Raises RuntimeError while a CUDA graph is being captured, where nothing can
    be copied from the host: run the shape once before.
    """
    _refuse_capture()
    tiles, starts = plan(tiling, thread_blocks)
    return (
        torch.tensor(tiles, dtype=torch.int32, device=device),
        torch.tensor(starts, dtype=torch.int32, device=device),
    )


@functools.lru_cache(maxsize=256)
def records_on_device(
    tiling: KeyTiling | QueryTiling, thread_blocks: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `plan_on_device`, with a record of eight numbers in place of a tile."""
    _refuse_capture()
    tiles, starts = plan(tiling, thread_blocks)
    numbers = [n for a, b in pairwise(starts) for n in range(b - a)]
    records = [tiling.record(*x) for x in zip(tiles, numbers, strict=True)]
    return (
        torch.tensor(records, dtype=torch.int32, device=device),
        torch.tensor(starts, dtype=torch.int32, device=device),
    )
