"""What `attention` and `attention_ref` both ask of their arguments."""

import math
from numbers import Real
from typing import Any

import torch

MAX_HEAD_DIM = 256
_AXES = ("batch", "nheads", "seqlen", "head_dim")
_AUTOCAST_DEVICES = ("cuda", "cpu")
_MAX_DROPOUT_P = 1 - 2**-24  # the kernel has it in fp32


def cast_for_autocast(q: object, k: object, v: object) -> tuple[Any, Any, Any]:
    """q, k and v in autocast's dtype, if it is on for their device.

    What is no floating-point tensor, or in fp64, is returned as it came.
    """
    if any(torch.is_autocast_enabled(kind) for kind in _AUTOCAST_DEVICES):
        return _cast(q), _cast(k), _cast(v)
    return q, k, v


def _cast(x: object) -> Any:
    """x in autocast's dtype, if it is on for x's device and concerns x."""
    if (
        isinstance(x, torch.Tensor)
        and x.is_floating_point()
        and x.dtype != torch.float64
        and x.device.type in _AUTOCAST_DEVICES
        and torch.is_autocast_enabled(x.device.type)
    ):
        return x.to(torch.get_autocast_dtype(x.device.type))
    return x


def check_tensors(q: object, k: object, v: object) -> None:
    """Raises ValueError unless q, k and v are tensors that fit each other."""
    eager = not torch.compiler.is_compiling()
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
        # The compiler cannot trace the question, and answers it by itself.
        negated = eager and x.is_neg()
        if negated or x.layout != torch.strided:
            raise ValueError(
                f"{name} must be a plain strided tensor, got layout {x.layout}"
                + (" with a pending negation" if negated else "")
            )
        if x.ndim != 4:
            raise ValueError(
                f"{name} must have the 4 axes (batch, nheads, seqlen, head_dim), "
                f"got {x.ndim}: {tuple(x.shape)}"
            )
        if x.numel() == 0:
            raise ValueError(
                f"{name} must have at least 1 element along "
                f"{_AXES[list(x.shape).index(0)]}, got shape {tuple(x.shape)}"
            )
    assert isinstance(q, torch.Tensor)
    assert isinstance(k, torch.Tensor)
    assert isinstance(v, torch.Tensor)
    _check_shapes(q, k, v)
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise ValueError(f"{name} must have q's dtype {q.dtype}, got {x.dtype}")
        if x.device != q.device:
            raise ValueError(f"{name} must be on q's device {q.device}, got {x.device}")


def _check_shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raises ValueError unless the shapes of q, k and v agree."""
    batch, nheads, _, head_dim = q.shape
    nheads_k = k.shape[1]
    if k.shape[0] != batch:
        raise ValueError(f"k must have q's batch of {batch}, got {k.shape[0]}")
    if k.shape[3] != head_dim:
        raise ValueError(f"k must have q's head_dim of {head_dim}, got {k.shape[3]}")
    if v.shape != k.shape:
        raise ValueError(
            f"v must have k's shape {tuple(k.shape)}, got {tuple(v.shape)}"
        )
    if nheads % nheads_k:
        raise ValueError(
            f"the heads of k must divide those of q, got {nheads_k} for k and "
            f"{nheads} for q"
        )
    if head_dim > MAX_HEAD_DIM:
        raise ValueError(
            f"head_dim must be between 1 and {MAX_HEAD_DIM}, got {head_dim}"
        )


def check_flag(name: str, flag: object) -> None:
    """Raises ValueError unless the argument called `name` is True or False."""
    if not isinstance(flag, bool):
        raise ValueError(f"{name} must be True or False, got {flag!r}")


def resolve_scale(softmax_scale: object, head_dim: int) -> float:
    """The scale as a float; None stands for 1 / sqrt(head_dim).

    0 and negative numbers are scales. Raises ValueError for what is not a real
    number, and for a number that is not finite in fp32, as the kernel has it.
    """
    if softmax_scale is None:
        return 1.0 / math.sqrt(head_dim)
    if isinstance(softmax_scale, bool) or not isinstance(softmax_scale, Real):
        raise ValueError(
            "softmax_scale must be a real number or None, "
            f"got {type(softmax_scale).__name__}"
        )
    try:
        scale = float(softmax_scale)
    except OverflowError:
        scale = math.inf
    if not abs(scale) <= torch.finfo(torch.float32).max:
        raise ValueError(f"softmax_scale must be finite in fp32, got {scale}")
    return scale


def resolve_dropout(dropout_p: object, seed: object) -> float:
    """The probability as a float. Raises ValueError for what is none, or no seed."""
    if seed is not None and (
        isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63
    ):
        raise ValueError(f"seed must be None or an int of 0 to 2**63 - 1, got {seed!r}")
    if dropout_p == 0.0:
        return 0.0
    if (
        isinstance(dropout_p, bool)
        or not isinstance(dropout_p, Real)
        # Written so that NaN, which compares False, is refused.
        or not 0.0 <= float(dropout_p) <= _MAX_DROPOUT_P
    ):
        raise ValueError(
            "dropout_p must be a real number of at least 0 and, in fp32, below 1, "
            f"got {dropout_p!r}"
        )
    return float(dropout_p)
