"""Is an answer right? Inputs, the truth in fp64, and the budget of its error."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from bench.cases import Case
from flashwalk import attention_ref

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class WrongAnswer(Exception):
    """The answer is further from the truth than its budget allows."""


class Inputs(NamedTuple):
    """q: (batch, nheads, seqlen_q, head_dim); k, v: with nheads_k and seqlen_k."""

    q: Tensor
    k: Tensor
    v: Tensor


def make_inputs(case: Case, device: str) -> Inputs:
    """Normal random numbers, the same in every run."""
    random = torch.Generator(device).manual_seed(0)
    queries = (case.batch, case.nheads, case.seqlen_q, case.head_dim)
    keys = (case.batch, case.nheads_k, case.seqlen_k, case.head_dim)
    dtype = DTYPES[case.dtype]
    return Inputs(
        *(
            torch.randn(shape, generator=random, device=device, dtype=dtype)
            for shape in (queries, keys, keys)
        )
    )


def causal_mask(case: Case, device: str) -> Tensor | None:
    """True where a query must not look, bottom-right; None when it may anywhere.

    (seqlen_q, seqlen_k)
    """
    if not case.causal:
        return None
    everywhere = torch.ones(
        case.seqlen_q, case.seqlen_k, dtype=torch.bool, device=device
    )
    return everywhere.triu(1 + case.seqlen_k - case.seqlen_q)


def naive_attention(
    inputs: Inputs, softmax_scale: float, hidden: Tensor | None
) -> Tensor:
    """What a reader would write first, in the dtype of the inputs.

    hidden: from `causal_mask`. Returns (batch, nheads, seqlen_q, head_dim).
    """
    q, k, v = inputs
    batch, nheads_k, seqlen_k, head_dim = k.shape
    # The heads of a group stand below one another, over their shared keys.
    grouped = q.reshape(batch, nheads_k, -1, head_dim)
    scores = grouped @ k.transpose(-2, -1) * softmax_scale
    if hidden is not None:
        by_head = scores.view(batch, nheads_k, -1, q.shape[2], seqlen_k)
        scores = by_head.masked_fill(hidden, float("-inf")).view_as(scores)
    return (torch.softmax(scores, dim=-1) @ v).view_as(q)


@dataclass(frozen=True)
class Judge:
    """The truth of one case, and how far an answer may be from it.

    truth: fp64, (batch, nheads, seqlen_q, head_dim). `budget` bounds the
    largest error. `budget_l2` bounds the whole error relative to the whole
    truth: in a causal case the first rows are the largest, and would hide a
    fault in the many small ones after them.
    """

    truth: Tensor
    dtype: torch.dtype
    budget: float
    budget_l2: float

    @classmethod
    def of(cls, case: Case, inputs: Inputs) -> Self:
        """The truth, and the budget that `naive_attention` sets.

        Both are computed by heads, all of them: the scores of one head of
        16,384 tokens take 2 GiB in fp64.
        """
        exact = Inputs(*(x.double() for x in inputs))
        truth, _ = attention_ref(
            *exact, causal=case.causal, softmax_scale=case.softmax_scale
        )
        hidden = causal_mask(case, str(inputs.q.device))
        naive = torch.empty_like(inputs.q)
        for group in by_groups(inputs):
            part = naive_attention(group.inputs, case.softmax_scale, hidden)
            naive[group.queries] = part
        return cls.between(truth, naive)

    @classmethod
    def between(cls, truth: Tensor, naive: Tensor) -> Self:
        """Allows twice the error of `naive`, and one rounding of the result."""
        error, error_l2 = _errors(naive, truth)
        eps = torch.finfo(naive.dtype).eps
        largest = truth.abs().max().item()
        return cls(truth, naive.dtype, 2 * error + eps * largest, 2 * error_l2 + eps)

    def poison(self) -> None:
        """Fills and frees as much memory as an answer takes.

        The allocator hands it out again: without this, a kernel that writes
        nothing could return the right answer of the kernel before it.
        """
        self.poisoned()

    def poisoned(self) -> Tensor:
        """As much memory as an answer takes, full of NaN."""
        return torch.full_like(self.truth, float("nan"), dtype=self.dtype)

    def error(self, out: Tensor) -> float:
        """The largest absolute error; raises `WrongAnswer` beyond the budget."""
        if out.shape != self.truth.shape or out.dtype != self.dtype:
            raise WrongAnswer(
                f"expected {tuple(self.truth.shape)} {self.dtype}, "
                f"got {tuple(out.shape)} {out.dtype}"
            )
        error, error_l2 = _errors(out, self.truth)
        # Written so that NaN fails.
        if not (error <= self.budget and error_l2 <= self.budget_l2):
            raise WrongAnswer(
                f"largest error {error:.2g} (budget {self.budget:.2g}), relative "
                f"to the whole {error_l2:.2g} (budget {self.budget_l2:.2g})"
            )
        return error


class Group(NamedTuple):
    """A batch and key head with the query heads that share it.

    queries, keys: where they stand in q, and in k and v.
    """

    queries: tuple[slice, slice]
    keys: tuple[slice, slice]
    inputs: Inputs


def by_groups(inputs: Inputs) -> Iterator[Group]:
    """All groups, one after the other: their scores are in memory by turns."""
    q, k, v = inputs
    group_size = q.shape[1] // k.shape[1]
    for b in range(k.shape[0]):
        for h in range(k.shape[1]):
            batch, head = slice(b, b + 1), slice(h, h + 1)
            heads = slice(h * group_size, (h + 1) * group_size)
            part = Inputs(q[batch, heads], k[batch, head], v[batch, head])
            yield Group((batch, heads), (batch, head), part)


def _errors(out: Tensor, truth: Tensor) -> tuple[float, float]:
    """The largest absolute error, and the error's norm over the truth's."""
    difference = out.double() - truth
    whole = difference.norm() / truth.norm()
    return difference.abs().max().item(), whole.item()
