"""RMSNorm in one kernel: each row divided by its root mean square, times a weight.

Written as four operations on tensors, it reads and writes the rows once for each.
Here one program owns one row: it reads it once, keeps it on chip, and writes the
result once (Zhang and Sennrich 2019).
"""

import torch
import triton
import triton.language as tl

# A row is held on chip as one block, and a block of Triton is no longer than
# 2**20; far below that, a row no longer fits into the registers of a program.
MAX_COLS = 2**16


# fmt: off
@triton.jit
def _rms_norm_fwd(
    x_ptr, weight_ptr, out_ptr,
    stride_x, stride_out,
    n_cols, eps,
    BLOCK_N: tl.constexpr,
):
    # fmt: on
    # [load-row] One program owns one row. Past its end stand zeros, up to a
    # power of two.
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    in_row = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=in_row, other=0.0)
    x = x.to(tl.float32)  # [BLOCK_N]

    # [mean-square] The zeros add nothing to the sum, and do not count as columns.
    mean_square = tl.sum(x * x, axis=0) / n_cols

    # [normalise] eps is added to the mean before its root is taken. It keeps a
    # row of zeros from being 0 / 0.
    rstd = 1.0 / tl.sqrt(mean_square + eps)
    normal = x * rstd  # [BLOCK_N]

    # [weigh-and-store] One weight a column, the same in every row.
    weight = tl.load(weight_ptr + cols, mask=in_row, other=0.0).to(tl.float32)
    out = normal * weight
    out_at = out_ptr + row * stride_out + cols
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=in_row)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """The rows of `x`, each divided by its root mean square, times `weight`.

    x: (rows, n_cols), fp16 or fp32; n_cols from 1 to 65536; rows may lie any
    stride apart, their elements 1. weight: (n_cols,), contiguous, of x's dtype and
    device. eps: added to the mean square, above 0. Returns a new contiguous tensor
    like x. Sums are in fp32. There is no backward.

    Raises ValueError where an argument is not so.
    """
    _check(x, weight, eps)
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), dtype=x.dtype, device=x.device)
    if rows == 0:
        return out  # a grid cannot be empty
    block_n = triton.next_power_of_2(n_cols)
    _rms_norm_fwd[(rows,)](
        x, weight, out,
        x.stride(0), out.stride(0),
        n_cols, eps,
        BLOCK_N=block_n,
        num_warps=4 if block_n <= 2048 else 8,
    )  # fmt: skip
    return out


def _check(x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Raises ValueError unless the arguments are those of `rms_norm`."""
    if x.ndim != 2:
        raise ValueError(f"x must have 2 axes (rows, n_cols), got {tuple(x.shape)}")
    n_cols = x.shape[1]
    if not 1 <= n_cols <= MAX_COLS:
        raise ValueError(f"x must have 1 to {MAX_COLS} columns, got {n_cols}")
    if x.dtype not in (torch.float16, torch.float32):
        raise ValueError(f"x must be of float16 or float32, got {x.dtype}")
    if n_cols > 1 and x.stride(1) != 1:
        raise ValueError(f"x must have stride 1 along its rows, got {x.stride()}")
    if weight.shape != (n_cols,) or not weight.is_contiguous():
        raise ValueError(
            f"weight must be contiguous and of shape ({n_cols},), "
            f"got {tuple(weight.shape)} with stride {weight.stride()}"
        )
    if (weight.dtype, weight.device) != (x.dtype, x.device):
        raise ValueError(
            f"weight must be of x's {x.dtype} on {x.device}, "
            f"got {weight.dtype} on {weight.device}"
        )
    if not 0.0 < eps < float("inf"):
        raise ValueError(f"eps must be above 0 and finite, got {eps}")
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        raise ValueError("there is no backward: call it under torch.no_grad()")
