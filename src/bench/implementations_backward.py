"""The backward of the implementations that are timed, as its users reach it.

The forward is called once, beforehand, with gradients wanted. What is timed is
PyTorch's walk back from its output, `torch.autograd.grad`, which keeps the graph
so that it can go again. One is not reached so: our portable kernels.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

import flashwalk
from bench.accuracy import Inputs, naive_attention
from bench.cases import Case
from bench.gradients import Gradients, leaves_of
from bench.implementations import (
    fa4_function,
    first,
    refusals_of,
    sdpa_function,
    seqlen_first,
)
from bench.measure import Call, Unsupported
from flashwalk import backward

# From a case, its inputs and the gradient of the output.
Backward = Callable[[Case, Inputs, Tensor], Call]


def ours(case: Case, inputs: Inputs, do: Tensor) -> Call:
    attention = partial(flashwalk.attention, causal=case.causal)
    return _backward_of(attention, inputs, do)


def portable(case: Case, inputs: Inputs, do: Tensor) -> Call:
    """The kernels for any GPU, launched by their own module, as the ladder's rungs
    are: so it is always them, whatever would be chosen here."""
    out, lse = flashwalk.attention(*inputs, causal=case.causal, return_lse=True)

    def run() -> Gradients:
        gradients = Gradients(*map(torch.empty_like, inputs))
        backward.launch(
            *(*inputs, out, lse, do, None, *gradients),
            causal=case.causal,
            softmax_scale=case.softmax_scale,
        )
        return gradients

    return Call(run)


def naive(case: Case, inputs: Inputs, do: Tensor) -> Call:
    """The version that keeps the matrix of weights; without a mask."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return naive_attention(Inputs(q, k, v), case.softmax_scale, hidden=None)

    return _backward_of(attention, inputs, do)


def fa2(case: Case, inputs: Inputs, do: Tensor) -> Call:
    """FlashAttention-2, as PyTorch ships it."""
    return _sdpa(SDPBackend.FLASH_ATTENTION, case, inputs, do)


def cudnn(case: Case, inputs: Inputs, do: Tensor) -> Call:
    return _sdpa(SDPBackend.CUDNN_ATTENTION, case, inputs, do)


def _sdpa(backend: SDPBackend, case: Case, inputs: Inputs, do: Tensor) -> Call:
    attention = sdpa_function(backend, case)
    with refusals_of(backend):
        return _backward_of(attention, inputs, do)


def fa3(case: Case, inputs: Inputs, do: Tensor) -> Call:
    raise Unsupported("this build has a forward only")


def fa4(case: Case, inputs: Inputs, do: Tensor) -> Call:
    return _seqlen_first(fa4_function(), case, inputs, do)


def _seqlen_first(
    attention: Callable[..., Any], case: Case, inputs: Inputs, do: Tensor
) -> Call:
    """A function whose layout is (batch, seqlen, heads, head_dim)."""
    theirs = Inputs(*map(seqlen_first, inputs))
    try:
        call = _backward_of(
            lambda q, k, v: first(attention(q, k, v, causal=case.causal)),
            theirs,
            seqlen_first(do),
        )
    except (AssertionError, NotImplementedError) as error:
        # How they refuse a head dim or a GPU that a kernel is not written for.
        raise Unsupported(f"it refuses: {error}") from None
    return Call(call.run, _heads_first)


def _heads_first(gradients: Sequence[Tensor]) -> Gradients:
    return Gradients(*(x.transpose(1, 2) for x in gradients))


def _backward_of(attention: Callable[..., Tensor], inputs: Inputs, do: Tensor) -> Call:
    """The backward of attention(q, k, v), once the forward has run."""
    leaves = leaves_of(inputs)
    out = attention(*leaves)
    if not out.requires_grad:
        raise Unsupported("it has a forward only")

    def run() -> Gradients:
        return Gradients(*torch.autograd.grad(out, leaves, do, retain_graph=True))

    run()  # compiles; and what refuses does so here
    return Call(run)


BACKWARDS: dict[str, Backward] = {
    "flashwalk": ours,
    "portable": portable,
    "fa2": fa2,
    "cudnn": cudnn,
    "fa3": fa3,
    "fa4": fa4,
}
