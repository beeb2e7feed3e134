"""The backward for Hopper: five products a block, dQ summed by the TMA.

One persistent thread block per multiprocessor walks a list of key tiles, 128
keys of one key head. One warpgroup only loads; two own 64 keys each and visit
the queries in blocks of 64, computing transposed scores (Dao 2023, algorithm 2;
Shah et al. 2024):

    Sᵀ = K Qᵀ   Pᵀ = exp2(Sᵀ − lse)   dV += Pᵀ dO
    dPᵀ = V dOᵀ   dSᵀ = Pᵀ (dPᵀ − delta)   dK += dSᵀ Q   dQ += dS K

dQ sums over keys, and so over thread blocks: both warpgroups put dS in shared
memory, a block's dQ is summed over all 128 keys, and the TMA adds it to global
memory in fp32. In which order it does so varies: dK and dV are bitwise equal
between runs, dQ is not.

- head dim 128: no registers are left for a third accumulating warpgroup, so each
  of the two computes half of dQ's columns;
- head dim 64: a fourth warpgroup computes dQ and nothing else, and K and V of
  the scores live in registers.

A small kernel before computes delta and empties dQ; one after rounds it.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

import math
from typing import NamedTuple

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from flashwalk.hopper import around, host
from flashwalk.hopper.backward_problem import (
    KEYS,
    QUERIES,
    TILE,
    Exchange,
    KeyTile,
    Problem,
    QueryRing,
    barriers,
    meet,
    tma_reduce_add,
)
from flashwalk.hopper.backward_roles import dq_tiles, load_tiles
from flashwalk.hopper.pipeline import as_matrix
from flashwalk.hopper.schedule import KeyTiling, plan_on_device


@gluon.jit
def visit_block(
    i, batch, head, block, key, dk, dv, k, v, zeros, dq_desc,
    ring, kv, exchange, problem, ME: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """One block of queries against this warpgroup's keys.

    dK comes back still being computed: the next block's wait for its scores is
    a wait for it too.
    """
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, QUERIES, 16])
    DKV: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [4, 1], [16, problem.HEAD_DIM, 16]
    )
    P: gl.constexpr = gl.DotOperandLayout(0, DKV, k_width=2)
    COLUMN: gl.constexpr = gl.SliceLayout(0, S)
    slot = i % ring.SLOTS
    turn = (i // ring.SLOTS) & 1
    q = as_matrix(ring.q.index(slot))
    do = as_matrix(ring.do.index(slot))
    # [scores] Sᵀ and dPᵀ are issued together; lse is read while they run.
    mbarrier.wait(ring.q_full.index(slot), turn)
    s = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
    lse = ring.lse.index(slot).load(COLUMN)
    mbarrier.wait(ring.do_full.index(slot), turn)
    dp = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
    # [release] Products end in order: the previous block's dK has ended too.
    s = warpgroup_mma_wait(1, deps=[s])
    if not FIRST:
        ring.release(i - 1, True)
    # [weights] P again, from the one number a row that the forward kept.
    p = gl.exp2(s * problem.qk_scale - lse[None, :])
    keys = key + ME * KEYS + gl.arange(0, KEYS, layout=gl.SliceLayout(1, S))
    if problem.CAUSAL:
        if block * QUERIES + problem.keys_after < key + TILE:
            queries = block * QUERIES + gl.arange(0, QUERIES, layout=COLUMN)
            visible = keys[:, None] <= queries[None, :] + problem.keys_after
            p = gl.where(visible, p, 0.0)
    elif key + TILE > problem.seqlen_k:
        p = gl.where((keys < problem.seqlen_k)[:, None], p, 0.0)
    # [dv] dV += Pᵀ dO.
    p_16 = gl.convert_layout(p.to(ring.q.dtype), P)
    dv_next = warpgroup_mma(p_16, do, dv, is_async=True)
    # [ds] dSᵀ = Pᵀ (dPᵀ − delta), and into shared memory.
    dp = warpgroup_mma_wait(1, deps=[dp])
    delta = ring.delta.index(slot).load(COLUMN)
    ds = (p * (dp - delta[None, :])).to(ring.q.dtype)
    half = (i % exchange.SLOTS) * 2
    ds_smem = exchange.ds.index(half + ME)
    if problem.HELPER:
        e = i % exchange.SLOTS
        mbarrier.wait(exchange.empty.index(e), ((i // exchange.SLOTS) & 1) ^ 1)
    ds_smem.store(ds)
    fence_async_shared()
    if problem.HELPER:
        # [dk-dq] dK here, dQ in the warpgroup that waits for it. dS comes from
        # shared memory: from registers ptxas would serialise the products.
        dk = warpgroup_mma(ds_smem, q, dk, is_async=True)
        mbarrier.arrive(exchange.full.index(i % exchange.SLOTS), count=1)
        dv = warpgroup_mma_wait(1, deps=[dv_next])
    else:
        # [dq-dk] Both halves of dS are there; there are two slots, so nobody
        # overwrites what the other still reads.
        meet()
        DQ: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
        dq_zeros = gl.zeros([QUERIES, 64], gl.float32, DQ)
        k_0 = as_matrix(kv.k.index(0)).slice(ME * 64, 64, dim=1)
        k_1 = as_matrix(kv.k.index(1)).slice(ME * 64, 64, dim=1)
        ds_0 = exchange.ds.index(half).permute((1, 0))
        ds_1 = exchange.ds.index(half + 1).permute((1, 0))
        dq = warpgroup_mma(ds_0, k_0, dq_zeros, use_acc=False, is_async=True)
        dq = warpgroup_mma(ds_1, k_1, dq, is_async=True)
        dk = warpgroup_mma(ds_smem, q, dk, is_async=True)
        dv = warpgroup_mma_wait(2, deps=[dv_next])
        # [send-dq] dQ is staged and sent while dK is computed.
        dq = warpgroup_mma_wait(1, deps=[dq])
        tma.store_wait(0)
        staged = exchange.dq.index(ME)
        as_matrix(staged).store(dq)
        fence_async_shared()
        tma_reduce_add(dq_desc, [batch, head, block * QUERIES, ME * 64], staged)
    return dk, dv


@gluon.jit
def key_tiles(dk_desc, dv_desc, dq_desc, ring, kv, exchange, problem, ME: gl.constexpr):
    """One warpgroup of keys: 64 keys of each tile of the list."""
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, QUERIES, 16])
    DKV: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    zeros = gl.zeros([KEYS, QUERIES], gl.float32, S)
    k_smem = as_matrix(kv.k.index(ME))
    v_smem = as_matrix(kv.v.index(ME))
    i = 0  # blocks of queries visited so far
    for t in range(problem.first, problem.last):
        batch, head_k, key, block = problem.locate(t)
        dk = gl.zeros([KEYS, HEAD_DIM], gl.float32, DKV)
        dv = gl.zeros([KEYS, HEAD_DIM], gl.float32, DKV)
        mbarrier.wait(kv.k_full, (t - problem.first) & 1)
        mbarrier.wait(kv.v_full, (t - problem.first) & 1)
        # [operands] In registers, where there is room: half the reads of the scores.
        if problem.HELPER:
            k = k_smem.load(gl.DotOperandLayout(0, S, k_width=2))
            v = v_smem.load(gl.DotOperandLayout(0, S, k_width=2))
        else:
            k = k_smem
            v = v_smem
        # [first-block] Apart, since no product is under way yet.
        head = head_k * problem.group_size
        dk, dv = visit_block(
            i, batch, head, block, key, dk, dv, k, v, zeros, dq_desc,
            ring, kv, exchange, problem, ME, True,
        )  # fmt: skip
        i += 1
        # [main-loop] The other blocks, of all heads that share these keys.
        j = block
        for _ in range(1, problem.group_size * (problem.query_blocks - block)):
            j += 1
            wraps = j == problem.query_blocks
            j = gl.where(wraps, block, j)
            head = gl.where(wraps, head + 1, head)
            dk, dv = visit_block(
                i, batch, head, j, key, dk, dv, k, v, zeros, dq_desc,
                ring, kv, exchange, problem, ME, False,
            )  # fmt: skip
            i += 1
        dk = warpgroup_mma_wait(0, deps=[dk])
        ring.release(i - 1, True)
        mbarrier.arrive(kv.k_empty, count=1)
        # [store] V's buffer is free first, and stages dV, then dK.
        row = key + ME * KEYS
        v_smem.store(dv.to(dv_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(
            dv_desc, [batch, head_k, row, 0], kv.v.index(ME)
        )
        tma.store_wait(0)
        v_smem.store((dk * problem.scale).to(dk_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(
            dk_desc, [batch, head_k, row, 0], kv.v.index(ME)
        )
        tma.store_wait(0)
        mbarrier.arrive(kv.v_empty, count=1)


# fmt: off
@gluon.jit(do_not_specialize=[
    "nheads_k", "group_size", "seqlen_k", "query_blocks", "keys_after",
    "tiles_per_head",
])
def _attn_bwd(
    q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc,
    dk_desc, dv_desc, dq_desc,
    tiles_ptr, starts_ptr,
    nheads_k, group_size, seqlen_k, query_blocks, keys_after, tiles_per_head,
    qk_scale, scale,
    HEAD_DIM: gl.constexpr, STAGES: gl.constexpr, HELPER: gl.constexpr,
    CAUSAL: gl.constexpr,
):
    q = gl.allocate_shared_memory(
        q_desc.dtype, [STAGES] + q_desc.block_type.shape, q_desc.layout)  # noqa: RUF005
    do = gl.allocate_shared_memory(
        q_desc.dtype, [STAGES] + do_desc.block_type.shape, do_desc.layout)  # noqa: RUF005
    k = gl.allocate_shared_memory(
        q_desc.dtype, [2] + k_desc.block_type.shape, k_desc.layout)  # noqa: RUF005
    v = gl.allocate_shared_memory(
        q_desc.dtype, [2] + v_desc.block_type.shape, v_desc.layout)  # noqa: RUF005
    lse = gl.allocate_shared_memory(gl.float32, [STAGES, QUERIES], lse_desc.layout)
    delta = gl.allocate_shared_memory(gl.float32, [STAGES, QUERIES], delta_desc.layout)
    DS: gl.constexpr = gl.NVMMASharedLayout.get_default_for(
        [KEYS, QUERIES], q_desc.dtype)
    ds = gl.allocate_shared_memory(q_desc.dtype, [4, KEYS, QUERIES], DS)
    dq = gl.allocate_shared_memory(
        gl.float32, [2] + dq_desc.block_type.shape, dq_desc.layout)  # noqa: RUF005
    ring = QueryRing(
        q, do, lse, delta,
        barriers(STAGES, 1), barriers(STAGES, 1), barriers(STAGES, 2), STAGES)
    K_READERS: gl.constexpr = 3 if HELPER else 2
    kv = KeyTile(
        k, v,
        barriers(1, 1).index(0), barriers(1, K_READERS).index(0),
        barriers(1, 1).index(0), barriers(1, 2).index(0))
    exchange = Exchange(ds, dq, barriers(2, 2), barriers(2, 1), 2)
    fence_async_shared()
    problem = Problem(
        tiles_ptr,
        gl.load(starts_ptr + gl.program_id(0)),
        gl.load(starts_ptr + gl.program_id(0) + 1),
        nheads_k, group_size, seqlen_k, query_blocks, keys_after, tiles_per_head,
        qk_scale, scale, HEAD_DIM, HELPER, CAUSAL)
    if HELPER:
        gl.warp_specialize([
            (load_tiles, (q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc,
                          ring, kv, problem)),
            (key_tiles, (dk_desc, dv_desc, dq_desc, ring, kv, exchange, problem,
                         gl.constexpr(0))),
            (key_tiles, (dk_desc, dv_desc, dq_desc, ring, kv, exchange, problem,
                         gl.constexpr(1))),
            (dq_tiles, (dq_desc, kv, exchange, problem)),
        ], [4, 4, 4], [208, 208, 64])
    else:
        gl.warp_specialize([
            (load_tiles, (q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc,
                          ring, kv, problem)),
            (key_tiles, (dk_desc, dv_desc, dq_desc, ring, kv, exchange, problem,
                         gl.constexpr(0))),
            (key_tiles, (dk_desc, dv_desc, dq_desc, ring, kv, exchange, problem,
                         gl.constexpr(1))),
        ], [4, 4], [240, 240])
    # fmt: on


class Tile(NamedTuple):
    """How a launch is made up: slots for Q and dO, and whether a warpgroup does
    nothing but dQ."""

    stages: int
    helper: bool


# The largest head dim of each entry.
TILES = {64: Tile(stages=3, helper=True), 128: Tile(stages=2, helper=False)}
# Key heads whose Q and dO stay in L2 together: a few, measured.
_HEADS_AT_ONCE = 4


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    dq: torch.Tensor,
    dk: torch.Tensor,
    dv: torch.Tensor,
    *,
    causal: bool,
    softmax_scale: float,
) -> None:
    """Fills `dq`, `dk` and `dv`, all contiguous; arguments are taken as valid.

    q, out, do, dq: (batch, nheads, seqlen_q, head_dim), head_dim at most 128;
    k, v, dk, dv: (batch, nheads_k, seqlen_k, head_dim); lse and dlse, the
    gradient of lse or None: (batch, nheads, seqlen_q), fp32, contiguous.
    """
    batch, nheads, seqlen_q, head_dim = q.shape
    nheads_k, seqlen_k = k.shape[1:3]
    padded_dim = host.padded_dim(head_dim)
    tile = TILES[padded_dim]
    keys_after = seqlen_k - seqlen_q
    tiling = KeyTiling(
        heads=batch * nheads_k,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        block_m=QUERIES.value,
        block_n=TILE.value,
        keys_after=keys_after if causal else None,
        heads_at_once=_HEADS_AT_ONCE,
    )
    thread_blocks = min(
        host.multiprocessors(q.device), tiling.heads * tiling.tiles_per_head
    )
    tiles, starts = plan_on_device(tiling, thread_blocks, q.device)
    rows = around.before(out, do, lse, dlse, padded_dim)
    _attn_bwd[(thread_blocks,)](
        *(host.describe(x, QUERIES.value, padded_dim) for x in (q, k, v, do)),
        host.describe_line(rows.lse, QUERIES.value),
        host.describe_line(rows.delta, QUERIES.value),
        *(host.describe(x, KEYS.value, padded_dim) for x in (dk, dv)),
        host.describe(rows.dq, QUERIES.value, 64),
        tiles, starts,
        nheads_k, nheads // nheads_k, seqlen_k, rows.dq.shape[2] // QUERIES.value,
        keys_after, tiling.tiles_per_head,
        softmax_scale * math.log2(math.e), softmax_scale,
        HEAD_DIM=padded_dim, STAGES=tile.stages, HELPER=tile.helper, CAUSAL=causal,
        num_warps=4,
    )  # fmt: skip
    around.after(rows.dq, dq, softmax_scale)
