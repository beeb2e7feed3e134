"""Which kernel runs a call, and why; likewise which runs its backward.

All kernels compute the same within one error budget; they differ in what they
take and how fast they are:

- hopper: Gluon on Hopper (sm_90) for 16 bits, `flashwalk.hopper.forward`;
- portable: `flashwalk.ladder.two_loops`, for every other GPU and argument;
- teaching: the kernel that the chapters walk through, in Triton's interpreter;
- dropout: `flashwalk.dropout`, wherever weights are dropped.

Of the backward there are two, hopper (`flashwalk.hopper.backward`) and portable
(`flashwalk.backward`), which drops weights too, and whose gradients are bitwise
equal from run to run.
"""

import functools
import math
import warnings
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import torch
import triton

from flashwalk import forward
from flashwalk.arguments import (
    cast_for_autocast,
    check_flag,
    check_tensors,
    resolve_dropout,
    resolve_scale,
)
from flashwalk.signature import Signature

# Gluon is experimental: names and meanings change from one Triton to the next.
_GLUON_OF = "3.6."
_HOPPER = (9, 0)
# The plan of the Hopper kernel is a list on the host, with an entry a tile.
_MAX_TILES = 2**20
_ROWS_OF_A_TILE = 128
# The Hopper backward's small kernels go by 32 rows along the second axis of a
# grid, which ends at 65535.
_MAX_QUERIES = 2**20
# Up to this head dim it adds to dq in whatever order its blocks come.
_DQ_IN_ANY_ORDER = 128


class Choice(NamedTuple):
    """The name of a kernel, and why it runs."""

    kernel: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kernel}: {self.reason}"


def explain(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    deterministic: bool = False,
    backward: bool = False,
) -> Choice:
    """Which kernel `attention` runs for these arguments, and why.

    Args: as for `flashwalk.attention`; backward: whether to tell of the kernel
    that computes the gradients instead. Returns a pair that prints as
    "hopper: …". Raises ValueError as `attention` does for these arguments.
    """
    q, k, v = cast_for_autocast(q, k, v)
    check_tensors(q, k, v)
    check_flag("causal", causal)
    check_flag("deterministic", deterministic)
    check_flag("backward", backward)
    scale = resolve_scale(softmax_scale, q.shape[-1])
    dropout = resolve_dropout(dropout_p, None) > 0
    if backward:
        return choose_backward(
            q, k, v, scale, dropout=dropout, deterministic=deterministic
        )
    if dropout:
        return Choice("dropout", "the one forward that drops weights")
    return choose(q, k, v, scale)


def choose(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, softmax_scale: float
) -> Choice:
    """As `explain`, for arguments that have been checked."""
    if is_interpreted():
        return Choice("teaching", "Triton's interpreter runs it, not a GPU")
    capability = _capability(q.device)
    if capability is None:
        return Choice("portable", f"there is no GPU behind device {q.device}")
    if capability != _HOPPER:
        generation = "{}.{}".format(*capability)
        return Choice("portable", f"the GPU is sm_{generation}, not sm_9.0 (Hopper)")
    if isinstance(hopper := _hopper(), str):
        return Choice("portable", hopper)
    tiles = q.shape[0] * q.shape[1] * -(-q.shape[2] // _ROWS_OF_A_TILE)
    if tiles > _MAX_TILES:
        return Choice("portable", f"{tiles} tiles are too many to plan on the host")
    refusal = _refusal(Signature.of(q, k, v), softmax_scale)
    if refusal := refusal or hopper.misaligned(q, k, v):
        return Choice("portable", f"the Hopper kernel refuses: {refusal}")
    return Choice("hopper", "16 bits on Hopper, in rows that the TMA can read")


@functools.lru_cache(maxsize=1024)
def _refusal(signature: Signature, softmax_scale: float) -> str | None:
    """What the Hopper kernel has against arguments, whatever their addresses."""
    hopper = import_module(_MODULES["hopper"])
    tensors = signature.q(), signature.k(), signature.v()
    reason: str | None = hopper.refusal(*tensors, softmax_scale)
    return reason


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *,
    causal: bool,
    softmax_scale: float,
) -> None:
    """Fills `out` and `lse` by the chosen kernel; arguments are taken as valid."""
    kernel = choose(q, k, v, softmax_scale).kernel
    _module(kernel).launch(
        q, k, v, out, lse, causal=causal, softmax_scale=softmax_scale
    )


