"""The implementations that are timed, each as its users call it.

An `Implementation` takes a case and its inputs and makes all that may be made
beforehand: the layout that it wants, the mask, the compiled kernels. What is
left to its `Call` is the public function, and that is what is timed.
"""

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import flashwalk
from bench.accuracy import Inputs, causal_mask, naive_attention
from bench.cases import Case
from bench.measure import Call, Unsupported
from flashwalk import forward

Implementation = Callable[[Case, Inputs], Call]


def ours(case: Case, inputs: Inputs) -> Call:
    return Call(lambda: flashwalk.attention(*inputs, causal=case.causal))


def teaching(case: Case, inputs: Inputs) -> Call:
    """The kernel that the chapters on the forward walk through."""
    return launched(forward, case, inputs)


def launched(kernel: Any, case: Case, inputs: Inputs) -> Call:
    """One of our kernels by its module, with its outputs made anew as users' are."""
    refusal = getattr(kernel, "refusal", None)
    if refusal and (reason := refusal(*inputs, case.softmax_scale)):
        raise Unsupported(reason)

    def run() -> Tensor:
        q = inputs.q
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
        kernel.launch(
            *inputs, out, lse, causal=case.causal, softmax_scale=case.softmax_scale
        )
        return out

    return Call(run)


def naive(case: Case, inputs: Inputs) -> Call:
    hidden = causal_mask(case, str(inputs.q.device))
    return Call(lambda: naive_attention(inputs, case.softmax_scale, hidden))


def fa2(case: Case, inputs: Inputs) -> Call:
    """FlashAttention-2, as PyTorch ships it."""
    return _sdpa(SDPBackend.FLASH_ATTENTION, case, inputs)


def cudnn(case: Case, inputs: Inputs) -> Call:
    return _sdpa(SDPBackend.CUDNN_ATTENTION, case, inputs)


def _sdpa(backend: SDPBackend, case: Case, inputs: Inputs) -> Call:
    attention = sdpa_function(backend, case)
    with refusals_of(backend):
        attention(*inputs)
    return Call(lambda: attention(*inputs))


def sdpa_function(backend: SDPBackend, case: Case) -> Callable[..., Tensor]:
    """One of PyTorch's own kernels, as a function of q, k and v."""
    _require_square(case)
    grouped = case.nheads != case.nheads_k

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(
                q, k, v, is_causal=case.causal, enable_gqa=grouped
            )

    return attention


@contextmanager
def refusals_of(backend: SDPBackend) -> Iterator[None]:
    """Within it, PyTorch's refusal of a case is `Unsupported`."""
    try:
        yield
    except RuntimeError as error:
        # What PyTorch says when it refuses; which of the two depends on its version.
        if re.search("No (available kernel|viable backend)", str(error)):
            raise Unsupported(f"PyTorch has no {backend.name} kernel for it") from None
        raise


def flex(case: Case, inputs: Inputs) -> Call:
    """FlexAttention, compiled for these very sizes."""
    from torch._dynamo.utils import counters
    from torch.nn.attention.flex_attention import create_block_mask

    _require_square(case)
    mask = None
    if case.causal:
        mask = create_block_mask(
            _flex_causal,
            B=None,
            H=None,
            Q_LEN=case.seqlen_q,
            KV_LEN=case.seqlen_k,
            device=str(inputs.q.device),
        )
    attention = _compiled_flex()
    grouped = case.nheads != case.nheads_k

    def run() -> Any:
        return attention(*inputs, block_mask=mask, enable_gqa=grouped)

    # Every case has other sizes, so each must bring a graph of its own: without
    # one, what would be timed is the eager path, 40 times slower.
    graphs = counters["stats"]["unique_graphs"]
    run()
    if counters["stats"]["unique_graphs"] == graphs:
        raise RuntimeError("flex_attention ran without being compiled")
    return Call(run)


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    import torch._dynamo
    from torch.nn.attention.flex_attention import flex_attention

    # Beyond 8 sizes torch.compile would fall back to the eager path; with
    # fullgraph it raises instead.
    torch._dynamo.config.recompile_limit = 256
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)


def _flex_causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def fa3(case: Case, inputs: Inputs) -> Call:
    try:
        from flash_attn_interface import flash_attn_func
    except (ImportError, OSError) as error:
        raise Unsupported(f"FlashAttention-3 cannot be imported: {error}") from None
    if case.head_dim not in (64, 128, 256):
        raise Unsupported("this build has kernels for head dims 64, 128 and 256")
    return _seqlen_first(flash_attn_func, case, inputs)


def fa4(case: Case, inputs: Inputs) -> Call:
    return _seqlen_first(fa4_function(), case, inputs)


def fa4_function() -> Callable[..., Any]:
    try:
        from flash_attn.cute import flash_attn_func
    except (ImportError, OSError) as error:
        raise Unsupported(f"FlashAttention-4 cannot be imported: {error}") from None
    attention: Callable[..., Any] = flash_attn_func
    return attention


def _seqlen_first(attention: Callable[..., Any], case: Case, inputs: Inputs) -> Call:
    """A function whose layout is (batch, seqlen, heads, head_dim)."""
    q, k, v = map(seqlen_first, inputs)
    return Call(
        lambda: attention(q, k, v, causal=case.causal),
        lambda result: first(result).transpose(1, 2),
    )


def seqlen_first(x: Tensor) -> Tensor:
    """(batch, heads, seqlen, head_dim) as (batch, seqlen, heads, head_dim)."""
    return x.transpose(1, 2).contiguous()


def first(result: Any) -> Tensor:
    """The output: FlashAttention-4 returns its log-sum-exp too."""
    out: Tensor = result[0] if isinstance(result, tuple) else result
    return out


def _require_square(case: Case) -> None:
    """The causal mask of PyTorch is aligned top-left, ours bottom-right."""
    if case.causal and case.seqlen_q != case.seqlen_k:
        raise Unsupported("its causal mask differs where the lengths do")


IMPLEMENTATIONS: dict[str, Implementation] = {
    "flashwalk": ours,
    "teaching": teaching,
    "naive": naive,
    "fa2": fa2,
    "cudnn": cudnn,
    "flex": flex,
    "fa3": fa3,
    "fa4": fa4,
}

# The fastest that people can call: what ours is held against.
RIVALS = ("fa2", "cudnn", "fa3", "fa4")
