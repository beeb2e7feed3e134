"""The causal chapter's quantities: blocks, bounds, rows and uneven programs."""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from types import ModuleType

import numpy as np
import torch

from bench.causal_blocks import (
    DIAGONAL,
    FULL,
    SKIPPED,
    TAIL,
    Blocks,
    makespan,
    schedule,
)
from bench.claims_kernel import FP32, Edit, Row, kernel_with
from bench.claims_walk import (
    SCORES,
    VALUES,
    Claim,
    agree,
    claim,
    log_sum_exp,
    softmax_average,
)
from flashwalk import forward
from flashwalk.forward import Tile

LENGTHS = (256, 512, 1024, 4096, 16_384)
TILES = ((64, 64), (128, 64), (128, 32))
SM_COUNT = 132  # of an H100 or H200
PROGRAMS_AN_SM = 2  # what our tiles leave room for (claims "tile")

STANDING_TILE = Tile(block_m=2, block_n=2, num_warps=1, num_stages=1)

_CAUSAL_MASK = "            visible = visible & (cols[None, :] <= last_key[:, None])\n"
_BOUND = "        hi = tl.minimum(diagonal, seqlen_k)\n"
EDITS: dict[str, Edit] = {
    "mask-deleted": (_CAUSAL_MASK, ""),
    "bound-forgotten": (_BOUND, "        hi = seqlen_k\n"),
    "top-left": ("last_key = offs_m + (seqlen_k - seqlen_q)", "last_key = offs_m"),
}


def counted(blocks: Blocks) -> dict[str, int]:
    """Blocks of each kind; the loop's own bound must visit what is not skipped."""
    for m in range(blocks.rows):
        kept = [kind for kind in blocks.row(m) if kind != SKIPPED]
        agree(blocks.walked(m), len(kept), f"the bound of program {m} and its blocks")
        first = [kind != FULL for kind in [*kept, SKIPPED]].index(True)
        agree(blocks.unmasked(m), first, f"the unmasked blocks of program {m}")
    total = blocks.rows * blocks.cols
    skipped = blocks.count(SKIPPED)
    return {
        "full": blocks.count(FULL),
        "masked_blocks": blocks.count(DIAGONAL, TAIL),
        "skipped_blocks": skipped,
        "computed": total - skipped,
        "total": total,
    }


def remaining_blocks() -> Iterator[Claim]:
    """How many blocks of a square stay: (n + 1) of 2n, for n rows of blocks."""
    for (block_m, block_n), seqlen in product(TILES, LENGTHS):
        blocks = Blocks(seqlen, seqlen, block_m, block_n)
        found = counted(blocks)
        share, n = found["computed"] / found["total"], blocks.rows
        agree(share, (n + 1) / (2 * n), "the share of blocks and (n + 1) / 2n")
        pairs = seqlen * (seqlen + 1) / 2
        done = found["computed"] * block_m * block_n
        more = {"share": 100 * share, "hidden": 100 * (1 - pairs / done), "n": n}
        yield claim(
            "causal-blocks",
            {**found, **more},
            seqlen_q=seqlen,
            seqlen_k=seqlen,
            block_m=block_m,
            block_n=block_n,
        )


def crossed_blocks() -> Iterator[Claim]:
    """How many blocks of one program need the mask, at least and at most."""
    for (block_m, block_n), extra in product(
        ((64, 64), (128, 64), (128, 32), (64, 128)), (0, 1024, 1040)
    ):
        blocks = Blocks(1024, 1024 + extra, block_m, block_n)
        counted(blocks)
        crossed = [
            sum(kind in (DIAGONAL, TAIL) for kind in blocks.row(m))
            for m in range(blocks.rows)
        ]
        expected = math.ceil(block_m / block_n)
        if extra % block_n == 0:
            agree(max(crossed), expected, "the crossed blocks and ceil(M / N)")
        elif max(crossed) > expected + 1:
            raise ValueError(
                f"{blocks}: {max(crossed)} crossed, {expected + 1} at most"
            )
        yield claim(
            "crossed",
            {"crossed_min": min(crossed), "crossed_max": max(crossed)},
            block_m=block_m,
            block_n=block_n,
            seqlen_q=1024,
            seqlen_k=1024 + extra,
        )


def tail_block() -> Iterator[Claim]:
    """Masked blocks where the last key block is partial: full attention too."""
    for seqlen, causal in product((250, 256), (False, True)):
        blocks = Blocks(seqlen, seqlen, 64, 64, causal)
        sizes = {"seqlen_q": seqlen, "seqlen_k": seqlen, "block_m": 64, "block_n": 64}
        yield claim("tail-block", counted(blocks), causal=causal, **sizes)


