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

import torch
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.core import _aggregate as aggregate

from flashwalk.hopper import host
from flashwalk.hopper.pipeline import as_matrix

KEYS = gl.constexpr(64)  # keys of one warpgroup: the height of a wgmma
QUERIES = gl.constexpr(64)  # queries of a block
TILE = gl.constexpr(128)  # keys of a thread block


@builtin
def tma_reduce_add(descriptor, coordinates, source, _semantic=None):
    """global += shared, by the TMA. Gluon 3.6 has it, but no Python name for it."""
    coordinates = _semantic._convert_to_ir_values(coordinates, require_i64=False)
    _semantic.builder.create_async_tma_reduce(
        ir.DESCRIPTOR_REDUCE_KIND.ADD, descriptor.handle, coordinates, source.handle
    )


@gluon.jit
def meet():
    """A barrier of the two key warpgroups, 256 threads."""
    lanes = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    gl.inline_asm_elementwise(
        "bar.sync 9, 256; mov.b32 $0, $1;",
        "=r,r",
        [lanes],
        dtype=gl.int32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def barriers(N: gl.constexpr, ARRIVALS: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [N, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(N):
        mbarrier.init(bars.index(i), count=ARRIVALS)
    return bars


@aggregate
class QueryRing:
    """Slots for blocks of queries.

    Q comes with lse, dO with delta, each pair behind a barrier; one barrier
    gives all four back.
    """

    q: gl.shared_memory_descriptor
    do: gl.shared_memory_descriptor
    lse: gl.shared_memory_descriptor
    delta: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    do_full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    SLOTS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, q, do, lse, delta, q_full, do_full, empty, SLOTS):
        self.q, self.do, self.lse, self.delta = q, do, lse, delta
        self.q_full, self.do_full, self.empty = q_full, do_full, empty
        self.SLOTS = gl.constexpr(SLOTS)

    @gluon.jit
    def release(self, i, pred):
        slot = (i + self.SLOTS) % self.SLOTS
        mbarrier.arrive(self.empty.index(slot), count=1, pred=pred)


@aggregate
class KeyTile:
    """K and V of a tile, one half for each key warpgroup."""

    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, k, v, k_full, k_empty, v_full, v_empty):
        self.k, self.v = k, v
        self.k_full, self.k_empty = k_full, k_empty
        self.v_full, self.v_empty = v_full, v_empty


@aggregate
class Exchange:
    """dS on its way to dQ, and dQ on its way out.

    Slot s holds the halves 2 s and 2 s + 1; with a warpgroup for dQ, barriers
    hand them over.
    """

    ds: gl.shared_memory_descriptor
    dq: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    SLOTS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, ds, dq, full, empty, SLOTS):
        self.ds, self.dq, self.full, self.empty = ds, dq, full, empty
        self.SLOTS = gl.constexpr(SLOTS)


# fmt: off
@aggregate
class Problem:
    """What every warpgroup knows: its list of tiles, the sizes, the constants."""

    tiles_ptr: gl.tensor
    first: gl.tensor
    last: gl.tensor
    nheads_k: gl.tensor
    group_size: gl.tensor
    seqlen_k: gl.tensor
    query_blocks: gl.tensor
    keys_after: gl.tensor
    tiles_per_head: gl.tensor
    qk_scale: gl.tensor
    scale: gl.tensor
    HEAD_DIM: gl.constexpr
    HELPER: gl.constexpr
    CAUSAL: gl.constexpr
    PEELED: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, tiles_ptr, first, last, nheads_k, group_size, seqlen_k,
        query_blocks, keys_after, tiles_per_head, qk_scale, scale,
        HEAD_DIM, HELPER, CAUSAL, PEELED,
    ):
        self.tiles_ptr, self.first, self.last = tiles_ptr, first, last
        self.nheads_k, self.group_size = nheads_k, group_size
        self.seqlen_k, self.query_blocks = seqlen_k, query_blocks
        self.keys_after, self.tiles_per_head = keys_after, tiles_per_head
        self.qk_scale, self.scale = qk_scale, scale
        self.HEAD_DIM = gl.constexpr(HEAD_DIM)
        self.HELPER = gl.constexpr(HELPER)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.PEELED = gl.constexpr(PEELED)
    # fmt: on

    @gluon.jit
    def locate(self, t):
        """(batch, key head, first key, first block of queries) of the t-th tile."""
        tile = gl.load(self.tiles_ptr + t)
        batch_head = tile // self.tiles_per_head
        key = (tile % self.tiles_per_head) * TILE
        block = 0
        if self.CAUSAL:
            block = gl.maximum(key - self.keys_after, 0) // QUERIES
            block = gl.minimum(block, self.query_blocks)
        return batch_head // self.nheads_k, batch_head % self.nheads_k, key, block


