"""delta, the one number a row that the backward needs besides lse.

The gradient of a softmax takes from each dp the mean of its row, weighted by p:
ds = p * (dp - sum(p * dp)). Since dp = do @ v.T and out = p @ v, that sum is
out · do, a product of two rows that lie in memory: no row of scores is needed.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import triton
import triton.language as tl


# fmt: off
@triton.jit(do_not_specialize=["nheads", "seqlen_q"])
def _attn_bwd_delta(
    out_ptr, do_ptr, lse_ptr, dlse_ptr, delta_ptr,
    stride_ob, stride_oh, stride_om,
    stride_dob, stride_doh, stride_dom,
    stride_dlb, stride_dlh, stride_dlm,
    nheads, seqlen_q, head_dim,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr,
):
    # fmt: on
    # [program] Which block of queries is mine, of which batch and head?
    num_m_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    start_m = tl.program_id(0) % num_m_blocks
    off_bh = tl.program_id(0) // num_m_blocks
    off_b = (off_bh // nheads).to(tl.int64)
    off_h = (off_bh % nheads).to(tl.int64)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    in_rows = offs_m < seqlen_q
    mask = in_rows[:, None] & (offs_d < head_dim)[None, :]

    # [load-o] The output of the forward and its gradient, row by row.
    rows = offs_m[:, None].to(tl.int64)
    o_base = out_ptr + off_b * stride_ob + off_h * stride_oh
    o_at = o_base + rows * stride_om + offs_d[None, :]
    o = tl.load(o_at, mask=mask, other=0.0)  # [BLOCK_M, HEAD_DIM]
    do_base = do_ptr + off_b * stride_dob + off_h * stride_doh
    do_at = do_base + rows * stride_dom + offs_d[None, :]
    do = tl.load(do_at, mask=mask, other=0.0)  # [BLOCK_M, HEAD_DIM]

    # [delta] One product a row: it equals the row sum of p * dp, since
    # o = p @ v and dp = do @ v.T, and needs no row of scores.
    o_do = o.to(tl.float32) * do.to(tl.float32)
    delta = tl.sum(o_do, axis=1)  # [BLOCK_M]

    # [dlse] The derivative of lse by a score is p. The lse of a row that
    # sees no key depends on nothing, whatever gradient arrives.
    lse_at = off_bh.to(tl.int64) * seqlen_q + offs_m
    if dlse_ptr is not None:
        dlse_base = dlse_ptr + off_b * stride_dlb + off_h * stride_dlh
        dlse_at = dlse_base + offs_m.to(tl.int64) * stride_dlm
        dlse = tl.load(dlse_at, mask=in_rows, other=0.0)  # [BLOCK_M]
        lse = tl.load(lse_ptr + lse_at, mask=in_rows, other=0.0)
        delta = delta - tl.where(lse == float("-inf"), 0.0, dlse)
    tl.store(delta_ptr + lse_at, delta, mask=in_rows)


# A block of 16 rows, or of more up to this many elements: 16 a thread.
_ELEMENTS = 2048


def compute_delta(
    out: torch.Tensor, lse: torch.Tensor, do: torch.Tensor, dlse: torch.Tensor | None
) -> torch.Tensor:
    """The row sums of out * do, minus dlse: (batch, nheads, seqlen_q), fp32.

    out, do: (batch, nheads, seqlen_q, head_dim), the last stride 1; lse:
    (batch, nheads, seqlen_q), contiguous; dlse: its gradient, any strides, or
    None for zeros.
    """
    batch, nheads, seqlen_q, head_dim = out.shape
    delta = torch.empty_like(lse)
    padded = max(16, triton.next_power_of_2(head_dim))
    block_m = max(16, _ELEMENTS // padded)
    grid = (triton.cdiv(seqlen_q, block_m) * batch * nheads,)
    _attn_bwd_delta[grid](
        out, do, lse, dlse, delta,
        *out.stride()[:3], *do.stride()[:3],
        *(dlse.stride() if dlse is not None else (0, 0, 0)),
        nheads, seqlen_q, head_dim,
        BLOCK_M=block_m, HEAD_DIM=padded,
        num_warps=block_m * padded // 512,
    )  # fmt: skip
    return delta
