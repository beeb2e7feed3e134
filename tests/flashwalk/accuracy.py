"""Runs a forward and judges it: against fp64, by the error of naive attention.

The largest absolute error may be twice that of softmax(q @ k.T * scale) @ v in
the same dtype on the same device, plus one rounding of the largest value.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad

from flashwalk import attention_ref

# A GPU's ex2.approx is good to 2**-22 of its result (PTX ISA), which PyTorch's
# exp betters. It counts twice: in the numerator and in the denominator. In fp32
# alone is that more than nothing.
EXP_ERROR = 2 * 2.0**-22


EPS = torch.finfo(torch.float32).eps


class Problem(NamedTuple):
    """One input of the forward, and the tile to cut it with (None: default)."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    causal: bool = False
    softmax_scale: float | None = None
    tile: tuple[int, int, int, int] | None = None

    @property
    def scale(self) -> float:
        """The scale in use."""
        if self.softmax_scale is None:
            return 1 / math.sqrt(self.q.shape[-1])
        return self.softmax_scale


class Verdict(NamedTuple):
    """How far off the outputs are, and how far they may be."""

    error: float
    budget: float
    lse_share: float  # the worst lse, as a share of its own budget

    def record(self, record_property) -> None:
        """Leaves error and budget with pytest, for the page of results."""
        record_property("error", self.error)
        record_property("budget", self.budget)


class Rejected(AssertionError):
    """The outputs are not those of attention."""


def run(forward, problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """What `forward.launch` writes into outputs that were full of NaN."""
    q, k, v, causal, _, tile = problem
    out = torch.full(q.shape, math.nan, dtype=q.dtype, device=q.device)
    lse = torch.full(q.shape[:-1], math.nan, dtype=torch.float32, device=q.device)
    tile = forward.Tile(*tile) if tile else None
    forward.launch(
        q, k, v, out, lse, causal=causal, softmax_scale=problem.scale, tile=tile
    )
    return out, lse


def check(forward, problem: Problem) -> Verdict:
    """Runs `forward` (a module) on the problem; Rejected if it is wrong."""
    return judge(problem, *run(forward, problem))


def judge(problem: Problem, out: torch.Tensor, lse: torch.Tensor) -> Verdict:
    """Compares outputs with fp64; Rejected beyond the budget, and for NaN."""
    q, k, v, causal, _, _ = problem
    scale = problem.scale
    exact, exact_lse = attention_ref(
        q.double(), k.double(), v.double(), causal=causal, softmax_scale=scale
    )
    naive_error = largest(naive(q, k, v, causal, scale).double() - exact)
    rounding = torch.finfo(q.dtype).eps + (EXP_ERROR if q.is_cuda else 0.0)
    budget = 2 * naive_error + rounding * largest(exact)
    # A row that sees no key has lse −inf: equal, or infinitely far off.
    empty = exact_lse == -math.inf
    if not torch.equal(lse == -math.inf, empty):
        raise Rejected("lse is −inf elsewhere than in the rows that see no key")
    seen, exact_seen = lse.double()[~empty], exact_lse[~empty]
    room = exact_seen.abs().clamp(min=1.0) * lse_ulps(q) * EPS
    verdict = Verdict(
        error=largest(out.double() - exact),
        budget=budget,
        lse_share=largest((seen - exact_seen) / room),
    )
    # Written so that NaN, which compares False with everything, is rejected.
    if not (verdict.error <= budget and verdict.lse_share <= 1.0):
        raise Rejected(str(verdict))
    if out[empty].count_nonzero():
        raise Rejected("a row that sees no key is not 0")
    return verdict


def lse_ulps(q: torch.Tensor) -> float:
    """How many roundings of fp32 an lse may be off.

    Tensor cores add 16 products at a time to a sum in fp32, and cut it off each
    time instead of rounding: that is head_dim / 16 more.
    """
    on_tensor_cores = q.is_cuda and q.dtype != torch.float32
    return 8 + (q.shape[-1] / 16 if on_tensor_cores else 0)


def largest(x: torch.Tensor) -> float:
    """The largest absolute value; 0 of nothing; NaN if there is one."""
    return x.abs().max().item() if x.numel() else 0.0


def naive(q, k, v, causal: bool, scale: float) -> torch.Tensor:
    """softmax(q @ k.T * scale) @ v in the dtype of q; 0 for an empty row."""
    group_size = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group_size, dim=1)
    v = v.repeat_interleave(group_size, dim=1)
    scores = matmul(q, k.transpose(-1, -2)) * scale
    if causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        hidden = ones.triu(k.shape[2] - q.shape[2] + 1)
        scores = scores.masked_fill(hidden, -math.inf)
        empty = hidden.all(dim=-1)
        return matmul(scores.softmax(dim=-1), v).masked_fill(empty[:, None], 0.0)
    return matmul(scores.softmax(dim=-1), v)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b by the library that multiplies for the kernel.

    Under the interpreter that is NumPy's: PyTorch's sums in another order, and
    over 256 columns errs by half as much. Algorithms are compared here.
    """
    if a.device.type == "cpu" and a.dtype == torch.float32:
        # The kernel's sums run over a power of two, with zeros at the end.
        more = 2 ** math.ceil(math.log2(a.shape[-1])) - a.shape[-1]
        a, b = pad(a, (0, more)), pad(b, (0, 0, 0, more))
        return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))
    return a @ b
