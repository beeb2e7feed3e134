"""Are the gradients right? The truth in fp64, and the budget of each error."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import torch
from torch import Tensor

from bench.accuracy import (
    Inputs,
    Judge,
    WrongAnswer,
    by_groups,
    causal_mask,
    naive_attention,
)
from bench.cases import Case
from flashwalk import attention_ref


class Gradients(NamedTuple):
    """One for each of the inputs, in its shape."""

    dq: Tensor
    dk: Tensor
    dv: Tensor


def make_do(inputs: Inputs) -> Tensor:
    """The gradient of the output: normal random numbers, the same in every run."""
    q = inputs.q
    random = torch.Generator(q.device).manual_seed(1)
    return torch.randn(q.shape, generator=random, device=q.device, dtype=q.dtype)


def leaves_of(inputs: Inputs) -> Inputs:
    """The same memory, with gradients wanted."""
    return Inputs(*(x.detach().requires_grad_() for x in inputs))


def differentiated(
    attention: Callable[[Inputs], Tensor], inputs: Inputs, do: Tensor
) -> Gradients:
    """The gradients by PyTorch's autograd."""
    leaves = leaves_of(inputs)
    return Gradients(*torch.autograd.grad(attention(leaves), leaves, do))


@dataclass(frozen=True)
class GradientJudge:
    """The truth of one case: each gradient has a budget, and none may exceed it."""

    judges: tuple[Judge, ...]

    @classmethod
    def of(cls, case: Case, inputs: Inputs, do: Tensor) -> Self:
        """The budgets are those that the gradients of `naive_attention` set.

        Both are computed by groups of heads: what autograd keeps of one head of
        16,384 tokens takes several times 2 GiB in fp64.
        """
        truth = Gradients(*(torch.empty_like(x, dtype=torch.float64) for x in inputs))
        naive = Gradients(*(torch.empty_like(x) for x in inputs))
        hidden = causal_mask(case, str(inputs.q.device))
        textbook = partial(
            naive_attention, softmax_scale=case.softmax_scale, hidden=hidden
        )
        for group in by_groups(inputs):
            part = do[group.queries]
            exact = Inputs(*(x.double() for x in group.inputs))
            places = (group.queries, group.keys, group.keys)
            for whole, found in (
                (
                    truth,
                    differentiated(partial(_reference, case), exact, part.double()),
                ),
                (naive, differentiated(textbook, group.inputs, part)),
            ):
                for x, place, gradient in zip(whole, places, found, strict=True):
                    x[place] = gradient
        return cls(tuple(map(Judge.between, truth, naive)))

    @property
    def budget(self) -> float:
        """The largest of the three."""
        return max(judge.budget for judge in self.judges)

    def poison(self) -> None:
        """Fills and frees as much memory as three gradients take."""
        _ = [judge.poisoned() for judge in self.judges]

    def error(self, gradients: Gradients) -> float:
        """The largest of all three; raises `WrongAnswer` where one is beyond its
        own budget."""
        errors = []
        for name, judge, x in zip(
            Gradients._fields, self.judges, gradients, strict=True
        ):
            try:
                errors.append(judge.error(x))
            except WrongAnswer as error:
                raise WrongAnswer(f"{name}: {error}") from None
        return max(errors)


def _reference(case: Case, inputs: Inputs) -> Tensor:
    out, _ = attention_ref(
        *inputs, causal=case.causal, softmax_scale=case.softmax_scale
    )
    return out
