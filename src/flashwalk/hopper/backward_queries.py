"""dQ for Hopper, head dim 256: 128 queries a thread block, keys in blocks of 64.

One warpgroup loads; two own 64 queries each, and visit the keys from the last
block that they see to the first, so that a mask is needed first or never:

    S = Q Kᵀ   P = exp2(S − lse)   dP = dO Vᵀ   dS = P (dP − delta)   dQ += dS K
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

import math

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.core import _aggregate as aggregate

from flashwalk.hopper import host
from flashwalk.hopper.around import RowBuffers
from flashwalk.hopper.backward_host import thread_blocks
from flashwalk.hopper.backward_problem import LN_2
from flashwalk.hopper.pipeline import make_ring
from flashwalk.hopper.schedule import QueryTiling, heads_in_l2, records_on_device

ROWS = gl.constexpr(64)  # queries of a warpgroup
BLOCK_N = gl.constexpr(64)
GROUPS = gl.constexpr(2)
# A tile's record, as `QueryTiling.record` writes it: batch, query head, key head, its
# first row, there and in the buffers of rows; the blocks of keys that each of the two
# warpgroups visits; and how many tiles the thread block had before.
FIELDS = gl.constexpr(8)
BATCH, HEAD, HEAD_K, ROW, LINE, BLOCKS, BLOCKS_1, NUMBER = (
    gl.constexpr(n) for n in range(8)
)


# fmt: off
@aggregate
class Problem:
    """What every warpgroup knows: its list of tiles, the sizes, the constants.

    MASK: the last block of keys that a row sees needs a mask; MASK_ALL: the diagonal
    may cross two blocks.
    """

    tiles_ptr: gl.tensor
    first: gl.tensor
    last: gl.tensor
    seqlen_k: gl.tensor
    keys_after: gl.tensor
    qk_scale: gl.tensor
    HEAD_DIM: gl.constexpr
    CAUSAL: gl.constexpr
    MASK: gl.constexpr
    MASK_ALL: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, tiles_ptr, first, last, seqlen_k, keys_after, qk_scale,
        HEAD_DIM, CAUSAL, MASK, MASK_ALL,
    ):
        self.tiles_ptr, self.first, self.last = tiles_ptr, first, last
        self.seqlen_k, self.keys_after = seqlen_k, keys_after
        self.qk_scale = qk_scale
        self.HEAD_DIM = gl.constexpr(HEAD_DIM)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.MASK = gl.constexpr(MASK)
        self.MASK_ALL = gl.constexpr(MASK_ALL)
    # fmt: on

    @gluon.jit
    def get(self, t, FIELD: gl.constexpr):
        """One number of the t-th tile."""
        return gl.load(self.tiles_ptr + t * FIELDS + FIELD)


@gluon.jit
def load_tiles(
    q_desc, k_desc, v_desc, do_desc, q_ring, do_ring, k_ring, v_ring, problem
):
    """The loader: Q and dO of a tile, then its keys and values."""
    i = 0  # blocks of keys loaded so far
    for t in range(problem.first, problem.last):
        batch, head = problem.get(t, BATCH), problem.get(t, HEAD)
        head_k, row = problem.get(t, HEAD_K), problem.get(t, ROW)
        # The second warpgroup's rows are later ones: it visits as many or more.
        blocks = problem.get(t, BLOCKS_1)
        for j in range(blocks):
            key = (blocks - 1 - j) * BLOCK_N
            k_ring.fill(i, k_desc, batch, head_k, key)
            if j == 0:
                for g in gl.static_range(GROUPS):
                    item = problem.get(t, NUMBER) * GROUPS + g
                    q_ring.fill(item, q_desc, batch, head, row + g * ROWS)
                for g in gl.static_range(GROUPS):
                    item = problem.get(t, NUMBER) * GROUPS + g
                    do_ring.fill(item, do_desc, batch, head, row + g * ROWS)
            v_ring.fill(i, v_desc, batch, head_k, key)
            i += 1


@gluon.jit
def visit_block(
    i, row, key, dq, q, do, lse, delta, zeros, k_ring, v_ring, problem,
    MASK: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """One block of keys, the i-th of the launch. dQ comes back under way."""
    S: gl.constexpr = zeros.type.layout
    ACC: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [4, 1], [16, problem.HEAD_DIM, 16]
    )
    DS: gl.constexpr = gl.DotOperandLayout(0, ACC, k_width=2)
    # [scores] S and dP are issued together.
    k = k_ring.wait(i)
    s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
    v = v_ring.wait(i)
    dp = warpgroup_mma(do, v.permute((1, 0)), zeros, use_acc=False, is_async=True)
    # [weights] Products end in order: with the scores the previous dQ has ended.
    s = warpgroup_mma_wait(1, deps=[s])
    if not FIRST:
        k_ring.release(i - 1)
    p = gl.exp2(s * problem.qk_scale - lse[:, None])
    if MASK:
        keys = key + gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, S))
        visible = (keys < problem.seqlen_k)[None, :]
        if problem.CAUSAL:
            rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, S))
            visible = keys[None, :] <= rows[:, None] + problem.keys_after
        p = gl.where(visible, p, 0.0)
    # [ds] dS = P (dP − delta).
    dp = warpgroup_mma_wait(0, deps=[dp])
    v_ring.release(i)
    ds = (p * (dp - delta[:, None])).to(k.dtype)
    # [dq] dQ += dS K.
    return warpgroup_mma(gl.convert_layout(ds, DS), k, dq, is_async=True)


@gluon.jit
def query_tiles(
    dq_desc, lse_ptr, delta_ptr, q_ring, do_ring, k_ring, v_ring, problem,
    ME: gl.constexpr,
):  # fmt: skip
    """One warpgroup: 64 queries of each tile of the list."""
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    DQ: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, S)
    i = 0  # blocks of keys visited so far, or handed on
    for t in range(problem.first, problem.last):
        row = problem.get(t, ROW) + ME * ROWS
        blocks = problem.get(t, BLOCKS + ME)
        # [hand-on] Blocks that only the other warpgroup's rows see.
        for _ in range(blocks, problem.get(t, BLOCKS_1)):
            k_ring.wait(i)
            k_ring.release(i)
            v_ring.wait(i)
            v_ring.release(i)
            i += 1
        line = problem.get(t, LINE) + ME * ROWS
        lines = line + gl.arange(0, ROWS, layout=gl.SliceLayout(1, S))
        lse, delta = gl.load(lse_ptr + lines), gl.load(delta_ptr + lines)
        item = problem.get(t, NUMBER) * GROUPS + ME
        q, do = q_ring.wait(item), do_ring.wait(item)
        dq = gl.zeros([ROWS, HEAD_DIM], gl.float32, DQ)
        # [first-block] The last keys: mostly the only block that needs a mask.
        key = (blocks - 1) * BLOCK_N
        dq = visit_block(
            i, row, key, dq, q, do, lse, delta, zeros, k_ring, v_ring, problem,
            problem.MASK, True,
        )  # fmt: skip
        i += 1
        # [main-loop]
        for _ in range(1, blocks):
            key -= BLOCK_N
            dq = visit_block(
                i, row, key, dq, q, do, lse, delta, zeros, k_ring, v_ring, problem,
                problem.MASK_ALL, False,
            )  # fmt: skip
            i += 1
        do_ring.release(item)
        dq = warpgroup_mma_wait(0, deps=[dq])
        k_ring.release(i - 1)
        # [store] Through Q's buffer, which only this warpgroup has read.
        dq = dq * (problem.qk_scale * LN_2)
        q.store(dq.to(dq_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(
            dq_desc,
            [problem.get(t, BATCH), problem.get(t, HEAD), row, 0],
            q_ring.buffers.index(ME),
        )
        tma.store_wait(0)
        q_ring.release(item)


# fmt: off
@gluon.jit(do_not_specialize=["seqlen_k", "keys_after"])
def _attn_bwd_dq(
    q_desc, k_desc, v_desc, do_desc, dq_desc, lse_ptr, delta_ptr,
    tiles_ptr, starts_ptr,
    seqlen_k, keys_after, qk_scale,
    HEAD_DIM: gl.constexpr, CAUSAL: gl.constexpr,
    MASK: gl.constexpr, MASK_ALL: gl.constexpr,
):
    # [rings] Slot g of Q's and of dO's belongs to warpgroup g.
    q_ring = make_ring(q_desc, GROUPS, 1)
    do_ring = make_ring(do_desc, GROUPS, 1)
    k_ring = make_ring(k_desc, 2, GROUPS)
    v_ring = make_ring(v_desc, 1, GROUPS)
    fence_async_shared()
    problem = Problem(
        tiles_ptr,
        gl.load(starts_ptr + gl.program_id(0)),
        gl.load(starts_ptr + gl.program_id(0) + 1),
        seqlen_k, keys_after, qk_scale, HEAD_DIM, CAUSAL, MASK, MASK_ALL)
    gl.warp_specialize([
        (load_tiles, (q_desc, k_desc, v_desc, do_desc,
                      q_ring, do_ring, k_ring, v_ring, problem)),
        (query_tiles, (dq_desc, lse_ptr, delta_ptr,
                       q_ring, do_ring, k_ring, v_ring, problem, gl.constexpr(0))),
        (query_tiles, (dq_desc, lse_ptr, delta_ptr,
                       q_ring, do_ring, k_ring, v_ring, problem, gl.constexpr(1))),
    ], [4, 4], [240, 240])
    # fmt: on


def prepare_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    dq: torch.Tensor,
    device: torch.device,
    causal: bool,
    softmax_scale: float,
) -> host.Recipe:
    """The launch that fills dq; of the tensors only shapes and strides count."""
    batch, nheads, seqlen_q, head_dim = q.shape
    nheads_k, seqlen_k = k.shape[1:3]
    padded_dim = host.padded_dim(head_dim)
    keys_after = seqlen_k - seqlen_q
    tiling = QueryTiling(
        heads=batch * nheads,
        nheads=nheads,
        group_size=nheads // nheads_k,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        block_m=GROUPS.value * ROWS.value,
        block_n=BLOCK_N.value,
        keys_after=keys_after if causal else None,
        heads_at_once=heads_in_l2(seqlen_k, head_dim, nheads // nheads_k)
        if causal
        else 1,
    )
    blocks = thread_blocks(tiling.heads * tiling.tiles_per_head, device)
    return host.Recipe(
        (blocks, 1, 1),
        tuple(host.describe(x, ROWS.value, padded_dim) for x in (q, k, v, do, dq)),
        (
            *records_on_device(tiling, blocks, device),
            seqlen_k, keys_after, softmax_scale * math.log2(math.e),
            padded_dim, causal,
            causal or seqlen_k % BLOCK_N.value != 0,
            causal and keys_after % BLOCK_N.value != 0,
        ),
    )  # fmt: skip


def launch_dq(
    recipe: host.Recipe,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    rows: RowBuffers,
    dq: torch.Tensor,
) -> None:
    """Fills `dq`. rows: lse and delta, of whole tiles of 128 queries."""
    recipe.launch(_attn_bwd_dq, (q, k, v, do, dq), rows.lse, rows.delta)
