"""The forward for Hopper: warpgroups with roles, products in flight, a plan.

One thread block per multiprocessor walks a list of tiles. In it one warpgroup
only loads (TMA); two or three others each own 64 queries of the tile, compute
the scores, their softmax, and the weighted sum of the values, as in
FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608):

    loader       Q   K0      V0  K1      V1  K2 ...
    group 0      [S0]        [S1 O0]          [S2 O1]          products
                     softmax 0       softmax 1        softmax 2
    group 1            [S0]          [S1 O0]          [S2 O1]  products
                           softmax 0         softmax 1

Keys are visited from the last block to the first, so that the one block that
can need a mask comes first and the loop needs none.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

import functools
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
from flashwalk.hopper.problem import (
    ROWS,
    Problem,
    mask,
    multiply_keys,
    read,
    store_lse,
    store_out,
)
from flashwalk.hopper.schedule import Tiling, keep_for_graphs, plan_on_device
from flashwalk.signature import Signature, without_memory

LN2 = gl.constexpr(math.log(2))
# Weights may grow to 2**8 before a row's sums move to its new maximum.
GROWTH = gl.constexpr(8.0)


@gluon.jit
def load_tiles(q_desc, k_desc, v_desc, q_ring, k_ring, v_ring, problem):
    """The loader: fills the rings in the order in which the others read them."""
    GROUPS: gl.constexpr = problem.GROUPS
    i = 0  # blocks of keys loaded so far
    for t in range(problem.first, problem.last):
        batch, head, row, blocks = problem.locate(t)
        head_k = head // problem.group_size
        # [load-order] K0, Q, then K1 V0, K2 V1, and so on: a block's V is needed
        # when the next block's scores are under way.
        for j in range(blocks + 1):
            if j < blocks:
                k_row = (blocks - 1 - j) * problem.BLOCK_N
                k_ring.fill(i + j, k_desc, batch, head_k, k_row)
            if j == 0:
                for g in gl.static_range(GROUPS):
                    item = (t - problem.first) * GROUPS + g
                    q_ring.fill(item, q_desc, batch, head, row + g * ROWS)
            else:
                v_row = (blocks - j) * problem.BLOCK_N
                v_ring.fill(i + j - 1, v_desc, batch, head_k, v_row)
        i += blocks


@gluon.jit
def softmax_step(s, m_i, l_i, qk_scale, LAZY: gl.constexpr, EMPTY: gl.constexpr):
    """One step of the online softmax, in base 2. s: unscaled scores.

    LAZY: a row keeps its old maximum, and so its sums, until a new one is more
    than GROWTH above it. The result is the same: any m does that keeps the
    weights in range. EMPTY: whether a row may see no key so far, so that its
    maximum is −inf. Returns (p, alpha, whether any alpha is not 1, m_i, l_i).
    """
    m_new = gl.max(s, 1) * qk_scale
    if LAZY:
        grew = m_new - m_i > GROWTH
        m_new = gl.where(grew, m_new, m_i)
        any_grew = gl.max(gl.where(grew, 1, 0), 0) != 0
    else:
        m_new = gl.maximum(m_i, m_new)
        any_grew = True
    m_safe = m_new
    if EMPTY:
        m_safe = gl.where(m_new == float("-inf"), 0.0, m_new)
    p = gl.exp2(s * qk_scale - m_safe[:, None])
    alpha = gl.exp2(m_i - m_safe)
    return p, alpha, any_grew, m_new, l_i * alpha + gl.sum(p, 1)


@gluon.jit
def hand_on(k_ring, v_ring, i, count, ME: gl.constexpr, GROUPS: gl.constexpr):
    """Gives blocks back unread that only the warpgroups below this one see.

    Turns are counted: whoever skips a block takes its turn and passes it on.
    """
    for _ in range(count):
        take_turn(ME)
        pass_turn(ME, GROUPS)
        k_ring.wait(i)
        k_ring.release(i)
        v_ring.wait(i)
        v_ring.release(i)
        i += 1
    return i


@gluon.jit
def attend_tiles(
    out_desc, lse_ptr, o_smem, q_ring, k_ring, v_ring, problem, ME: gl.constexpr
):
    """One warpgroup that multiplies: 64 rows of each tile of the list."""
    BLOCK_N: gl.constexpr = problem.BLOCK_N
    GROUPS: gl.constexpr = problem.GROUPS
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    P: gl.constexpr = gl.DotOperandLayout(0, ACC, k_width=2)
    S_ROW: gl.constexpr = gl.SliceLayout(1, S)
    ACC_ROW: gl.constexpr = gl.SliceLayout(1, ACC)
    COLUMNS: gl.constexpr = HEAD_DIM // 2 if problem.THREE_QUARTERS else HEAD_DIM
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, S)
    qk_scale = problem.qk_scale
    i = 0  # blocks of keys used so far
    # [first-turn] The last warpgroup passes the turn to the first one.
    if ME == GROUPS - 1:
        pass_turn(ME, GROUPS)
    for t in range(problem.first, problem.last):
        # [tile] Which rows are mine, and how many blocks of keys do they see?
        batch, head, row, blocks = problem.locate(t)
        row += ME * ROWS
        n = gl.where(row <= -ROWS, 0, problem.blocks_before(row + ROWS))
        i = hand_on(k_ring, v_ring, i, blocks - n, ME, GROUPS)

        # [load-q] Q stays for the whole tile, in shared memory or in registers.
        item = (t - problem.first) * GROUPS + ME
        q_smem = q_ring.wait(item)
        if n == 0:
            q_ring.release(item)
        else:
            q = read(q_smem, 0, COLUMNS, S, problem)
            q_third = q
            if problem.THREE_QUARTERS:
                q_third = read(q_smem, COLUMNS, COLUMNS // 2, S, problem)
            if problem.Q_IN_REGISTERS:
                q_ring.release(item)

            # [first-block] The last keys: the only block that can need a mask.
            k = k_ring.wait(i)
            take_turn(ME)
            s = multiply_keys(q, q_third, k, zeros, problem)
            pass_turn(ME, GROUPS)
            s = warpgroup_mma_wait(0, deps=[s])
            k_ring.release(i)
            s = mask(s, row, (n - 1) * BLOCK_N, problem)
            # [state] Per row: the maximum, the denominator, the numerator.
            m_i = gl.full([ROWS], float("-inf"), gl.float32, S_ROW)
            l_i = gl.zeros([ROWS], gl.float32, S_ROW)
            acc = gl.zeros([ROWS, HEAD_DIM], gl.float32, ACC)
            p, alpha, grew, m_i, l_i = softmax_step(
                s, m_i, l_i, qk_scale, False, problem.STRADDLE
            )
            grew = n < 0  # the numerator is still 0: there is nothing to move
            p = gl.convert_layout(p.to(out_desc.dtype), P)

            # [main-loop] The scores of a block, and the values of the one before.
            for j in range(1, n):
                i += 1
                # [scores] Issued, not awaited.
                k = k_ring.wait(i)
                take_turn(ME)
                s = multiply_keys(q, q_third, k, zeros, problem)
                # Here and not earlier: giving back makes the warps wait.
                v_ring.release(i - 2, pred=j > 1)
                # [rescale] The sums move to the new maximum: rarely, if LAZY.
                if problem.LAZY:  # noqa: SIM102 - one when compiling, one when run
                    if grew:
                        acc = acc * gl.convert_layout(alpha, ACC_ROW)[:, None]
                # [accumulate] Right behind the scores, in the same turn.
                v = v_ring.wait(i - 1)
                acc_next = warpgroup_mma(p, v, acc, is_async=True)
                pass_turn(ME, GROUPS)
                # [softmax] Runs while the other warpgroups multiply.
                s = warpgroup_mma_wait(1, deps=[s])
                k_ring.release(i)
                if problem.STRADDLE:
                    s = mask(s, row, (n - 1 - j) * BLOCK_N, problem)
                weights, alpha, grew, m_i, l_i = softmax_step(
                    s, m_i, l_i, qk_scale, problem.LAZY, False
                )
                acc = warpgroup_mma_wait(0, deps=[acc_next])
                if not problem.LAZY:
                    acc = acc * gl.convert_layout(alpha, ACC_ROW)[:, None]
                p = gl.convert_layout(weights.to(out_desc.dtype), P)

            # [last-values] The last block has no scores to hide behind.
            if not problem.Q_IN_REGISTERS:
                q_ring.release(item)
            v_ring.release(i - 1, pred=n > 1)
            if problem.LAZY:  # noqa: SIM102
                if grew:
                    acc = acc * gl.convert_layout(alpha, ACC_ROW)[:, None]
            acc = warpgroup_mma(p, v_ring.wait(i), acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=[acc])
            v_ring.release(i)
            i += 1

            # [finish] One division a row; the lse as a natural logarithm.
            acc = acc * gl.convert_layout(1.0 / l_i, ACC_ROW)[:, None]
            store_lse(lse_ptr, (m_i + gl.log2(l_i)) * LN2, batch, head, row, problem)
            store_out(out_desc, acc, batch, head, row, o_smem.index(ME), problem.HALVES)
    # [last-turn] What was passed last is taken, so that the barriers end empty.
    tma.store_wait(0)
    if ME == 0:
        take_turn(ME)


# fmt: off
@gluon.jit(do_not_specialize=[
    "stride_lh", "nheads", "group_size", "seqlen_q", "seqlen_k",
    "row_end", "keys_after", "tiles_per_head",
], do_not_specialize_on_alignment=["lse_ptr"])
def _attn_fwd(
    q_desc, k_desc, v_desc, out_desc, lse_ptr,
    tiles_ptr, starts_ptr,
    qk_scale, stride_lh,
    nheads, group_size, seqlen_q, seqlen_k,
    row_end, keys_after, tiles_per_head,
    CAUSAL: gl.constexpr, STRADDLE: gl.constexpr,
    HEAD_DIM: gl.constexpr, BLOCK_N: gl.constexpr,
    GROUPS: gl.constexpr, REGISTERS: gl.constexpr, STAGES: gl.constexpr,
    Q_IN_REGISTERS: gl.constexpr, LAZY: gl.constexpr, HALVES: gl.constexpr,
    THREE_QUARTERS: gl.constexpr,
):
    # [rings] Slot g of Q's ring belongs to warpgroup g.
    q_ring = make_ring(q_desc, GROUPS, 1)
    k_ring = make_ring(k_desc, STAGES, GROUPS)
    v_ring = make_ring(v_desc, STAGES, GROUPS)
    o_smem = gl.allocate_shared_memory(
        out_desc.dtype,
        [GROUPS] + out_desc.block_type.shape,  # noqa: RUF005 - no stars in Gluon
        out_desc.layout,
    )
    fence_async_shared()
    # [list] My tiles, from the host's plan.
    first = gl.load(starts_ptr + gl.program_id(0))
    last = gl.load(starts_ptr + gl.program_id(0) + 1)
    problem = Problem(
        tiles_ptr, first, last,
        nheads, group_size, seqlen_q, seqlen_k,
        row_end, keys_after, tiles_per_head, qk_scale, stride_lh,
        HEAD_DIM, BLOCK_N, GROUPS, CAUSAL, STRADDLE, Q_IN_REGISTERS, LAZY, HALVES,
        THREE_QUARTERS,
    )
    # [roles] One warpgroup loads, the others multiply. The arguments are written
    # out, since a tuple in a variable would make tensors of its constexprs.
    if GROUPS == 2:
        gl.warp_specialize([
            (load_tiles, (q_desc, k_desc, v_desc, q_ring, k_ring, v_ring, problem)),
            (attend_tiles, (out_desc, lse_ptr, o_smem,
                            q_ring, k_ring, v_ring, problem, gl.constexpr(0))),
            (attend_tiles, (out_desc, lse_ptr, o_smem,
                            q_ring, k_ring, v_ring, problem, gl.constexpr(1))),
        ], [4, 4], [REGISTERS, REGISTERS])
    else:
        gl.warp_specialize([
            (load_tiles, (q_desc, k_desc, v_desc, q_ring, k_ring, v_ring, problem)),
            (attend_tiles, (out_desc, lse_ptr, o_smem,
                            q_ring, k_ring, v_ring, problem, gl.constexpr(0))),
            (attend_tiles, (out_desc, lse_ptr, o_smem,
                            q_ring, k_ring, v_ring, problem, gl.constexpr(1))),
            (attend_tiles, (out_desc, lse_ptr, o_smem,
                            q_ring, k_ring, v_ring, problem, gl.constexpr(2))),
        ], [4, 4, 4], [REGISTERS, REGISTERS, REGISTERS])
    # fmt: on


class Tile(NamedTuple):
    """How a launch cuts the work.

    groups: warpgroups that multiply, 64 rows each. registers: of each of their
    threads. halves: whether O leaves in two halves, through half the buffer.
    """

    groups: int
    registers: int
    block_n: int
    stages: int
    q_in_registers: bool
    lazy: bool
    halves: bool


# The largest head dim of each entry, and its tile. No entry spills registers or
# serialises its products (tests/flashwalk/test_compile.py).
TILES = {
    64: Tile(3, 160, 128, 2, q_in_registers=False, lazy=False, halves=False),
    128: Tile(2, 240, 128, 2, q_in_registers=True, lazy=True, halves=False),
    256: Tile(2, 240, 64, 2, q_in_registers=False, lazy=True, halves=True),
}

# Why a launch cannot take its arguments, or None; and the part of it that
# hangs on addresses.
refusal, misaligned = host.refusal, host.misaligned


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
    """Fills `out` and `lse`. Takes what `host.refusal` has no objection to.

    q: (batch, nheads, seqlen_q, head_dim); k, v: (batch, nheads_k, seqlen_k,
    head_dim); out: like q; lse: (batch, nheads, seqlen_q), fp32, contiguous.
    """
    if causal:
        q, out, lse = host.without_empty_rows(q, k, out, lse)
    recipe = prepare(
        Signature.of(q, k, v), out.stride(), lse.stride(1), causal, softmax_scale, tile
    )
    keep_for_graphs(recipe)
    recipe.launch(_attn_fwd, (q, k, v, out), lse)


@functools.lru_cache(maxsize=256)
def prepare(
    signature: Signature,
    out_strides: tuple[int, ...],
    stride_lh: int,
    causal: bool,
    softmax_scale: float,
    tile: Tile | None,
) -> host.Recipe:
    """What `launch` gives to the kernel; stride_lh is from head to head of lse."""
    q, k, v = signature.q(), signature.k(), signature.v()
    out = without_memory(q.shape, out_strides, q.dtype)
    nheads, seqlen_q, head_dim = q.shape[1:]
    nheads_k, seqlen_k = k.shape[1:3]
    padded_dim = host.padded_dim(head_dim)
    tile = tile or TILES[padded_dim]
    tiling = Tiling.of(
        q, k, causal, block_m=tile.groups * ROWS.value, block_n=tile.block_n
    )
    thread_blocks = min(
        host.multiprocessors(signature.device), tiling.heads * tiling.tiles_per_head
    )
    return host.Recipe(
        (thread_blocks, 1, 1),
        (
            host.describe(q, ROWS.value, padded_dim),
            host.describe(k, tile.block_n, padded_dim),
            host.describe(v, tile.block_n, padded_dim),
            host.describe(out, ROWS.value, padded_dim // (1 + tile.halves)),
        ),
        (
            *plan_on_device(tiling, thread_blocks, signature.device),
            softmax_scale * math.log2(math.e), stride_lh,
            nheads, nheads // nheads_k, seqlen_q, seqlen_k,
            tiling.row_end, seqlen_k - seqlen_q, tiling.tiles_per_head,
            causal, causal and (seqlen_k - seqlen_q) % ROWS.value != 0,
            padded_dim, tile.block_n, tile.groups, tile.registers, tile.stages,
            tile.q_in_registers, tile.lazy, tile.halves,
            host.has_empty_quarter(head_dim),
        ),
    )  # fmt: skip
