"""What runs before and after the backward: delta and an empty dQ; dQ rounded."""

# Triton's types are not annotations: mypy checks the launchers alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from flashwalk.hopper.host import Recipe, padded_dim

LOG2E = tl.constexpr(math.log2(math.e))
_ROWS = 32  # of a program


class RowBuffers(NamedTuple):
    """Buffers of the rows of q, their number rounded up to whole blocks.

    lse: in base 2, +inf where a row must weigh nothing, and delta:
    (batch * nheads, rows), fp32. dq: (batch, nheads, rows, padded head_dim), fp32,
    or None where dq needs no sums.
    """

    lse: torch.Tensor
    delta: torch.Tensor
    dq: torch.Tensor | None


# fmt: off
@triton.jit(
    do_not_specialize=["nheads", "seqlen_q", "padded_q", "head_dim"],
    do_not_specialize_on_alignment=["lse_ptr", "dlse_ptr"],
)
def _before(
    o_ptr, do_ptr, lse_ptr, dlse_ptr, lse2_ptr, delta_ptr, dq_ptr,
    stride_ob, stride_oh, stride_om,
    stride_gb, stride_gh, stride_gm,
    nheads, seqlen_q, padded_q, head_dim,
    HAS_DLSE: tl.constexpr, HAS_DQ: tl.constexpr,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr,
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
    lse = tl.where(lse == float("-inf"), float("inf"), lse * LOG2E)
    at = off_bh * padded_q + rows
    tl.store(lse2_ptr + at, lse, mask=rows < padded_q)
    tl.store(delta_ptr + at, delta, mask=rows < padded_q)
    # [empty] dQ is summed up from 0.
    if HAS_DQ:
        dq_at = dq_ptr + at[:, None] * HEAD_DIM + cols[None, :]
        zeros = tl.zeros([ROWS, HEAD_DIM], tl.float32)
        tl.store(dq_at, zeros, mask=(rows < padded_q)[:, None])


# fmt: off
@triton.jit(do_not_specialize=["nheads", "seqlen_q", "padded_q", "head_dim"])
def _after(
    sum_ptr, dq_ptr, scale,
    stride_dqb, stride_dqh, stride_dqm,
    nheads, seqlen_q, padded_q, head_dim,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr,
):
    # fmt: on
    # [round] dQ = scale · sum, in the dtype of q.
    off_bh = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, HEAD_DIM)
    mask = (rows < seqlen_q)[:, None] & (cols < head_dim)[None, :]
    from_at = (off_bh * padded_q + rows)[:, None] * HEAD_DIM + cols[None, :]
    dq = tl.load(sum_ptr + from_at, mask=mask) * scale
    off_b, off_h = off_bh // nheads, off_bh % nheads
    dq_base = dq_ptr + off_b * stride_dqb + off_h * stride_dqh
    dq_at = dq_base + rows.to(tl.int64)[:, None] * stride_dqm + cols[None, :]
    tl.store(dq_at, dq.to(dq_ptr.dtype.element_ty), mask=mask)


def allocate(
    out: torch.Tensor, padded_q: int, padded_dim: int, *, sums: bool = True
) -> RowBuffers:
    """Buffers for out, (batch, nheads, seqlen_q, head_dim); dq is for `sums`."""
    batch, nheads = out.shape[:2]
    rows = out.new_empty(batch * nheads, padded_q, dtype=torch.float32)
    dq = rows.new_empty(batch, nheads, padded_q, padded_dim) if sums else None
    return RowBuffers(rows, torch.empty_like(rows), dq)


def prepare_before(
    out: torch.Tensor, do: torch.Tensor, rows: RowBuffers, has_dlse: bool
) -> Recipe:
    """The launch that fills lse and delta, and empties dq."""
    batch, nheads, seqlen_q, head_dim = out.shape
    padded_q = rows.lse.shape[1]
    return Recipe(
        (batch * nheads, triton.cdiv(padded_q, _ROWS), 1),
        (),
        (
            *out.stride()[:3], *do.stride()[:3],
            nheads, seqlen_q, padded_q, head_dim,
            has_dlse, rows.dq is not None, padded_dim(head_dim), _ROWS,
        ),
    )  # fmt: skip


def before(
    recipe: Recipe,
    out: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    dlse: torch.Tensor | None,
    rows: RowBuffers,
) -> None:
    """Fills lse and delta, and empties dq.

    out, do: (batch, nheads, seqlen_q, head_dim), the last stride 1, addresses that
    16 bytes divide; lse, dlse: (batch, nheads, seqlen_q), fp32, contiguous.
    """
    recipe.launch(
        _before, (),
        out, do, lse, lse if dlse is None else dlse,
        rows.lse, rows.delta, rows.delta if rows.dq is None else rows.dq,
    )  # fmt: skip


def prepare_after(rows: RowBuffers, dq: torch.Tensor, softmax_scale: float) -> Recipe:
    """The launch that rounds what was summed up into dq, scaled."""
    batch, nheads, seqlen_q, head_dim = dq.shape
    padded_q = rows.lse.shape[1]
    return Recipe(
        (batch * nheads, triton.cdiv(padded_q, _ROWS), 1),
        (),
        (
            softmax_scale, *dq.stride()[:3],
            nheads, seqlen_q, padded_q, head_dim, padded_dim(head_dim), _ROWS,
        ),
    )  # fmt: skip


def after(recipe: Recipe, rows: RowBuffers, dq: torch.Tensor) -> None:
    """Rounds the sums into dq: the last stride 1, an address that 16 bytes divide."""
    assert rows.dq is not None
    recipe.launch(_after, (), rows.dq, dq)