def rows_in_tiles(
    module: ModuleType,
    scores: Sequence[float],
    values: Sequence[float],
    *,
    seqlen_q: int,
    tile: Tile = STANDING_TILE,
    causal: bool = True,
) -> list[Row]:
    """Runs the kernel with q = 1, keys = the scores, a scale of 1, in fp32."""
    q = torch.ones(1, 1, seqlen_q, 1)
    k, v = (torch.tensor(x).view(1, 1, -1, 1) for x in (scores, values))
    out, lse = torch.full_like(q, math.nan), torch.full(q.shape[:-1], math.nan)
    with np.errstate(all="ignore"):  # broken kernels subtract infinities
        module.launch(q, k, v, out, lse, causal=causal, softmax_scale=1.0, tile=tile)
    pairs = zip(out.flatten().tolist(), lse.flatten().tolist(), strict=True)
    return [Row(*pair) for pair in pairs]


def rows_by_hand() -> Iterator[Claim]:
    """The standing example, causal: four, two and one query on four keys."""
    for seqlen_q in (4, 2, 1):
        blocks = Blocks(seqlen_q, len(SCORES), 2, 2)
        rows = rows_in_tiles(forward, SCORES, VALUES, seqlen_q=seqlen_q)
        for i, row in enumerate(rows):
            sees = i + blocks.shift + 1
            agree(row.out, softmax_average(SCORES[:sees], VALUES[:sees]), "row", FP32)
            agree(row.lse, log_sum_exp(SCORES[:sees]), "its log-sum-exp", FP32)
            found = {
                "visible": sees,
                "hi": blocks.bound(i // 2),
                "walked": blocks.walked(i // 2),
                "out": row.out,
            }
            sizes = {"seqlen_q": seqlen_q, "seqlen_k": 4, "block_m": 2, "block_n": 2}
            yield claim("causal-row", found, query=i, **sizes)


def wrong_masks() -> Iterator[Claim]:
    """What the standing example answers when one part of causality is missing."""
    deleted, unbound, top_left = (
        rows_in_tiles(kernel_with(EDITS[name]), SCORES, VALUES, seqlen_q=seqlen_q)
        for name, seqlen_q in (
            ("mask-deleted", 4),
            ("bound-forgotten", 4),
            ("top-left", 1),
        )
    )
    full = softmax_average(SCORES, VALUES)
    for i, row in enumerate(deleted):
        found = {"out": row.out, "right": full}
        yield claim("mask-deleted", found, query=i, block_m=2, block_n=2)
    for i, row in enumerate(unbound):
        right = softmax_average(SCORES[: i + 1], VALUES[: i + 1])
        agree(row.out, right, "the mask alone and the mask with the bound", FP32)
    (row,) = top_left
    found = {"out": row.out, "right": full}
    yield claim("top-left", found, seqlen_q=1, seqlen_k=len(SCORES))


def _in_head_order(lengths: Sequence[int], heads: int) -> list[int]:
    """Our grid: the blocks of one head from the first to the last, then the next."""
    return [*lengths] * heads


def _longest_first(lengths: Sequence[int], heads: int) -> list[int]:
    return sorted(_in_head_order(lengths, heads), reverse=True)


ORDERS = {"by head": _in_head_order, "longest first": _longest_first}


def uneven_programs() -> Iterator[Claim]:
    """When the last program ends, if every block takes one unit of time."""
    slots = SM_COUNT * PROGRAMS_AN_SM
    cases = [(4 * 64, 64, 64, 1, 2)]
    cases += [(s, 128, 32, 16 * 16_384 // s, slots) for s in (1024, 4096, 16_384)]
    for (seqlen, block_m, block_n, heads, slots), name in product(cases, ORDERS):
        blocks = Blocks(seqlen, seqlen, block_m, block_n)
        lengths = [blocks.walked(m) for m in range(blocks.rows)]
        spans = schedule(ORDERS[name](lengths, heads), slots)
        ideal = sum(lengths) * heads / slots
        full = schedule([blocks.cols] * (blocks.rows * heads), slots)
        found = {
            "units": makespan(spans),
            "units_ideal": ideal,
            "units_full": makespan(full),
            "share": 100 * makespan(spans) / makespan(full),
            "idle": 100 * (1 - ideal / makespan(spans)),
        }
        sizes = {"seqlen_q": seqlen, "block_m": block_m, "block_n": block_n}
        yield claim("uneven", found, order=name, heads=heads, slots=slots, **sizes)


def causal_claims() -> Iterator[Claim]:
    """The claims of this file."""
    yield from remaining_blocks()
    yield from crossed_blocks()
    yield from tail_block()
    yield from rows_by_hand()
    yield from wrong_masks()
    yield from uneven_programs()
