"""What PyTorch sees of the kernels: two operators, their shapes and gradients.

`flashwalk::attention_forward` and `flashwalk::attention_backward` take arguments
that are known to be valid; `flashwalk.attention` checks them. As operators they
are one node each to the dispatcher and to torch.compile, which needs no more of
them than the shapes of what they return.
"""

# PyTorch has no types for torch.library.Library.
# mypy: disable-error-code="no-untyped-call"

from typing import Any

import torch

from flashwalk import choice

_LIBRARY = torch.library.Library("flashwalk", "DEF")
# What was checked of the strides must still hold when compiled code calls.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
_LIBRARY.define(
    "attention_forward(Tensor q, Tensor k, Tensor v, bool causal, "
    "float softmax_scale, Tensor? seed, float dropout_p, bool deterministic) "
    "-> (Tensor out, Tensor lse)",
    tags=_TAGS,
)
_LIBRARY.define(
    "attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    "Tensor do, Tensor? dlse, bool causal, float softmax_scale, Tensor? seed, "
    "float dropout_p, bool deterministic, bool needs_dq, bool needs_dkdv) "
    "-> (Tensor dq, Tensor dk, Tensor dv)",
    tags=_TAGS,
)


def attention_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    softmax_scale: float,
    seed: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse), differentiable where something requires a gradient.

    seed: None for no dropout, else (1,) in int64 on q's device (`new_seed`).
    deterministic: is for the backward; there is one forward.
    Goes through the dispatcher if anything there could want to see the call,
    else straight to autograd or to the kernel, which saves host time.
    """
    asked = (q, k, v, causal, softmax_scale, seed, dropout_p, deterministic)
    if _is_watched(q, k, v):
        out, lse = torch.ops.flashwalk.attention_forward.default(*asked)
        return out, lse
    if torch.is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad
    ):
        out, lse = _Attention.apply(*asked)
        return out, lse
    return _forward(*asked)


def _is_watched(*tensors: torch.Tensor) -> bool:
    """Whether a compiler, a mode, a transform or a kind of tensor wants to see."""
    return bool(
        torch.compiler.is_compiling()
        or not all(type(x) is torch.Tensor for x in tensors)
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
    )


def new_seed(device: torch.device, seed: int | None) -> torch.Tensor:
    """The seed of a mask, on the device: no host waits to know it.

    None draws it from PyTorch's generator of that device, which manual_seed
    sets, checkpointing restores and a CUDA graph moves on with each replay.
    """
    if seed is None:
        return torch.randint(2**63 - 1, (1,), dtype=torch.int64, device=device)
    return torch.full((1,), seed, dtype=torch.int64, device=device)


def _forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    softmax_scale: float,
    seed: torch.Tensor | None,
    dropout_p: float,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launches the forward into new tensors."""
    out, lse = _empty_outputs(q)
    # Triton launches on the current device; q may be on another one. For a
    # CPU tensor (under the interpreter) the index is None: no change.
    with torch.cuda.device(q.device.index if q.is_cuda else -1):
        if seed is None:
            choice.launch(q, k, v, out, lse, causal=causal, softmax_scale=softmax_scale)
        else:
            # Imported here: most calls drop nothing, and need no kernel for it.
            from flashwalk import dropout

            dropout.launch(
                q, k, v, out, lse, seed=seed, dropout_p=dropout_p,
                causal=causal, softmax_scale=softmax_scale,
            )  # fmt: skip
    return out, lse


def _backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    causal: bool,
    softmax_scale: float,
    seed: torch.Tensor | None,
    dropout_p: float,
    deterministic: bool,
    needs_dq: bool,
    needs_dkdv: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Launches the backward into new tensors; those not needed are empty."""
    dq, dk, dv = _empty_gradients(q, k, v, needs_dq, needs_dkdv)
    with torch.cuda.device(q.device.index if q.is_cuda else -1):
        choice.launch_backward(
            q, k, v, out, lse, do, dlse,
            dq if needs_dq else None,
            dk if needs_dkdv else None,
            dv if needs_dkdv else None,
            causal=causal, softmax_scale=softmax_scale,
            seed=seed, dropout_p=dropout_p, deterministic=deterministic,
        )  # fmt: skip
    return dq, dk, dv


def _empty_outputs(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """out like q, contiguous, and lse (batch, nheads, seqlen_q) in fp32."""
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    return out, lse


def _empty_gradients(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, needs_dq: bool, needs_dkdv: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv; of no element where not needed."""
    return (
        _empty_gradient(q) if needs_dq else q.new_empty(0),
        _empty_gradient(k) if needs_dkdv else k.new_empty(0),
        _empty_gradient(v) if needs_dkdv else v.new_empty(0),
    )


