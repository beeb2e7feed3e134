"""The function that users call: what it takes, what it refuses, its defaults."""

from typing import Literal, overload

import torch

from flashwalk import choice, operators
from flashwalk.arguments import (
    cast_for_autocast,
    check_flag,
    check_tensors,
    resolve_dropout,
    resolve_scale,
)

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)

# The kernel adds a length, a difference of lengths and a block in int32: with
# lengths below 2**30 no such sum reaches 2**31.
_MAX_SEQLEN = 2**30 - 1
# One program each; a CUDA grid's first axis ends there. The smallest tile has
# 16 queries, or keys where a program owns keys, and what is refused does not
# hang on which tile is chosen.
_MAX_PROGRAMS = 2**31 - 1
_MIN_BLOCK = 16

# Asked once, for torch.compile cannot trace the question.
_INTERPRETED = choice.is_interpreted()


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    return_lse: Literal[False] = False,
) -> torch.Tensor: ...


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    return_lse: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    return_lse: bool,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(q @ k.T * softmax_scale) @ v without the matrix of scores.

    FlashAttention-2's forward and backward (Dao 2023, arXiv:2307.08691,
    algorithms 1 and 2). Equal inputs give bitwise equal outputs on one device;
    of the gradients see `deterministic`. Differentiable once, through out and
    through lse; works under torch.compile, checkpointing and CUDA graphs. Under
    torch.autocast q, k and v are cast to its dtype, as PyTorch's
    scaled_dot_product_attention does. `flashwalk.explain` says which kernels
    run, and why.

    Args:
        q: (batch, nheads, seqlen_q, head_dim); fp16, bf16 or fp32; on a GPU,
            or on the CPU under Triton's interpreter (TRITON_INTERPRET=1, where
            bf16 is refused). head_dim is 1 to 256, seqlen_q 1 to 2**30 - 1.
            Any strides, the last one 1; an axis of size 1 may have any.
        k: (batch, nheads_k, seqlen_k, head_dim), dtype and device of q, strides
            and lengths as for q. nheads_k divides nheads: query head h reads
            key head h // (nheads // nheads_k).
        v: like k in shape; its own strides.
        causal: query i sees key j when j <= i + seqlen_k - seqlen_q, so the
            last query sees every key (bottom-right). A query that sees no key
            gets out 0 and lse −inf.
        softmax_scale: factor of the scores, a real number, finite in fp32; 0
            and negative ones count. None for 1 / sqrt(head_dim).
        dropout_p: the share of the weights that is set to 0; the others count
            1 / (1 - dropout_p) times. At least 0 and below 1.
        seed: of the mask of dropout, an int of 0 to 2**63 - 1. The mask is a
            function of seed, batch, query head, query and key alone. None draws
            one from PyTorch's generator, so that torch.manual_seed makes runs
            equal, and each call drops others.
        deterministic: whether dq must be bitwise equal from run to run; dk and dv
            always are. In 16 bits and at head dims up to 128 the Hopper backward
            adds up dq in whatever order its blocks come; there True takes the
            portable one, which is slower. So does
            torch.use_deterministic_algorithms(True), as it is set when the
            backward runs. Everywhere else dq is bitwise equal anyway.
        return_lse: whether to return lse too.

    Returns:
        out: like q, contiguous; with return_lse the pair (out, lse), where lse
        is (batch, nheads, seqlen_q), fp32: the natural logarithm of the sum of
        exp(scores * softmax_scale) over the keys that a query sees, dropped or
        not.

    k and v must be finite, and so must the scaled scores in fp32. fp32 inputs
    are multiplied in fp32, not in TF32. What holds of other values:
        - NaN or inf in a row of q reaches that row of out and lse only.
        - NaN or inf in k reaches the queries that see that key, no others.
        - NaN or inf in v reaches also queries that do not see that key, since
          a hidden key has weight 0 and 0 * inf is NaN. Which ones depends on
          the tile: count on none.
        - Memory between and beyond the elements of a view is never used.
        - In the backward everything must be finite, also the gradients of the
          rows of out that see no key; the gradient of their lse is not used.

    Raises:
        ValueError: an argument is not as described; says what was required
            and what came.
    """
    q, k, v = cast_for_autocast(q, k, v)
    check_tensors(q, k, v)
    check_flag("causal", causal)
    check_flag("deterministic", deterministic)
    check_flag("return_lse", return_lse)
    scale = resolve_scale(softmax_scale, q.shape[-1])
    _check_device(q)
    _check_sizes(q, k)
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_access(name, x)

    p = resolve_dropout(dropout_p, seed)
    mask_seed = operators.new_seed(q.device, seed) if p else None
    out, lse = operators.attention_forward(
        q, k, v, causal, scale, mask_seed, p, deterministic
    )
    return (out, lse) if return_lse else out


def _check_device(q: torch.Tensor) -> None:
    """Raises ValueError unless the kernel can run on q's device in its dtype."""
    if q.dtype not in _DTYPES:
        names = ", ".join(str(dtype) for dtype in _DTYPES)
        raise ValueError(f"q must be one of {names}, got {q.dtype}")
    if not (q.is_cuda or (_INTERPRETED and q.device.type == "cpu")):
        raise ValueError(
            "q must be on a GPU, or on the CPU with TRITON_INTERPRET=1 set before "
            f"Triton is imported, got device {q.device}"
        )
    if _INTERPRETED and q.dtype == torch.bfloat16:
        raise ValueError(
            "q must be fp16 or fp32 under TRITON_INTERPRET=1, where Triton gets "
            f"bf16 wrong, got {q.dtype}"
        )


def _check_sizes(q: torch.Tensor, k: torch.Tensor) -> None:
    """Raises ValueError where the kernel's int32 arithmetic would wrap."""
    for name, seqlen in (("q", q.shape[2]), ("k", k.shape[2])):
        if seqlen > _MAX_SEQLEN:
            raise ValueError(
                f"{name} must have a seqlen of at most {_MAX_SEQLEN}, got {seqlen}"
            )
    for name, x in (("q", q), ("k", k)):
        batch, nheads, seqlen, _ = x.shape
        programs = batch * nheads * -(-seqlen // _MIN_BLOCK)
        if programs > _MAX_PROGRAMS:
            raise ValueError(
                f"{name} must have batch * nheads * ceil(seqlen / {_MIN_BLOCK}) of at "
                f"most {_MAX_PROGRAMS}, got {programs}"
            )


def _check_access(name: str, x: torch.Tensor) -> None:
    """Raises ValueError unless the kernel may read x as it lies in memory."""
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        raise ValueError(
            f"{name} must have a last stride of 1, got strides {x.stride()}"
        )
