"""Q in registers: less to read from shared memory, where it is the limit.

A matrix product of Hopper takes its second factor from shared memory, and its
first from there or from registers. At head dim 128 the products of the scores
read Q and K at nearly the rate that shared memory has. Q is the same in every
step: loaded to registers once, it saves a third of that traffic, and the energy
that it takes (FlashAttention-3's source has a switch for it, off by default). At
the other head dims the registers are not there.
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
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from flashwalk.hopper import host
from flashwalk.hopper.pipeline import make_ring, pass_turn, take_turn
from flashwalk.hopper.problem import ROWS, mask, send, store_lse
from flashwalk.hopper.schedule import Tiling
from flashwalk.ladder.problem import Problem

LN2 = gl.constexpr(math.log(2))


@gluon.jit
def load_tile(q_desc, k_desc, v_desc, q_ring, k_ring, v_ring, problem):
    """The loader: fills the rings in the order in which the others read them."""
    GROUPS: gl.constexpr = problem.GROUPS
    batch, head, row, blocks = problem.locate()
    head_k = head // problem.group_size
    # [load-order] K0, Q, then K1 V0, K2 V1, and so on: a block's V is needed
    # when the next block's scores are under way.
    for j in range(blocks + 1):
        if j < blocks:
            k_row = (blocks - 1 - j) * problem.BLOCK_N
            k_ring.fill(j, k_desc, batch, head_k, k_row)
        if j == 0:
            for g in gl.static_range(GROUPS):
                q_ring.fill(g, q_desc, batch, head, row + g * ROWS)
        else:
            v_row = (blocks - j) * problem.BLOCK_N
            v_ring.fill(j - 1, v_desc, batch, head_k, v_row)


@gluon.jit
def softmax_step(s, m_i, l_i, qk_scale, EMPTY: gl.constexpr):
    """One step of the online softmax, in base 2. s: unscaled scores.

    EMPTY: whether a row may see no key so far, so that its maximum is −inf.
    Returns (p, alpha, m_i, l_i).
    """
    m_new = gl.max(s, 1) * qk_scale
    m_new = gl.maximum(m_i, m_new)
    m_safe = m_new
    if EMPTY:
        m_safe = gl.where(m_new == float("-inf"), 0.0, m_new)
    p = gl.exp2(s * qk_scale - m_safe[:, None])
    alpha = gl.exp2(m_i - m_safe)
    return p, alpha, m_new, l_i * alpha + gl.sum(p, 1)


@gluon.jit
def hand_on(k_ring, v_ring, count, ME: gl.constexpr, GROUPS: gl.constexpr):
    """Gives blocks back unread that only the warpgroups below this one see.

    Turns are counted: whoever skips a block takes its turn and passes it on.
    """
    for i in range(count):
        take_turn(ME)
        pass_turn(ME, GROUPS)
        k_ring.wait(i)
        k_ring.release(i)
        v_ring.wait(i)
        v_ring.release(i)
    return count


@gluon.jit
def attend_tile(out_desc, lse_ptr, q_ring, k_ring, v_ring, problem, ME: gl.constexpr):
    """One warpgroup that multiplies: 64 rows of the tile."""
    BLOCK_N: gl.constexpr = problem.BLOCK_N
    GROUPS: gl.constexpr = problem.GROUPS
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, k_width=2)
    S_ROW: gl.constexpr = gl.SliceLayout(1, S)
    ACC_ROW: gl.constexpr = gl.SliceLayout(1, ACC)
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, S)
    qk_scale = problem.qk_scale
    # [first-turn] The last warpgroup passes the turn to the first one.
    if ME == GROUPS - 1:
        pass_turn(ME, GROUPS)
    # [tile] Which rows are mine, and how many blocks of keys do they see?
    batch, head, row, blocks = problem.locate()
    row += ME * ROWS
    n = gl.where(row <= -ROWS, 0, problem.blocks_before(row + ROWS))
    i = hand_on(k_ring, v_ring, blocks - n, ME, GROUPS)
    if n > 0:
        # [load-q] Q stays for the whole tile, in shared memory or in registers.
        q_smem = q_ring.wait(ME)
        if problem.Q_IN_REGISTERS:
            q = q_smem.load(gl.DotOperandLayout(0, S, k_width=2))
        else:
            q = q_smem

        # [first-block] The last keys: the only block that can need a mask.
        k = k_ring.wait(i)
        take_turn(ME)
        s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
        pass_turn(ME, GROUPS)
        s = warpgroup_mma_wait(0, deps=[s])
        k_ring.release(i)
        s = mask(s, row, (n - 1) * BLOCK_N, problem)
        # [state] Per row: the maximum, the denominator, the numerator.
        m_i = gl.full([ROWS], float("-inf"), gl.float32, S_ROW)
        l_i = gl.zeros([ROWS], gl.float32, S_ROW)
        acc = gl.zeros([ROWS, HEAD_DIM], gl.float32, ACC)
        p, alpha, m_i, l_i = softmax_step(s, m_i, l_i, qk_scale, problem.STRADDLE)
        p = gl.convert_layout(p.to(out_desc.dtype), P)

        # [main-loop] The scores of a block, and the values of the one before.
        for j in range(1, n):
            i += 1
            # [scores] Issued, not awaited.
            k = k_ring.wait(i)
            take_turn(ME)
            s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
            # Here and not earlier: giving back makes the warps wait.
            v_ring.release(i - 2, pred=j > 1)
            # [accumulate] Right behind the scores, in the same turn.
            v = v_ring.wait(i - 1)
            acc_next = warpgroup_mma(p, v, acc, is_async=True)
            pass_turn(ME, GROUPS)
            # [softmax] Runs while the other warpgroups multiply.
            s = warpgroup_mma_wait(1, deps=[s])
            k_ring.release(i)
            if problem.STRADDLE:
                s = mask(s, row, (n - 1 - j) * BLOCK_N, problem)
            weights, alpha, m_i, l_i = softmax_step(s, m_i, l_i, qk_scale, False)
            acc = warpgroup_mma_wait(0, deps=[acc_next])
            # [rescale] The numerator moves to the new maximum.
            acc = acc * gl.convert_layout(alpha, ACC_ROW)[:, None]
            p = gl.convert_layout(weights.to(out_desc.dtype), P)

        # [last-values] The last block has no scores to hide behind.
        v_ring.release(i - 1, pred=n > 1)
        acc = warpgroup_mma(p, v_ring.wait(i), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])

        # [finish] One division a row; the lse as a natural logarithm. The
        # result leaves through the slot of Q, which nobody reads any more.
        acc = acc * gl.convert_layout(1.0 / l_i, ACC_ROW)[:, None]
        store_lse(lse_ptr, (m_i + gl.log2(l_i)) * LN2, batch, head, row, problem)
        o_smem = q_ring.buffers.index(ME)
        send(out_desc, [batch, head, row, 0], o_smem, acc.to(out_desc.dtype))
    # [last-turn] What was passed last is taken, so that the barriers end empty.
    tma.store_wait(0)
    if ME == 0:
        take_turn(ME)


# fmt: off
@gluon.jit(do_not_specialize=[
    "stride_lh", "heads", "heads_at_once", "nheads", "group_size",
    "seqlen_q", "seqlen_k", "row_end", "keys_after", "tiles_per_head",
])
def _attn_fwd(
    q_desc, k_desc, v_desc, out_desc, lse_ptr,
    qk_scale, stride_lh,
    heads, heads_at_once,
    nheads, group_size, seqlen_q, seqlen_k,
    row_end, keys_after, tiles_per_head,
    CAUSAL: gl.constexpr, STRADDLE: gl.constexpr,
    HEAD_DIM: gl.constexpr, BLOCK_N: gl.constexpr,
    GROUPS: gl.constexpr, REGISTERS: gl.constexpr, STAGES: gl.constexpr,
    Q_IN_REGISTERS: gl.constexpr,
):
    # [rings] Slot g of Q's ring belongs to warpgroup g.
    q_ring = make_ring(q_desc, GROUPS, 1)
    k_ring = make_ring(k_desc, STAGES, GROUPS)
    v_ring = make_ring(v_desc, STAGES, GROUPS)
    fence_async_shared()
    problem = Problem(
        heads, heads_at_once,
        nheads, group_size, seqlen_q, seqlen_k,
        row_end, keys_after, tiles_per_head, qk_scale, stride_lh,
        HEAD_DIM, BLOCK_N, GROUPS, CAUSAL, STRADDLE, Q_IN_REGISTERS,
    )
    # [roles] One warpgroup loads, the others multiply. The arguments are written
    # out, since a tuple in a variable would make tensors of its constexprs.
    if GROUPS == 2:
        gl.warp_specialize([
            (load_tile, (q_desc, k_desc, v_desc, q_ring, k_ring, v_ring, problem)),
            (attend_tile, (out_desc, lse_ptr,
                           q_ring, k_ring, v_ring, problem, gl.constexpr(0))),
            (attend_tile, (out_desc, lse_ptr,
                           q_ring, k_ring, v_ring, problem, gl.constexpr(1))),
        ], [4, 4], [REGISTERS, REGISTERS])
    else:
        gl.warp_specialize([
            (load_tile, (q_desc, k_desc, v_desc, q_ring, k_ring, v_ring, problem)),
            (attend_tile, (out_desc, lse_ptr,
                           q_ring, k_ring, v_ring, problem, gl.constexpr(0))),
            (attend_tile, (out_desc, lse_ptr,
                           q_ring, k_ring, v_ring, problem, gl.constexpr(1))),
            (attend_tile, (out_desc, lse_ptr,
                           q_ring, k_ring, v_ring, problem, gl.constexpr(2))),
        ], [4, 4, 4], [REGISTERS, REGISTERS, REGISTERS])
    # fmt: on


class Tile(NamedTuple):
    """How a launch cuts the work.

    groups: warpgroups that multiply, 64 rows each. registers: of each of their
    threads.
    """

    groups: int
    registers: int
    block_n: int
    stages: int
    q_in_registers: bool


# The largest head dim of each entry, and its tile. No entry spills registers or
# serialises its products (tests/flashwalk/test_compile.py).
TILES = {
    64: Tile(3, 160, 128, 2, q_in_registers=False),
    128: Tile(2, 240, 128, 2, q_in_registers=True),
    256: Tile(2, 240, 64, 2, q_in_registers=False),
}

refusal = host.refusal


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *,
    causal: bool,
    softmax_scale: float,
    tile: Tile | None = None,
) -> None:
    """Fills `out` and `lse`. Takes what `refusal` has no objection to.

    q: (batch, nheads, seqlen_q, head_dim); k, v: (batch, nheads_k, seqlen_k,
    head_dim); out: like q; lse: (batch, nheads, seqlen_q), fp32, contiguous.
    """
    if causal:
        q, out, lse = host.without_empty_rows(q, k, out, lse)
    nheads, seqlen_q, head_dim = q.shape[1:]
    nheads_k, seqlen_k = k.shape[1:3]
    padded_dim = host.padded_dim(head_dim)
    tile = tile or TILES[padded_dim]
    tiling = Tiling.of(
        q, k, causal, block_m=tile.groups * ROWS.value, block_n=tile.block_n
    )
    _attn_fwd[(tiling.heads * tiling.tiles_per_head,)](
        host.describe(q, ROWS.value, padded_dim),
        host.describe(k, tile.block_n, padded_dim),
        host.describe(v, tile.block_n, padded_dim),
        host.describe(out, ROWS.value, padded_dim),
        lse,
        softmax_scale * math.log2(math.e), lse.stride(1),
        tiling.heads, tiling.heads_at_once,
        nheads, nheads // nheads_k, seqlen_q, seqlen_k,
        tiling.row_end, seqlen_k - seqlen_q, tiling.tiles_per_head,
        CAUSAL=causal,
        STRADDLE=causal and (seqlen_k - seqlen_q) % ROWS.value != 0,
        HEAD_DIM=padded_dim, BLOCK_N=tile.block_n,
        GROUPS=tile.groups, REGISTERS=tile.registers, STAGES=tile.stages,
        Q_IN_REGISTERS=tile.q_in_registers,
        num_warps=4,
    )  # fmt: skip