def _empty_gradient(x: torch.Tensor) -> torch.Tensor:
    """A gradient that lies in memory as x does, as far as x is dense.

    A view of a projection, as (batch, seqlen, nheads, head_dim) is, then gets a
    gradient which is a view of that projection's, and nobody copies it.
    """
    gradient = torch.empty_like(x)
    if gradient.stride(-1) == 1:
        return gradient
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _shapes_of_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    softmax_scale: float,
    seed: torch.Tensor | None,
    dropout_p: float,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `_forward` returns, without values."""
    return _empty_outputs(q)


def _shapes_of_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    causal: bool,
    softmax_scale: float,
    seed: torch.Tensor | None,
    dropout_p: float,
    deterministic: bool,
    needs_dq: bool,
    needs_dkdv: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What `_backward` returns, without values."""
    return _empty_gradients(q, k, v, needs_dq, needs_dkdv)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    """Keeps what the backward computes p again from: nothing of seqlen squared."""
    q, k, v, ctx.causal, ctx.softmax_scale, seed = inputs[:6]
    ctx.dropout_p, ctx.deterministic = inputs[6:]
    ctx.save_for_backward(q, k, v, *output, seed)
    # A loss that does not use lse then sends None for it, not zeros.
    ctx.set_materialize_grads(False)


def _differentiate(
    ctx: Any, do: torch.Tensor | None, dlse: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of q, k and v, from those of out and lse."""
    q, k, v, out, lse, seed = ctx.saved_tensors
    needs_dq, needs_dk, needs_dv = ctx.needs_input_grad[:3]
    if do is None:
        do = torch.zeros_like(out)
    # With create_graph, too, so that who differentiates again is told.
    watched = torch.is_grad_enabled() or _is_watched(q, k, v, do)
    backward = torch.ops.flashwalk.attention_backward.default if watched else _backward
    dq, dk, dv = backward(
        q, k, v, out, lse, do, dlse, ctx.causal, ctx.softmax_scale,
        seed, ctx.dropout_p, ctx.deterministic, needs_dq, needs_dk or needs_dv,
    )  # fmt: skip
    return (
        dq if needs_dq else None,
        dk if needs_dk else None,
        dv if needs_dv else None,
        *(None, None, None, None, None),
    )


class _Attention(torch.autograd.Function):
    """The operator's gradients without the operator."""

    @staticmethod
    def forward(ctx: Any, *asked: Any) -> tuple[torch.Tensor, torch.Tensor]:
        output = _forward(*asked)
        _save(ctx, asked, output)
        return output

    backward = staticmethod(_differentiate)


def _refuse(ctx: Any, *gradients: torch.Tensor | None) -> None:
    """Raises: the gradients have no gradients."""
    raise NotImplementedError(
        "flashwalk.attention can be differentiated once: the gradients of its "
        "gradients (create_graph=True) are not implemented. Use PyTorch's "
        "scaled_dot_product_attention under sdpa_kernel(SDPBackend.MATH) for them"
    )


for _name, _kernel, _shapes in (
    ("attention_forward", _forward, _shapes_of_forward),
    ("attention_backward", _backward, _shapes_of_backward),
):
    # On the CPU only the interpreter runs them, and `attention` asks for it.
    _LIBRARY.impl(_name, _kernel, "CUDA")
    _LIBRARY.impl(_name, _kernel, "CPU")
    torch.library.register_fake(f"flashwalk::{_name}", _shapes, lib=_LIBRARY)
torch.library.register_autograd(
    "flashwalk::attention_forward",
    _differentiate,
    setup_context=_save,
    lib=_LIBRARY,
)
torch.library.register_autograd("flashwalk::attention_backward", _refuse, lib=_LIBRARY)
