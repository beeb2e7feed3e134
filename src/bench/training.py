"""A transformer block, and a step of its training with marks on the way.

Pre-norm, in plain PyTorch; parameters in fp32 under autocast, and fused AdamW.
Which attention it has is said at each step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from bench.accuracy import DTYPES
from bench.cases import Case

MLP = 4  # times the width

# Each part of a step, by the marks that it lies between.
PARTS = {
    "forward": ("begun", "forward"),
    "backward": ("forward", "backward"),
    "optimiser": ("backward", "updated"),
    "step": ("begun", "updated"),
    "attention-forward": ("attention", "attended"),
    "attention-backward": ("gradient", "returned"),
}

# From q, k and v, (batch, nheads, seqlen, head_dim), to the output.
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
Mark = Callable[[str], None]


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); no biases, no dropout."""

    def __init__(self, nheads: int, head_dim: int) -> None:
        super().__init__()
        width = nheads * head_dim
        self.heads = (3, nheads, head_dim)
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.norm_mlp = nn.LayerNorm(width)
        self.up = nn.Linear(width, MLP * width, bias=False)
        self.down = nn.Linear(MLP * width, width, bias=False)

    def forward(self, x: Tensor, attention: Attention) -> Tensor:
        """x: (batch, seqlen, width)."""
        qkv = self.qkv(self.norm_attention(x)).unflatten(-1, self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # views: nothing is copied
        out = attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.project(out)
        inner = gelu(self.up(self.norm_mlp(x)))
        y: Tensor = x + self.down(inner)
        return y


def watched(attention: Attention, mark: Mark) -> Attention:
    """Marks where it begins and ends, on the way there and on the way back."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mark("attention")
        out = attention(q, k, v)
        mark("attended")
        _when_known(out, partial(mark, "gradient"))
        _when_known(q, partial(mark, "returned"))
        return out

    return call


def _when_known(x: Tensor, call: Callable[[], None]) -> None:
    """Calls when the backward has the gradient of x, at that place in the stream."""
    x.register_hook(lambda gradient: call())  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Training:
    """A block, its optimiser, an input and the gradient of its output."""

    block: Block
    optimiser: torch.optim.Optimizer
    x: Tensor
    do: Tensor
    dtype: torch.dtype  # that autocast computes in

    @classmethod
    def of(cls, case: Case, device: str) -> Self:
        torch.manual_seed(0)
        block = Block(case.nheads, case.head_dim).to(device)
        # At a rate of 0 it does the same work, and the weights stay: all that
        # are compared compute the same, whoever went first.
        optimiser = torch.optim.AdamW(block.parameters(), lr=0.0, fused=True)
        size = (case.batch, case.seqlen_q, case.nheads * case.head_dim)
        x, do = (torch.randn(size, device=device) for _ in range(2))
        return cls(block, optimiser, x, do, DTYPES[case.dtype])

    def differentiate(self, attention: Attention, mark: Mark) -> None:
        self.optimiser.zero_grad()
        mark("begun")
        with torch.autocast(self.x.device.type, self.dtype):
            out = self.block(self.x, watched(attention, mark))
        mark("forward")
        out.backward(self.do)
        mark("backward")

    def step(self, attention: Attention, mark: Mark) -> None:
        self.differentiate(attention, mark)
        self.optimiser.step()
        mark("updated")


def silent(name: str) -> None:
    """A mark that nobody wants."""
