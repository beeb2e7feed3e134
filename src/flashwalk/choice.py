"""Which kernel runs a call, and why.

All kernels compute the same within one error budget; they differ in what they
take and how fast they are:

- hopper: Gluon on Hopper (sm_90) for 16 bits, `flashwalk.hopper.forward`;
- portable: `flashwalk.ladder.two_loops`, for every other GPU and argument;
- teaching: the kernel that the chapters walk through, in Triton's interpreter.
"""

import functools
import warnings
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import torch
import triton

from flashwalk import forward
from flashwalk.arguments import check_flag, check_tensors, resolve_scale
from flashwalk.signature import Signature

# Gluon is experimental: names and meanings change from one Triton to the next.
_GLUON_OF = "3.6."
_HOPPER = (9, 0)
# The plan of the Hopper kernel is a list on the host, with an entry a tile.
_MAX_TILES = 2**20
_ROWS_OF_A_TILE = 128


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
) -> Choice:
    """Which kernel `attention` runs for these arguments, and why.

    Args: as for `flashwalk.attention`. Returns a pair that prints as
    "hopper: …". Raises ValueError as `attention` does for q, k, v, causal and
    softmax_scale.
    """
    check_tensors(q, k, v)
    check_flag("causal", causal)
    return choose(q, k, v, resolve_scale(softmax_scale, q.shape[-1]))


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
    tiles = q.shape[0] * q.shape[1] * triton.cdiv(q.shape[2], _ROWS_OF_A_TILE)
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
def _hopper() -> ModuleType | str:
    """The Hopper kernel's module; why there is none, with another Triton."""
    if not triton.__version__.startswith(_GLUON_OF):
        return _without_hopper(f"it is written for Triton {_GLUON_OF}x")
    try:
        return import_module(_MODULES["hopper"])
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
