"""The host's part of the backward: what its launches need, once a signature."""

import functools
import math
from typing import NamedTuple

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from flashwalk.hopper import around, host
from flashwalk.hopper.backward_problem import KEYS, QUERIES, TILE
from flashwalk.hopper.schedule import KeyTiling, records_on_device
from flashwalk.signature import BackwardSignature

# Key heads whose Q and dO stay in L2 together: a few, measured.
HEADS_AT_ONCE = 4


class Tile(NamedTuple):
    """How a launch is made up: slots for Q and dO, and whether a warpgroup does
    nothing but dQ."""

    stages: int
    helper: bool


class Launches(NamedTuple):
    """The three launches of a backward, and the sizes of the buffers between them.

    before: delta. keys: the kernel that owns keys. queries: what ends dQ.
    """

    before: host.Recipe
    keys: host.Recipe
    queries: host.Recipe
    padded_q: int
    padded_dim: int


def key_tiling(
    q: torch.Tensor,
    k: torch.Tensor,
    causal: bool,
    *,
    block_n: int,
    query_blocks: int,
    masked_blocks: int,
) -> KeyTiling:
    """The tiles of block_n keys, for blocks of 64 queries."""
    batch, nheads, seqlen_q = q.shape[:3]
    nheads_k, seqlen_k = k.shape[1:3]
    return KeyTiling(
        heads=batch * nheads_k,
        nheads_k=nheads_k,
        group_size=nheads // nheads_k,
        query_blocks=query_blocks,
        seqlen_k=seqlen_k,
        block_m=QUERIES.value,
        block_n=block_n,
        keys_after=seqlen_k - seqlen_q if causal else None,
        masked_blocks=masked_blocks,
        heads_at_once=HEADS_AT_ONCE,
    )


def thread_blocks(tiles: int, device: torch.device) -> int:
    """One a multiprocessor, unless there are fewer tiles."""
    return min(host.multiprocessors(device), tiles)


def describe_sums(sums: torch.Tensor, columns: int) -> TensorDescriptor:
    """dQ's sums to the TMA: one matrix, since a head's rows are whole blocks.

    columns: of what is added at a time.
    """
    matrix = sums.flatten(0, 2)
    block = [QUERIES.value, columns]
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float32)
    return TensorDescriptor(
        matrix, list(matrix.shape), [*matrix.stride()], block, layout
    )


@functools.lru_cache(maxsize=256)
def prepare(
    signature: BackwardSignature,
    has_dlse: bool,
    causal: bool,
    softmax_scale: float,
    tile: Tile,
) -> Launches:
    """What `backward.launch` launches, for head dims up to 128."""
    q, k, v, out, do, dq, dk, dv = signature.tensors()
    device = signature.forward.device
    seqlen_k, head_dim = k.shape[2:]
    padded_dim = host.padded_dim(head_dim)
    keys_after = seqlen_k - q.shape[2]
    masked_blocks = 1
    if causal:
        # The diagonal of a tile's square crosses one more where it is not aligned.
        masked_blocks = TILE.value // QUERIES.value + (keys_after % QUERIES.value != 0)
    query_blocks = max(-(-q.shape[2] // QUERIES.value), masked_blocks)
    tiling = key_tiling(
        q, k, causal,
        block_n=TILE.value, query_blocks=query_blocks, masked_blocks=masked_blocks,
    )  # fmt: skip
    blocks = thread_blocks(tiling.heads * tiling.tiles_per_head, device)
    rows = around.allocate(out, query_blocks * QUERIES.value, padded_dim)
    assert rows.dq is not None  # it was asked for
    keys = host.Recipe(
        (blocks, 1, 1),
        (
            *(host.describe(x, QUERIES.value, padded_dim) for x in (q, k, v, do)),
            host.describe_line(rows.lse, QUERIES.value),
            host.describe_line(rows.delta, QUERIES.value),
            *(host.describe(x, KEYS.value, padded_dim) for x in (dk, dv)),
            describe_sums(rows.dq, 64),
            describe_sums(rows.dq, 32 if host.has_empty_quarter(head_dim) else 64),
        ),
        (
            *records_on_device(tiling, blocks, device),
            tiling.group_size, seqlen_k, keys_after,
            softmax_scale * math.log2(math.e),
            padded_dim, tile.stages, tile.helper, causal, masked_blocks,
            not causal and seqlen_k % TILE.value != 0,
            host.has_empty_quarter(head_dim),
        ),
    )  # fmt: skip
    return Launches(
        around.prepare_before(out, do, rows, has_dlse),
        keys,
        around.prepare_after(rows, dq, softmax_scale),
        query_blocks * QUERIES.value,
        padded_dim,
    )
