"""The memory of a backward, and all that its chapters derive.

Counted for the sizes of the text that this part began with, in 16 bits and
without a mask. What memory a GPU really takes is the job attention-memory's.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from bench.accuracy import Inputs, naive_attention
from bench.cases import SEEDS
from bench.claims_traffic import (
    GIB,
    MIB,
    SCORE,
    matrix_bytes,
    sizes,
    tensor_bytes,
    whole,
)
from bench.claims_walk import Claim, agree, claim
from flashwalk import attention

SIZE = SEEDS[128]
LENGTHS = (128, 1024, 8192, 65_536)


def row_bytes(seqlen: int) -> int:
    """One fp32 number a row of the scores: lse, or delta."""
    return SIZE.batch * SIZE.nheads * seqlen * SCORE


def bill() -> Iterator[Claim]:
    """What each tensor weighs, and what a backward must do about it."""
    tensor, matrix = tensor_bytes(SIZE), matrix_bytes(SIZE)
    agree(matrix / tensor, SIZE.seqlen_k / SIZE.head_dim, "S beside Q and S/D")
    found = {
        "tensor_mib": whole(tensor / MIB),
        "inputs_mib": whole(3 * tensor / MIB),
        "matrix_gib": whole(matrix / GIB),
        "matrix_fp32_gib": whole(2 * matrix / GIB),
        "matrix_times": whole(matrix / tensor),
        "lse_mib": whole(row_bytes(SIZE.seqlen_q) / MIB),
    }
    yield claim("backward-bill", found, **sizes(SIZE))


def kept() -> Iterator[Claim]:
    """What lies between forward and backward, beyond q, k and v, by length."""
    for name, run in (("naive", _naive), ("flashwalk", _ours)):
        small = replace(SIZE, batch=1, nheads=2, seqlen_q=48, seqlen_k=48, head_dim=16)
        matrix, tensor = (f(small) for f in (matrix_bytes, tensor_bytes))
        expected = matrix if name == "naive" else tensor + 2 * 48 * SCORE
        agree(kept_bytes(run, 48, 16), expected, f"what {name} keeps and its formula")
    for seqlen in LENGTHS:
        case = replace(SIZE, seqlen_q=seqlen, seqlen_k=seqlen)
        ours = tensor_bytes(case) + row_bytes(seqlen)
        found = {
            "kept_naive_mib": whole(matrix_bytes(case) / MIB),
            "kept_ours_mib": whole(ours / MIB),
            "kept_ratio": matrix_bytes(case) / ours,
        }
        yield claim("kept", found, **sizes(case))


def kept_bytes(run: Callable[..., torch.Tensor], seqlen: int, head_dim: int) -> int:
    """What autograd holds for the backward of `run`, inputs left out; 2 heads."""
    q, k, v = torch.randn(3, 1, 2, seqlen, head_dim).half().requires_grad_().unbind(0)
    inputs = {x.untyped_storage().data_ptr() for x in (q, k, v)}
    held: dict[int, int] = {}

    def pack(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if x.dim() and storage.data_ptr() not in inputs:
            held[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = run(q, k, v)
    del out
    return sum(held.values())


def _naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return naive_attention(Inputs(q, k, v), q.shape[-1] ** -0.5, None)


def _ours(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = attention(q, k, v)
    assert isinstance(out, torch.Tensor)
    return out


def during_the_backward() -> Iterator[Claim]:
    """What must exist at one moment: dP becomes dS, and P is needed for it.

    Ours: the gradients, and a number a row for delta; on Hopper dQ is summed up
    in fp32 before it is rounded, and lse is written once more, in base 2.
    """
    tensor, rows = tensor_bytes(SIZE), row_bytes(SIZE.seqlen_q)
    naive = {"matrices": 3, "matrices_gib": whole(3 * matrix_bytes(SIZE) / GIB)}
    yield claim("backward-needs", naive, impl="naive")
    for kernel, extra in (("portable", rows), ("hopper", 2 * tensor + 2 * rows)):
        found = {
            "gradients_mib": whole(3 * tensor / MIB),
            "buffers_mib": whole(extra / MIB),
        }
        yield claim("backward-needs", found, impl="flashwalk", kernel=kernel)


def bill_claims() -> Iterator[Claim]:
    """The claims of this file."""
    yield from bill()
    yield from kept()
    yield from during_the_backward()


def backward_claims() -> Iterator[Claim]:
    """Everything that the chapters on mathematics derive."""
    from bench import (
        claims_backward_blocks,
        claims_backward_gradients,
        claims_backward_kernel,
    )

    yield from bill_claims()
    yield from claims_backward_blocks.block_claims()
    yield from claims_backward_gradients.gradient_claims()
    yield from claims_backward_kernel.kernel_claims()
