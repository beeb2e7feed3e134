"""Powers of two: the exponential that the hardware has.

A GPU computes 2**x in one instruction and e**x as 2**(x * log2(e)), so exp costs
a multiplication more for each score. That factor joins the scale, which each
score meets anyway: the scores are in base 2 from there on, and so are the
maximum and the denominator's logarithm. The lse turns natural at the end.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import math

import torch
import triton
import triton.language as tl

from flashwalk.forward import Tile, is_aligned, tile_for

LN2 = tl.constexpr(math.log(2))


# fmt: off
# Sizes are not specialised: a sequence that grows by a key compiles nothing.
@triton.jit(do_not_specialize=[
    "nheads", "group_size", "seqlen_q", "seqlen_k",
])
def _attn_fwd(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    qk_scale,
    stride_qb, stride_qh, stride_qm,
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_om,
    nheads, group_size, seqlen_q, seqlen_k, head_dim,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
):
    # fmt: on
    # [program] Which block of queries is mine, of which batch and head?
    num_m_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    start_m = tl.program_id(0) % num_m_blocks
    off_bh = tl.program_id(0) // num_m_blocks
    off_b = (off_bh // nheads).to(tl.int64)
    off_h = (off_bh % nheads).to(tl.int64)

    # [offsets] An index turns int64 before it meets a stride: their product
    # may pass 2**31 although neither of them does.
    off_hk = off_h // group_size
    q_base = q_ptr + off_b * stride_qb + off_h * stride_qh
    k_base = k_ptr + off_b * stride_kb + off_hk * stride_kh
    v_base = v_ptr + off_b * stride_vb + off_hk * stride_vh
    o_base = out_ptr + off_b * stride_ob + off_h * stride_oh
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    in_head = offs_d < head_dim

    # [load-q] Q is read once and stays on chip for the whole loop.
    q_mask = (offs_m < seqlen_q)[:, None] & in_head[None, :]
    rows = offs_m[:, None].to(tl.int64)
    q_at = q_base + rows * stride_qm + offs_d[None, :]
    q = tl.load(q_at, mask=q_mask, other=0.0)  # [BLOCK_M, HEAD_DIM]

    # [state] Per row: the running maximum, the denominator, the numerator.
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # [BLOCK_M]
    l_i = tl.zeros([BLOCK_M], tl.float32)  # [BLOCK_M]
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)  # [BLOCK_M, HEAD_DIM]

    # [bound] Causal: the last row of the block sees the most keys.
    if CAUSAL:
        diagonal = (start_m + 1) * BLOCK_M + (seqlen_k - seqlen_q)
        hi = tl.minimum(diagonal, seqlen_k)
    else:
        hi = seqlen_k

    # [main-loop] A block of keys and values comes in and joins the state.
    for start_n in range(0, hi, BLOCK_N):
        # [load-k] K is read as its transpose: keys along the columns.
        cols = start_n + offs_n
        in_keys = cols < seqlen_k
        k_cols = cols[None, :].to(tl.int64)
        k_at = k_base + k_cols * stride_kn + offs_d[:, None]
        k_mask = in_head[:, None] & in_keys[None, :]
        k = tl.load(k_at, mask=k_mask, other=0.0)  # [HEAD_DIM, BLOCK_N]

        # [scores] One block of the scores, scaled in fp32 to base 2.
        s = tl.dot(q, k, input_precision="ieee")  # [BLOCK_M, BLOCK_N]
        s = s * qk_scale

        # [mask] A key that must not count scores −inf, and so weighs 0.
        visible = in_keys[None, :]
        if CAUSAL:
            last_key = offs_m + (seqlen_k - seqlen_q)
            visible = visible & (cols[None, :] <= last_key[:, None])
        s = tl.where(visible, s, float("-inf"))

        # [new-max] The maximum of all that each row has seen so far.
        m_new = tl.maximum(m_i, tl.max(s, axis=1))  # [BLOCK_M]
        # The maximum of a row that has seen no key is −inf, and
        # −inf − (−inf) is NaN: such a row subtracts 0 instead.
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)

        # [weights] The weights of this block, relative to the new maximum.
        p = tl.exp2(s - m_safe[:, None])  # [BLOCK_M, BLOCK_N]

        # [rescale] Both old sums move from the old maximum to the new one.
        alpha = tl.exp2(m_i - m_safe)  # [BLOCK_M]
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        m_i = m_new

        # [accumulate] The weights meet V in V's dtype; the sum is in fp32.
        v_rows = cols[:, None].to(tl.int64)
        v_at = v_base + v_rows * stride_vn + offs_d[None, :]
        v_mask = in_keys[:, None] & in_head[None, :]
        v = tl.load(v_at, mask=v_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")

    # [finish] One division a row. A row that saw no key gives 0, lse −inf.
    # The lse is a natural logarithm for everyone else.
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    out = acc / l_safe[:, None]  # [BLOCK_M, HEAD_DIM]
    lse = (m_i + tl.log2(l_safe)) * LN2  # [BLOCK_M]

    # [store] Rows past the end were computed on zeros; they are not stored.
    o_at = o_base + rows * stride_om + offs_d[None, :]
    tl.store(o_at, out.to(out_ptr.dtype.element_ty), mask=q_mask)
    lse_at = lse_ptr + off_bh.to(tl.int64) * seqlen_q + offs_m
    tl.store(lse_at, lse, mask=offs_m < seqlen_q)


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
    """Fills `out` and `lse`. Arguments are taken as valid: `attention` checks.

    q: (batch, nheads, seqlen_q, head_dim); k, v: (batch, nheads_k, seqlen_k,
    head_dim); out: like q; lse: (batch, nheads, seqlen_q), fp32, contiguous.
    """
    batch, nheads, seqlen_q, head_dim = q.shape
    nheads_k, seqlen_k = k.shape[1:3]
    if tile is None:
        tile = tile_for(head_dim, q.dtype, aligned=is_aligned(q, k, v, out))
    grid = (triton.cdiv(seqlen_q, tile.block_m) * batch * nheads,)
    _attn_fwd[grid](
        q, k, v, out, lse,
        softmax_scale * math.log2(math.e),
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        nheads, nheads // nheads_k, seqlen_q, seqlen_k, head_dim,
        CAUSAL=causal,
        BLOCK_M=tile.block_m, BLOCK_N=tile.block_n,
        HEAD_DIM=max(16, triton.next_power_of_2(head_dim)),
        num_warps=tile.num_warps, num_stages=tile.num_stages,
        maxnreg=tile.max_registers,
    )  # fmt: skip
