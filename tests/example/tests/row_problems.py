"""Rows that bring out the faults of an RMSNorm, one a kind, and the judge of them."""

from collections.abc import Callable
from typing import NamedTuple

import torch

DTYPES = {"fp16": torch.float16, "fp32": torch.float32}


class Problem(NamedTuple):
    """One input of `rms_norm`."""

    x: torch.Tensor
    weight: torch.Tensor
    eps: float = 1e-6


class Rejected(AssertionError):
    """The rows are not normalised."""


def normal(dtype: torch.dtype, rows: int = 5, n_cols: int = 100) -> Problem:
    """Normal rows and weights; no power of two."""
    generator = torch.Generator().manual_seed(n_cols)
    x = torch.randn(rows, n_cols, generator=generator).to(dtype)
    return Problem(x, torch.randn(n_cols, generator=generator).to(dtype))


def tail_columns(dtype: torch.dtype) -> Problem:
    """Rows of 100 in a block of 128: what lies between them in memory is NaN."""
    x, weight, eps = normal(dtype)
    wide = torch.full((5, 128), float("nan"), dtype=dtype)
    wide[:, :100] = x
    return Problem(wide[:, :100], weight, eps)


def far_apart(dtype: torch.dtype) -> Problem:
    """Every third row of a larger tensor, its columns from the fourth on."""
    wide, _, eps = normal(dtype, 15, 107)
    return Problem(wide[::3, 4:104], normal(dtype).weight, eps)


def beyond_int32(dtype: torch.dtype) -> Problem:
    """Rows so far apart that the offset of the last passes 2**31.

    They begin in the middle of the memory, so that an offset which wrapped around
    reads zeros there. Only the pages that hold rows are ever touched.
    """
    x, weight, eps = normal(dtype, 3)
    far, stride = 2**31, (2**30, 1)
    memory = torch.empty(2 * far + 100, dtype=dtype)
    memory[:100] = 0
    return Problem(memory.as_strided((3, 100), stride, far).copy_(x), weight, eps)


def small_values(dtype: torch.dtype) -> Problem:
    """Rows so small that eps is most of what is under the root."""
    x, weight, _ = normal(dtype)
    return Problem(x / 64, weight, eps=1e-2)


def zero_row(dtype: torch.dtype) -> Problem:
    """A row of zeros between others."""
    x, weight, eps = normal(dtype)
    x[2] = 0
    return Problem(x, weight, eps)


def large_values(dtype: torch.dtype) -> Problem:
    """Values whose squares are infinite in fp16."""
    x, weight, eps = normal(dtype)
    return Problem(x * 1000, weight, eps)


def exact(problem: Problem) -> torch.Tensor:
    """The answer in fp64."""
    x, weight, eps = problem
    x = x.double()
    return x / (x.square().mean(dim=1, keepdim=True) + eps).sqrt() * weight.double()


def judge(rms_norm: Callable[..., torch.Tensor], problem: Problem) -> float:
    """The largest relative error; raises Rejected where it is not rounding alone.

    The result may be rounded once to its dtype, and the sums in fp32 a few times
    on the way.
    """
    out, right = rms_norm(*problem), exact(problem)
    info = torch.finfo(out.dtype)
    if out.shape != right.shape or not out.is_contiguous():
        raise Rejected(f"{tuple(out.shape)} with strides {out.stride()}")
    # Below the smallest normal number there is less than relative accuracy.
    scale = right.abs().clamp(min=info.smallest_normal)
    error = ((out.double() - right).abs() / scale).max().item()
    allowed = info.eps / 2 + 16 * torch.finfo(torch.float32).eps
    if not error <= allowed:  # NaN is not
        raise Rejected(f"off by {error:.3g} of the value; allowed is {allowed:.3g}")
    return error
