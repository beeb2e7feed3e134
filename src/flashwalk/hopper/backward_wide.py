"""The backward for Hopper, head dim 256: two kernels, seven products a block.

dK and dV of 64 keys fill half of a multiprocessor's registers: a warpgroup can
hold one of them and no more, and dQ's sums have no place at all. So one kernel
computes dK and dV, another dQ, and both compute the scores and dP. dQ needs no
sums in global memory then: all three are bitwise equal between runs.

dK and dV: a thread block has 64 keys and visits the queries in blocks of 64. One
warpgroup computes the weights and dV, and hands the weights on in shared memory;
the other computes dP, then dS, and dK:

    Sᵀ = K Qᵀ   Pᵀ = exp2(Sᵀ − lse)   dV += Pᵀ dO
                dPᵀ = V dOᵀ   dSᵀ = Pᵀ (dPᵀ − delta)   dK += dSᵀ Q

dQ: `backward_queries`.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

import functools
import math

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
from triton.language.core import _aggregate as aggregate

from flashwalk.hopper import around, host
from flashwalk.hopper.backward_host import Launches, key_tiling, thread_blocks
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
    KeyTile,
    Problem,
    QueryRing,
    barriers,
    without_hidden,
)
from flashwalk.hopper.backward_queries import launch_dq, prepare_dq
from flashwalk.hopper.backward_roles import load_tiles
from flashwalk.hopper.pipeline import as_matrix
from flashwalk.hopper.schedule import keep_for_graphs, records_on_device
from flashwalk.signature import BackwardSignature

STAGES = gl.constexpr(2)


@aggregate
class Weights:
    """Two slots for a block's weights, on their way from one warpgroup to the other."""

    p: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, p, full, empty):
        self.p, self.full, self.empty = p, full, empty

    @gluon.jit
    def put(self, i, p):
        mbarrier.wait(self.empty.index(i % 2), ((i // 2) & 1) ^ 1)
        self.p.index(i % 2).store(p)
        mbarrier.arrive(self.full.index(i % 2), count=1)

    @gluon.jit
    def take(self, i, LAYOUT: gl.constexpr):
        mbarrier.wait(self.full.index(i % 2), (i // 2) & 1)
        p = self.p.index(i % 2).load(LAYOUT)
        mbarrier.arrive(self.empty.index(i % 2), count=1)
        return p


@gluon.jit
def visit_for_dv(
    i, query, key, dv, k, zeros, ring, weights, problem,
    MASK: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """The weights of a block, handed on, and dV, which comes back under way."""
    S: gl.constexpr = zeros.type.layout
    COLUMN: gl.constexpr = gl.SliceLayout(0, S)
    ACC: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [4, 1], [16, problem.HEAD_DIM, 16]
    )
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, k_width=2)
    slot = i % ring.SLOTS
    turn = (i // ring.SLOTS) & 1
    # [weights] Products end in order: with the scores the previous dV has ended.
    mbarrier.wait(ring.q_full.index(slot), turn)
    q = as_matrix(ring.q.index(slot))
    s = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
    lse = ring.lse.index(slot).load(COLUMN)
    s = warpgroup_mma_wait(0, deps=[s])
    if not FIRST:
        ring.release(i - 1)
    p = gl.exp2(s * problem.qk_scale - lse[None, :])
    if MASK:
        p = without_hidden(p, key, query, problem)
    weights.put(i, p)
    # [dv] dV += Pᵀ dO.
    mbarrier.wait(ring.do_full.index(slot), turn)
    p_16 = gl.convert_layout(p.to(ring.q.dtype), P)
    return warpgroup_mma(p_16, as_matrix(ring.do.index(slot)), dv, is_async=True)


@gluon.jit
def visit_for_dk(
    i, query, key, dk, v, zeros, ring, weights, problem,
    MASK: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """dS of a block from the other's weights, and dK, which comes back under way."""
    S: gl.constexpr = zeros.type.layout
    ACC: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [4, 1], [16, problem.HEAD_DIM, 16]
    )
    DS: gl.constexpr = gl.DotOperandLayout(0, ACC, k_width=2)
    slot = i % ring.SLOTS
    turn = (i // ring.SLOTS) & 1
    # [ds] dSᵀ = Pᵀ (dPᵀ − delta); where P is masked, dS is 0 too.
    mbarrier.wait(ring.do_full.index(slot), turn)
    do = as_matrix(ring.do.index(slot))
    dp = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
    delta = ring.delta.index(slot).load(gl.SliceLayout(0, S))
    p = weights.take(i, S)
    dp = warpgroup_mma_wait(0, deps=[dp])
    if not FIRST:
        ring.release(i - 1)
    ds = (p * (dp - delta[None, :])).to(ring.q.dtype)
    # [dk] dK += dSᵀ Q.
    mbarrier.wait(ring.q_full.index(slot), turn)
    q = as_matrix(ring.q.index(slot))
    return warpgroup_mma(gl.convert_layout(ds, DS), q, dk, is_async=True)


@gluon.jit
def key_tiles(out_desc, ring, kv, weights, problem, FOR_DK: gl.constexpr):
    """A warpgroup with dV, or with dK, of each tile of the list."""
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, QUERIES, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    visit: gl.constexpr = visit_for_dk if FOR_DK else visit_for_dv
    MASK: gl.constexpr = problem.CAUSAL or problem.MASK_ALL
    zeros = gl.zeros([KEYS, QUERIES], gl.float32, S)
    # Keys are read by the one warpgroup alone, values by the other.
    buffer = kv.v.index(0) if FOR_DK else kv.k.index(0)
    full = kv.v_full if FOR_DK else kv.k_full.index(0)
    empty = kv.v_empty if FOR_DK else kv.k_empty.index(0)
    mine = as_matrix(buffer)
    i = 0  # blocks of queries visited so far
    for t in range(problem.first, problem.last):
        acc = gl.zeros([KEYS, HEAD_DIM], gl.float32, ACC)
        mbarrier.wait(full, problem.get(t, NUMBER) & 1)
        key = problem.get(t, KEY)
        for _ in range(problem.group_size):
            # [diagonal] The blocks that the mask cuts come first, and apart.
            for n in gl.static_range(problem.MASKED_BLOCKS):
                query = (problem.get(t, BLOCK) + n) * QUERIES
                acc = visit(
                    i,
                    query,
                    key,
                    acc,
                    mine,
                    zeros,
                    ring,
                    weights,
                    problem,
                    MASK,
                    n == 0,
                )
                i += 1
            # [main-loop] The blocks that see all keys.
            for _ in range(problem.MASKED_BLOCKS, problem.get(t, BLOCKS)):
                acc = visit(
                    i, 0, key, acc, mine, zeros, ring, weights, problem,
                    problem.MASK_ALL, False,
                )  # fmt: skip
                i += 1
            acc = warpgroup_mma_wait(0, deps=[acc])
            ring.release(i - 1)
        # [store] Through the buffer that only this warpgroup has read.
        if FOR_DK:
            acc = acc * (problem.qk_scale * LN_2)
        mine.store(acc.to(out_desc.dtype))
        fence_async_shared()
        at_batch, at_head = problem.get(t, BATCH), problem.get(t, HEAD_K)
        tma.async_copy_shared_to_global(out_desc, [at_batch, at_head, key, 0], buffer)
        tma.store_wait(0)
        mbarrier.arrive(empty, count=1)


# fmt: off
@gluon.jit(do_not_specialize=["group_size", "seqlen_k", "keys_after"])
def _attn_bwd_dkdv(
    q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, dk_desc, dv_desc,
    tiles_ptr, starts_ptr,
    group_size, seqlen_k, keys_after, qk_scale,
    HEAD_DIM: gl.constexpr,
    CAUSAL: gl.constexpr, MASKED_BLOCKS: gl.constexpr, MASK_ALL: gl.constexpr,
):
    q = gl.allocate_shared_memory(
        q_desc.dtype, [STAGES] + q_desc.block_type.shape, q_desc.layout)  # noqa: RUF005
    do = gl.allocate_shared_memory(
        q_desc.dtype, [STAGES] + do_desc.block_type.shape, do_desc.layout)  # noqa: RUF005
    k = gl.allocate_shared_memory(
        q_desc.dtype, [1] + k_desc.block_type.shape, k_desc.layout)  # noqa: RUF005
    v = gl.allocate_shared_memory(
        q_desc.dtype, [1] + v_desc.block_type.shape, v_desc.layout)  # noqa: RUF005
    lse = gl.allocate_shared_memory(gl.float32, [STAGES, QUERIES], lse_desc.layout)
    delta = gl.allocate_shared_memory(gl.float32, [STAGES, QUERIES], delta_desc.layout)
    P: gl.constexpr = gl.NVMMASharedLayout.get_default_for([KEYS, QUERIES], gl.float32)
    p = gl.allocate_shared_memory(gl.float32, [2, KEYS, QUERIES], P)
    ring = QueryRing(
        q, do, lse, delta,
        barriers(STAGES, 1), barriers(STAGES, 1), barriers(STAGES, 2), STAGES)
    kv = KeyTile(
        k, v, barriers(1, 1), barriers(1, 1),
        barriers(1, 1).index(0), barriers(1, 1).index(0), 1, 1)
    weights = Weights(p, barriers(2, 1), barriers(2, 1))
    fence_async_shared()
    problem = Problem(
        tiles_ptr,
        gl.load(starts_ptr + gl.program_id(0)),
        gl.load(starts_ptr + gl.program_id(0) + 1),
        group_size, seqlen_k, keys_after, qk_scale,
        HEAD_DIM, False, CAUSAL, MASKED_BLOCKS, MASK_ALL, False)
    gl.warp_specialize([
        (load_tiles, (q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc,
                      ring, kv, problem)),
        (key_tiles, (dv_desc, ring, kv, weights, problem, gl.constexpr(False))),
        (key_tiles, (dk_desc, ring, kv, weights, problem, gl.constexpr(True))),
    ], [4, 4], [240, 240])
    # fmt: on


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
    """Fills `dq`, `dk` and `dv`: as `backward.launch`, for head dims up to 256."""
    launches = prepare(
        BackwardSignature.of(q, k, v, out, do, dq, dk, dv),
        dlse is not None, causal, softmax_scale,
    )  # fmt: skip
    keep_for_graphs(launches)
    rows = around.allocate(out, launches.padded_q, launches.padded_dim, sums=False)
    around.before(launches.before, out, do, lse, dlse, rows)
    moved = (q, k, v, do, rows.lse, rows.delta, dk, dv)
    launches.keys.launch(_attn_bwd_dkdv, moved)
    launch_dq(launches.queries, q, k, v, do, rows, dq)


@functools.lru_cache(maxsize=256)
def prepare(
    signature: BackwardSignature, has_dlse: bool, causal: bool, softmax_scale: float
) -> Launches:
    """What `launch` launches."""
    q, k, v, out, do, dq, dk, dv = signature.tensors()
    device = signature.forward.device
    seqlen_k, head_dim = k.shape[2:]
    padded_dim = host.padded_dim(head_dim)
    keys_after = seqlen_k - q.shape[2]
    masked_blocks = 1 + (causal and keys_after % QUERIES.value != 0)
    # An even number of blocks: the kernel for dQ takes two at once.
    query_blocks = 2 * -(-q.shape[2] // (2 * QUERIES.value))
    tiling = key_tiling(
        q, k, causal,
        block_n=KEYS.value, query_blocks=query_blocks, masked_blocks=masked_blocks,
    )  # fmt: skip
    blocks = thread_blocks(tiling.heads * tiling.tiles_per_head, device)
    rows = around.allocate(out, query_blocks * QUERIES.value, padded_dim, sums=False)
    keys = host.Recipe(
        (blocks, 1, 1),
        (
            *(host.describe(x, QUERIES.value, padded_dim) for x in (q, k, v, do)),
            host.describe_line(rows.lse, QUERIES.value),
            host.describe_line(rows.delta, QUERIES.value),
            *(host.describe(x, KEYS.value, padded_dim) for x in (dk, dv)),
        ),
        (
            *records_on_device(tiling, blocks, device),
            tiling.group_size, seqlen_k, keys_after,
            softmax_scale * math.log2(math.e),
            padded_dim, causal, masked_blocks,
            not causal and seqlen_k % KEYS.value != 0,
        ),
    )  # fmt: skip
    return Launches(
        around.prepare_before(out, do, rows, has_dlse),
        keys,
        prepare_dq(q, k, v, do, dq, device, causal, softmax_scale),
        query_blocks * QUERIES.value,
        padded_dim,
    )