def choose_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: float,
    *,
    dropout: bool,
    deterministic: bool,
) -> Choice:
    """Which kernel computes the gradients, for arguments that have been checked."""
    if dropout:
        return Choice("portable", "the Hopper kernel drops no weights")
    of_forward = choose(q, k, v, softmax_scale)
    if of_forward.kernel != "hopper":
        # What the Hopper forward refuses the Hopper backward refuses too.
        return Choice("portable", of_forward.reason)
    if isinstance(hopper := _hopper("backward"), str):
        return Choice("portable", hopper)
    if q.shape[3] <= _DQ_IN_ANY_ORDER:
        if deterministic:
            return Choice("portable", "deterministic: its dq is summed in one order")
        if torch.are_deterministic_algorithms_enabled():
            return Choice("portable", "torch.use_deterministic_algorithms is on")
    if q.shape[3] > (limit := max(hopper.TILES)):
        return Choice("portable", f"the Hopper kernel's head_dim ends at {limit}")
    if q.shape[2] > _MAX_QUERIES:
        return Choice("portable", f"the Hopper kernel's queries end at {_MAX_QUERIES}")
    tiles = k.shape[0] * k.shape[1] * -(-k.shape[2] // _ROWS_OF_A_TILE)
    if tiles > _MAX_TILES:
        return Choice("portable", f"{tiles} tiles are too many to plan on the host")
    return Choice("hopper", "16 bits on Hopper, in rows that the TMA can read")


def launch_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    *,
    causal: bool,
    softmax_scale: float,
    seed: torch.Tensor | None,
    dropout_p: float,
    deterministic: bool,
) -> None:
    """Fills the gradients that are not None, by the chosen kernel.

    do and dlse, the gradients of out and lse, may lie anyhow; arguments are
    taken as valid.
    """
    chosen = choose_backward(
        q, k, v, softmax_scale,
        dropout=seed is not None, deterministic=deterministic,
    )  # fmt: skip
    if chosen.kernel == "hopper":
        # It computes all three; what is not needed is thrown away.
        _launch_hopper_backward(
            q, k, v, out, lse, do, dlse, (dq, dk, dv), causal, softmax_scale
        )
        return
    # Imported here: what runs no backward does not depend on its kernels.
    from flashwalk import backward

    backward.launch(
        q, k, v, out, lse, do, dlse, dq, dk, dv,
        causal=causal, softmax_scale=softmax_scale,
        seed=seed, dropout_p=dropout_p,
    )  # fmt: skip


def _launch_hopper_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    wanted: tuple[torch.Tensor | None, ...],
    causal: bool,
    softmax_scale: float,
) -> None:
    """Gives the kernel what it takes: a do for the TMA, and all three gradients."""
    hopper = _hopper("backward")
    assert not isinstance(hopper, str)
    refusal = _refusal(Signature.of(do, do, do), softmax_scale)
    if do.stride(-1) != 1 or refusal or hopper.host.misaligned(do, do, do):
        do = do.clone(memory_format=torch.contiguous_format)
    if dlse is not None:
        # The lse of a row that sees no key depends on nothing.
        dlse = dlse.masked_fill(lse == -math.inf, 0.0).contiguous()
    # They lie as q, k and v do, which the TMA can read; what is not needed anyhow.
    gradients = (
        torch.empty_like(like, memory_format=torch.contiguous_format)
        if x is None else x
        for x, like in zip(wanted, (q, k, v), strict=True)
    )  # fmt: skip
    hopper.launch(
        q, k, v, out, lse, do, dlse, *gradients,
        causal=causal, softmax_scale=softmax_scale,
    )  # fmt: skip


def is_interpreted() -> bool:
    """Whether the kernels were made for Triton's interpreter when imported."""
    return not isinstance(forward._attn_fwd, triton.runtime.JITFunction)


def _module(kernel: str) -> ModuleType:
    """The module of a kernel that `choose` names."""
    if kernel == "teaching":
        return forward
    return import_module(_MODULES[kernel])


_MODULES = {
    "hopper": "flashwalk.hopper.forward",
    "portable": "flashwalk.ladder.two_loops",
}


@functools.cache
def _hopper(part: str = "forward") -> ModuleType | str:
    """A Hopper kernel's module; why there is none, with another Triton."""
    if not triton.__version__.startswith(_GLUON_OF):
        return _without_hopper(f"it is written for Triton {_GLUON_OF}x")
    try:
        return import_module(f"flashwalk.hopper.{part}")
    except (ImportError, AttributeError, TypeError) as error:
        return _without_hopper(f"{type(error).__name__}: {error}")


def _without_hopper(why: str) -> str:
    """Says once that calls will be slower, and returns what `explain` says."""
    reason = f"no Hopper kernel with Triton {triton.__version__}: {why}"
    warnings.warn(f"flashwalk: {reason}; a slower one runs", RuntimeWarning, 3)
    return reason


@functools.cache
def _capability(device: torch.device) -> tuple[int, int] | None:
    """The generation of a GPU, as (9, 0); None for what is no GPU."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else None
