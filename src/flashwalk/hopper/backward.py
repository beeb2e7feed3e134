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
  of the two computes half of dQ's columns; up to head dim 96, 64 and 32 of them;
- head dim 64: a fourth warpgroup computes dQ and nothing else, and K and V of
  the scores live in registers;
- head dim 256: two kernels and seven products, in `backward_wide` and
  `backward_queries`.

A small kernel before computes delta and empties dQ; one after rounds it.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

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
from flashwalk.hopper.backward_host import Tile, prepare
from flashwalk.hopper.backward_problem import (
    BATCH,
    BLOCK,
    BLOCKS,
    HEAD_K,
    KEY,
    KEYS,
    LN_2,
    NUMBER,
    QUERIES,
    ROW,
    Exchange,
    KeyTile,
    Problem,
    QueryRing,
    barriers,
    meet,
    multiply_transposed,
    tma_reduce_add,
    without_hidden,
)
from flashwalk.hopper.backward_roles import dq_tiles, load_tiles
from flashwalk.hopper.backward_wide import launch as launch_wide
from flashwalk.hopper.pipeline import as_matrix
from flashwalk.hopper.schedule import keep_for_graphs
from flashwalk.signature import BackwardSignature


@gluon.jit
def visit_block(
    i, row, query, key, dk, dv, k, v, zeros, dq_desc, ring, kv, exchange, problem,
    ME: gl.constexpr, MASK: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """One block of queries, the i-th of the launch, against this warpgroup's keys.

    row: where the block's rows lie in dQ. query and key: its first ones, by which
    a mask goes. dK comes back still being computed: the next block's wait for its
    scores is a wait for it too.
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
    s = multiply_transposed(k, q, zeros, problem)
    lse = ring.lse.index(slot).load(COLUMN)
    mbarrier.wait(ring.do_full.index(slot), turn)
    dp = multiply_transposed(v, do, zeros, problem)
    # [release] Products end in order: the previous block's dK has ended too.
    s = warpgroup_mma_wait(2 if problem.THREE_QUARTERS else 1, deps=[s])
    if not FIRST:
        ring.release(i - 1)
    # [weights] P again, from the one number a row that the forward kept.
    p = gl.exp2(s * problem.qk_scale - lse[None, :])
    if MASK:
        p = without_hidden(p, key, query, problem)
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
        COLUMNS: gl.constexpr = dq_desc.block_type.shape[1]
        DQ: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
        dq_zeros = gl.zeros([QUERIES, COLUMNS], gl.float32, DQ)
        k_0 = as_matrix(kv.k.index(0)).slice(ME * 64, COLUMNS, dim=1)
        k_1 = as_matrix(kv.k.index(1)).slice(ME * 64, COLUMNS, dim=1)
        ds_0 = exchange.ds.index(half).permute((1, 0))
        ds_1 = exchange.ds.index(half + 1).permute((1, 0))
        dq = warpgroup_mma(ds_0, k_0, dq_zeros, use_acc=False, is_async=True)
        dq = warpgroup_mma(ds_1, k_1, dq, is_async=True)
        dk = warpgroup_mma(ds_smem, q, dk, is_async=True)
        dv = warpgroup_mma_wait(2, deps=[dv_next])
        # [send-dq] dQ is staged and sent while dK is computed.
        dq = warpgroup_mma_wait(1, deps=[dq])
        tma.store_wait(0)
        staged = exchange.dq.index(ME)._reinterpret(
            gl.float32, dq_desc.block_type.shape, dq_desc.layout
        )
        staged.store(dq)
        fence_async_shared()
        tma_reduce_add(dq_desc, [row, ME * 64], staged)
    return dk, dv


@gluon.jit
def key_tiles(dk_desc, dv_desc, dq_desc, ring, kv, exchange, problem, ME: gl.constexpr):
    """One warpgroup of keys: 64 keys of each tile of the list."""
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, QUERIES, 16])
    DKV: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    zeros = gl.zeros([KEYS, QUERIES], gl.float32, S)
    v_smem = as_matrix(kv.v.index(ME))
    i = 0  # blocks of queries visited so far
    for t in range(problem.first, problem.last):
        dk = gl.zeros([KEYS, HEAD_DIM], gl.float32, DKV)
        dv = gl.zeros([KEYS, HEAD_DIM], gl.float32, DKV)
        number = problem.get(t, NUMBER)
        k_smem = as_matrix(kv.k.index(kv.wait_k(number) + ME))
        mbarrier.wait(kv.v_full, number & 1)
        # [operands] In registers, where there is room: half the reads of the scores.
        if problem.HELPER:
            k = k_smem.load(gl.DotOperandLayout(0, S, k_width=2))
            v = v_smem.load(gl.DotOperandLayout(0, S, k_width=2))
            mbarrier.arrive(kv.v_empty, count=1)
        else:
            k = k_smem
            v = v_smem
        key = problem.get(t, KEY) + ME * KEYS
        row = problem.get(t, ROW)
        for _ in range(problem.group_size):
            # [diagonal] The blocks that the mask cuts come first, and apart; before
            # the very first one no product is under way.
            for n in gl.static_range(problem.MASKED_BLOCKS):
                query = (problem.get(t, BLOCK) + n) * QUERIES
                dk, dv = visit_block(
                    i, row, query, key, dk, dv, k, v, zeros, dq_desc, ring, kv,
                    exchange, problem, ME, problem.CAUSAL or problem.MASK_ALL, n == 0,
                )  # fmt: skip
                i += 1
                row += QUERIES
            # [main-loop] The blocks that see all keys.
            for _ in range(problem.MASKED_BLOCKS, problem.get(t, BLOCKS)):
                dk, dv = visit_block(
                    i, row, 0, key, dk, dv, k, v, zeros, dq_desc, ring, kv,
                    exchange, problem, ME, problem.MASK_ALL, False,
                )  # fmt: skip
                i += 1
                row += QUERIES
            dk = warpgroup_mma_wait(0, deps=[dk])
            ring.release(i - 1)
            row += problem.get(t, BLOCK) * QUERIES
        kv.release_k(problem.get(t, NUMBER))
        if not problem.HELPER:
            mbarrier.arrive(kv.v_empty, count=1)
        # [store] While the next tile is loaded. Where no room is left for them, dV
        # and then dK are staged where dQ was.
        batch, head_k = problem.get(t, BATCH), problem.get(t, HEAD_K)
        tma.store_wait(0)
        as_matrix(exchange.dkv.index(ME)).store(dv.to(dv_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(
            dv_desc, [batch, head_k, key, 0], exchange.dkv.index(ME)
        )
        slot: gl.constexpr = ME + 2 if problem.HELPER else ME
        if not problem.HELPER:
            tma.store_wait(0)
        dk = dk * (problem.qk_scale * LN_2)
        as_matrix(exchange.dkv.index(slot)).store(dk.to(dk_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(
            dk_desc, [batch, head_k, key, 0], exchange.dkv.index(slot)
        )
    tma.store_wait(0)


# fmt: off
@gluon.jit(do_not_specialize=[
    "group_size", "seqlen_k", "keys_after",
])
def _attn_bwd(
    q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc,
    dk_desc, dv_desc, dq_desc, dq_last_desc,
    tiles_ptr, starts_ptr,
    group_size, seqlen_k, keys_after, qk_scale,
    HEAD_DIM: gl.constexpr, STAGES: gl.constexpr, HELPER: gl.constexpr,
    CAUSAL: gl.constexpr, MASKED_BLOCKS: gl.constexpr, MASK_ALL: gl.constexpr,
    THREE_QUARTERS: gl.constexpr,
):
    K_SLOTS: gl.constexpr = 2 if HELPER else 1
    q = gl.allocate_shared_memory(
        q_desc.dtype, [STAGES] + q_desc.block_type.shape, q_desc.layout)  # noqa: RUF005
    do = gl.allocate_shared_memory(
        q_desc.dtype, [STAGES] + do_desc.block_type.shape, do_desc.layout)  # noqa: RUF005
    k = gl.allocate_shared_memory(
        q_desc.dtype, [2 * K_SLOTS] + k_desc.block_type.shape, k_desc.layout)  # noqa: RUF005
    v = gl.allocate_shared_memory(
        q_desc.dtype, [2] + v_desc.block_type.shape, v_desc.layout)  # noqa: RUF005
    lse = gl.allocate_shared_memory(gl.float32, [STAGES, QUERIES], lse_desc.layout)
    delta = gl.allocate_shared_memory(gl.float32, [STAGES, QUERIES], delta_desc.layout)
    DS: gl.constexpr = gl.NVMMASharedLayout.get_default_for(
        [KEYS, QUERIES], q_desc.dtype)
    ds = gl.allocate_shared_memory(q_desc.dtype, [4, KEYS, QUERIES], DS)
    dq = gl.allocate_shared_memory(
        gl.float32, [2] + dq_desc.block_type.shape, dq_desc.layout)  # noqa: RUF005
    if HELPER:
        dkv = gl.allocate_shared_memory(
            q_desc.dtype, [4] + dv_desc.block_type.shape, dv_desc.layout)  # noqa: RUF005
    else:
        dkv = dq._reinterpret(
            q_desc.dtype, [2] + dv_desc.block_type.shape, dv_desc.layout)  # noqa: RUF005
    ring = QueryRing(
        q, do, lse, delta,
        barriers(STAGES, 1), barriers(STAGES, 1), barriers(STAGES, 2), STAGES)
    K_READERS: gl.constexpr = 3 if HELPER else 2
    kv = KeyTile(
        k, v,
        barriers(K_SLOTS, 1), barriers(K_SLOTS, K_READERS),
        barriers(1, 1).index(0), barriers(1, 2).index(0), K_SLOTS, 2)
    exchange = Exchange(ds, dq, dkv, barriers(2, 2), barriers(2, 1), 2)
    fence_async_shared()
    problem = Problem(
        tiles_ptr,
        gl.load(starts_ptr + gl.program_id(0)),
        gl.load(starts_ptr + gl.program_id(0) + 1),
        group_size, seqlen_k, keys_after, qk_scale,
        HEAD_DIM, HELPER, CAUSAL, MASKED_BLOCKS, MASK_ALL, THREE_QUARTERS)
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
            (key_tiles, (dk_desc, dv_desc, dq_last_desc, ring, kv, exchange, problem,
                         gl.constexpr(1))),
        ], [4, 4], [240, 240])
    # fmt: on


# The largest head dim of each entry; None: two kernels, in `backward_wide`.
TILES = {
    64: Tile(stages=3, helper=True),
    128: Tile(stages=2, helper=False),
    256: None,
}


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
    """Fills `dq`, `dk`, `dv`, where the TMA can write; arguments are taken as valid.

    q, out, do, dq: (batch, nheads, seqlen_q, head_dim);
    k, v, dk, dv: (batch, nheads_k, seqlen_k, head_dim); lse and dlse, the
    gradient of lse or None: (batch, nheads, seqlen_q), fp32, contiguous.
    """
    tile = TILES[host.padded_dim(q.shape[3])]
    if tile is None:
        launch_wide(
            q, k, v, out, lse, do, dlse, dq, dk, dv,
            causal=causal, softmax_scale=softmax_scale,
        )  # fmt: skip
        return
    launches = prepare(
        BackwardSignature.of(q, k, v, out, do, dq, dk, dv),
        dlse is not None, causal, softmax_scale, tile,
    )  # fmt: skip
    keep_for_graphs(launches)
    rows = around.allocate(out, launches.padded_q, launches.padded_dim)
    assert rows.dq is not None  # it was asked for
    around.before(launches.before, out, do, lse, dlse, rows)
    launches.keys.launch(
        _attn_bwd, (q, k, v, do, rows.lse, rows.delta, dk, dv, rows.dq, rows.dq)
    )
    around.after(launches.queries, rows, dq)