@gluon.jit
def load_tiles(
    q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, ring, kv, problem
):
    """The loader: K, Q and V of a tile, then the other blocks of queries."""
    i = 0  # blocks of queries loaded so far
    for t in range(problem.first, problem.last):
        batch, head_k, key, block = problem.locate(t)
        turn = ((t - problem.first) & 1) ^ 1
        mbarrier.wait(kv.k_empty, turn)
        mbarrier.expect(kv.k_full, 2 * k_desc.block_type.nbytes)
        for half in gl.static_range(2):
            tma.async_copy_global_to_shared(
                k_desc, [batch, head_k, key + half * KEYS, 0], kv.k_full, kv.k.index(half)
            )
        for g in range(problem.group_size):
            head = head_k * problem.group_size + g
            line = (batch * problem.nheads_k * problem.group_size + head) * (
                problem.query_blocks * QUERIES
            )
            for j in range(block, problem.query_blocks):
                slot = i % ring.SLOTS
                row = j * QUERIES
                mbarrier.wait(ring.empty.index(slot), ((i // ring.SLOTS) & 1) ^ 1)
                full = ring.q_full.index(slot)
                mbarrier.expect(full, q_desc.block_type.nbytes + QUERIES * 4)
                tma.async_copy_global_to_shared(
                    q_desc, [batch, head, row, 0], full, ring.q.index(slot)
                )
                tma.async_copy_global_to_shared(
                    lse_desc, [line + row], full, ring.lse.index(slot)
                )
                # [load-v] V is needed after K and Q, and its buffer is the last
                # to be free: it also stages the previous tile's dV and dK.
                if (g == 0) & (j == block):
                    mbarrier.wait(kv.v_empty, turn)
                    mbarrier.expect(kv.v_full, 2 * v_desc.block_type.nbytes)
                    for half in gl.static_range(2):
                        tma.async_copy_global_to_shared(
                            v_desc,
                            [batch, head_k, key + half * KEYS, 0],
                            kv.v_full,
                            kv.v.index(half),
                        )
                full = ring.do_full.index(slot)
                mbarrier.expect(full, do_desc.block_type.nbytes + QUERIES * 4)
                tma.async_copy_global_to_shared(
                    do_desc, [batch, head, row, 0], full, ring.do.index(slot)
                )
                tma.async_copy_global_to_shared(
                    delta_desc, [line + row], full, ring.delta.index(slot)
                )
                i += 1


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


@gluon.jit
def dq_tiles(dq_desc, kv, exchange, problem):
    """Head dim 64: the warpgroup that computes dQ and nothing else."""
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    DQ: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    zeros = gl.zeros([QUERIES, HEAD_DIM], gl.float32, DQ)
    i = 0
    for t in range(problem.first, problem.last):
        batch, head_k, _key, block = problem.locate(t)
        mbarrier.wait(kv.k_full, (t - problem.first) & 1)
        for g in range(problem.group_size):
            head = head_k * problem.group_size + g
            for j in range(block, problem.query_blocks):
                slot = i % exchange.SLOTS
                mbarrier.wait(exchange.full.index(slot), (i // exchange.SLOTS) & 1)
                ds_0 = exchange.ds.index(slot * 2).permute((1, 0))
                ds_1 = exchange.ds.index(slot * 2 + 1).permute((1, 0))
                k_0, k_1 = as_matrix(kv.k.index(0)), as_matrix(kv.k.index(1))
                dq = warpgroup_mma(ds_0, k_0, zeros, use_acc=False, is_async=True)
                dq = warpgroup_mma(ds_1, k_1, dq, is_async=True)
                dq = warpgroup_mma_wait(0, deps=[dq])
                mbarrier.arrive(exchange.empty.index(slot), count=1)
                tma.store_wait(1)
                staged = exchange.dq.index(i % 2)
                as_matrix(staged).store(dq)
                fence_async_shared()
                tma_reduce_add(dq_desc, [batch, head, j * QUERIES, 0], staged)
                i += 1
        mbarrier.arrive(kv.k_empty, count=1)
    tma.store_wait(0)


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
    CAUSAL: gl.constexpr, PEELED: gl.constexpr,
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
        qk_scale, scale, HEAD_DIM, HELPER, CAUSAL, PEELED)
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


# fmt: off
@triton.jit(do_not_specialize=["nheads", "seqlen_q", "padded_q", "head_dim"])
def _before(
    o_ptr, do_ptr, lse_ptr, dlse_ptr, lse2_ptr, delta_ptr, dq_ptr,
    stride_ob, stride_oh, stride_om,
    stride_gb, stride_gh, stride_gm,
    nheads, seqlen_q, padded_q, head_dim,
    HAS_DLSE: tl.constexpr, HEAD_DIM: tl.constexpr, ROWS: tl.constexpr,
):
    # fmt: on
    # [rows] A block of rows of one head; rows past the end exist in the buffers.
    off_bh = tl.program_id(0).to(tl.int64)
    off_b, off_h = off_bh // nheads, off_bh % nheads
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, HEAD_DIM)
    exists = rows < seqlen_q
    mask = exists[:, None] & (cols < head_dim)[None, :]
    # [delta] delta = rowsum(o · do); a gradient of lse counts against it.
    far = rows.to(tl.int64)[:, None]
    o_at = o_ptr + off_b * stride_ob + off_h * stride_oh + far * stride_om
    g_at = do_ptr + off_b * stride_gb + off_h * stride_gh + far * stride_gm
    o = tl.load(o_at + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    do = tl.load(g_at + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    delta = tl.sum(o * do, axis=1)
    if HAS_DLSE:
        delta -= tl.load(dlse_ptr + off_bh * seqlen_q + rows, mask=exists, other=0.0)
    # [lse] In base 2. +inf gives weight 0: to rows past the end, and to rows that
    # see no key.
    lse = tl.load(lse_ptr + off_bh * seqlen_q + rows, mask=exists, other=float("inf"))
    lse = tl.where(lse == float("-inf"), float("inf"), lse * 1.4426950408889634)
    at = off_bh * padded_q + rows
    tl.store(lse2_ptr + at, lse, mask=rows < padded_q)
    tl.store(delta_ptr + at, delta, mask=rows < padded_q)
    # [empty] dQ is summed up from 0.
    dq_at = dq_ptr + at[:, None] * HEAD_DIM + cols[None, :]
    zeros = tl.zeros([ROWS, HEAD_DIM], tl.float32)
    tl.store(dq_at, zeros, mask=(rows < padded_q)[:, None])


# fmt: off
@triton.jit(do_not_specialize=["seqlen_q", "padded_q", "head_dim"])
def _after(
    sum_ptr, dq_ptr, scale, seqlen_q, padded_q, head_dim,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr,
):
    # fmt: on
    # [round] dQ = scale · sum, in the dtype of q.
    off_bh = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, HEAD_DIM)
    mask = (rows < seqlen_q)[:, None] & (cols < head_dim)[None, :]
    from_at = (off_bh * padded_q + rows)[:, None] * HEAD_DIM + cols[None, :]
    to_at = (off_bh * seqlen_q + rows)[:, None] * head_dim + cols[None, :]
    dq = tl.load(sum_ptr + from_at, mask=mask) * scale
    tl.store(dq_ptr + to_at, dq.to(dq_ptr.dtype.element_ty), mask=mask)


# head_dim: stages of Q and dO, and whether a warpgroup does nothing but dQ.
TILES = {64: (3, True), 128: (2, False)}
_ROWS = 32
_HEADS_AT_ONCE = 4


def _line(x):
    """One row after another, as the TMA reads lse and delta."""
    flat = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    return TensorDescriptor(x.view(-1), [x.numel()], [1], [64], flat)


def launch(
    q, k, v, out, lse, do, dlse, dq, dk, dv, *, causal: bool, softmax_scale: float
) -> None:
    """Fills dq, dk, dv."""
    from flashwalk.hopper.schedule import backward_plan_on_device

    batch, nheads, seqlen_q, head_dim = q.shape
    nheads_k, seqlen_k = k.shape[1:3]
    padded_dim = host.padded_dim(head_dim)
    stages, helper = TILES[padded_dim]
    query_blocks = -(-seqlen_q // 64)
    padded_q = query_blocks * 64
    keys_after = seqlen_k - seqlen_q
    lse2 = torch.empty(batch * nheads, padded_q, dtype=torch.float32, device=q.device)
    delta = torch.empty_like(lse2)
    sums = torch.empty(
        batch, nheads, padded_q, padded_dim, dtype=torch.float32, device=q.device
    )
    grid = (batch * nheads, triton.cdiv(padded_q, _ROWS))
    _before[grid](
        out, do, lse, lse if dlse is None else dlse, lse2, delta, sums,
        *out.stride()[:3], *do.stride()[:3],
        nheads, seqlen_q, padded_q, head_dim,
        HAS_DLSE=dlse is not None, HEAD_DIM=padded_dim, ROWS=_ROWS, num_warps=4,
    )  # fmt: skip
    tiles_per_head = -(-seqlen_k // 128)
    thread_blocks = min(
        host.multiprocessors(q.device), batch * nheads_k * tiles_per_head
    )
    tiles, starts = backward_plan_on_device(
        batch * nheads_k, seqlen_q, seqlen_k, causal, _HEADS_AT_ONCE,
        thread_blocks, q.device,
    )  # fmt: skip
    sum_layout = gl.NVMMASharedLayout.get_default_for([1, 1, 64, 64], gl.float32)
    sum_desc = TensorDescriptor(
        sums, list(sums.shape), list(sums.stride()), [1, 1, 64, 64], sum_layout
    )
    _attn_bwd[(thread_blocks,)](
        *(host.describe(x, 64, padded_dim) for x in (q, k, v, do)),
        _line(lse2), _line(delta),
        host.describe(dk, 64, padded_dim), host.describe(dv, 64, padded_dim), sum_desc,
        tiles, starts,
        nheads_k, nheads // nheads_k, seqlen_k, query_blocks, keys_after,
        tiles_per_head,
        softmax_scale * math.log2(math.e), softmax_scale,
        HEAD_DIM=padded_dim, STAGES=stages, HELPER=helper,
        CAUSAL=causal, PEELED=2 if keys_after % 64 == 0 else 3,
        num_warps=4,
    )  # fmt: skip
    _after[grid](
        sums, dq, softmax_scale, seqlen_q, padded_q, head_dim,
        HEAD_DIM=padded_dim, ROWS=_ROWS, num_warps=4,
    )  # fmt: skip
