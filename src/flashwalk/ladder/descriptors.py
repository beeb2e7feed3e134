"""Descriptors: the TMA fetches a block on its own, from a description.

A pointer a thread and element is work for every warp, and registers. A tensor
descriptor says once, on the host, where a tensor lies and how large a block is;
one thread then names a block by its indices and the Tensor Memory Accelerator
of Hopper copies it to shared memory, laid out as the matrix products read it.
Past the end of an axis it reads zeros and writes nothing: no load has a mask.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from flashwalk.forward import Tile
from flashwalk.hopper import host

LN2 = tl.constexpr(math.log(2))


# fmt: off
# Sizes are not specialised: a sequence that grows by a key compiles nothing.
@triton.jit(do_not_specialize=[
    "nheads", "group_size", "seqlen_q", "seqlen_k",
])
def _attn_fwd(
    q_desc, k_desc, v_desc, out_desc, lse_ptr,
    qk_scale,
    nheads, group_size, seqlen_q, seqlen_k,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
):
    # fmt: on
    # [program] Which block of queries is mine, of which batch and head?
    num_m_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    start_m = tl.program_id(0) % num_m_blocks
    off_bh = tl.program_id(0) // num_m_blocks
    off_b = off_bh // nheads
    off_h = off_bh % nheads

    # [offsets] Blocks are named by their indices; strides are the TMA's.
    off_hk = off_h // group_size
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)

    # [load-q] Q is read once and stays on chip for the whole loop.
    q = q_desc.load([off_b, off_h, start_m * BLOCK_M, 0])
    q = q.reshape(BLOCK_M, HEAD_DIM)

    # [state] Per row: the running maximum, the denominator, the numerator.
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # [BLOCK_M]
    l_i = tl.zeros([BLOCK_M], tl.float32)  # [BLOCK_M]
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)  # [BLOCK_M, HEAD_DIM]

    # [bound] Causal: the last row of the block sees the most keys, and the
    # first one the fewest. The blocks up to mid are seen whole by all rows.
    if CAUSAL:
        diagonal = (start_m + 1) * BLOCK_M + (seqlen_k - seqlen_q)
        hi = tl.minimum(diagonal, seqlen_k)
        first_row = start_m * BLOCK_M + 1 + (seqlen_k - seqlen_q)
        seen_by_all = tl.maximum(tl.minimum(first_row, seqlen_k), 0)
    else:
        hi = seqlen_k
        seen_by_all = seqlen_k
    mid = seen_by_all // BLOCK_N * BLOCK_N

    # [main-loop] A block of keys and values comes in and joins the state:
    # first those that need no mask, then those that do.
    for MASKED in tl.static_range(2):
        lo, end = (mid, hi) if MASKED else (0, mid)
        for start_n in range(lo, end, BLOCK_N):
            # [load-k] Keys past the end are zeros.
            cols = start_n + offs_n
            k = k_desc.load([off_b, off_hk, start_n, 0])
            k = k.reshape(BLOCK_N, HEAD_DIM).T  # [HEAD_DIM, BLOCK_N]

            # [scores] One block of the scores, scaled in fp32 to base 2.
            s = tl.dot(q, k)  # [BLOCK_M, BLOCK_N]
            s = s * qk_scale

            # [mask] A key that must not count scores −inf, and so weighs 0.
            if MASKED:
                visible = (cols < seqlen_k)[None, :]
                if CAUSAL:
                    last_key = offs_m + (seqlen_k - seqlen_q)
                    visible = visible & (cols[None, :] <= last_key[:, None])
                s = tl.where(visible, s, float("-inf"))

            # [new-max] The maximum of all that each row has seen so far.
            m_new = tl.maximum(m_i, tl.max(s, axis=1))  # [BLOCK_M]
            # The maximum of a row that has seen no key is −inf, and
            # −inf − (−inf) is NaN: such a row subtracts 0 instead.
            m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)

            # [weights] Those of this block, relative to the new maximum.
            p = tl.exp2(s - m_safe[:, None])  # [BLOCK_M, BLOCK_N]

            # [rescale] Both old sums move from the old maximum to the new.
            alpha = tl.exp2(m_i - m_safe)  # [BLOCK_M]
            l_i = l_i * alpha + tl.sum(p, axis=1)
            acc = acc * alpha[:, None]
            m_i = m_new

            # [accumulate] The weights meet V in its dtype; the sum is fp32.
            v = v_desc.load([off_b, off_hk, start_n, 0])
            v = v.reshape(BLOCK_N, HEAD_DIM)
            acc = tl.dot(p.to(v.dtype), v, acc)

    # [finish] One division a row. A row that saw no key gives 0, lse −inf.
    # The lse is a natural logarithm for everyone else.
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    out = acc / l_safe[:, None]  # [BLOCK_M, HEAD_DIM]
    lse = (m_i + tl.log2(l_safe)) * LN2  # [BLOCK_M]

    # [store] Rows past the end were computed on zeros; they are not stored.
    o = out.to(out_desc.dtype).reshape(1, 1, BLOCK_M, HEAD_DIM)
    out_desc.store([off_b, off_h, start_m * BLOCK_M, 0], o)
    lse_at = lse_ptr + off_bh.to(tl.int64) * seqlen_q + offs_m
    tl.store(lse_at, lse, mask=offs_m < seqlen_q)


# The largest head dim of each entry, and its tile. No entry spills registers
# or serialises its matrix products on sm_90 (tests/flashwalk/test_compile.py).
TILES = {
    64: Tile(128, 128, 8, 2),
    128: Tile(128, 128, 8, 2),
    256: Tile(128, 64, 8, 2),
}

refusal = host.refusal


def describe(x: torch.Tensor, rows: int, head_dim: int) -> TensorDescriptor:
    """What the TMA must know of x to move blocks of (rows, head_dim).

    In four dimensions: no block meets another head's rows.
    """
    # An axis of size 1 may have any stride, of which the TMA would complain.
    strides = [
        stride if size > 1 else 8
        for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True)
    ]
    return TensorDescriptor(x, list(x.shape), [*strides, 1], [1, 1, rows, head_dim])


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
    batch, nheads, seqlen_q, head_dim = q.shape
    nheads_k, seqlen_k = k.shape[1:3]
    padded_dim = max(16, triton.next_power_of_2(head_dim))
    if tile is None:
        tile = TILES[min(limit for limit in TILES if head_dim <= limit)]
    grid = (triton.cdiv(seqlen_q, tile.block_m) * batch * nheads,)
    _attn_fwd[grid](
        describe(q, tile.block_m, padded_dim),
        describe(k, tile.block_n, padded_dim),
        describe(v, tile.block_n, padded_dim),
        describe(out, tile.block_m, padded_dim),
        lse,
        softmax_scale * math.log2(math.e),
        nheads, nheads // nheads_k, seqlen_q, seqlen_k,
        CAUSAL=causal,
        BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, HEAD_DIM=padded_dim,
        num_warps=tile.num_warps, num_stages=tile.num_stages,
        maxnreg=tile.max_registers,
    )  # fmt: skip
