"""What the real kernel answers in Triton's interpreter, whole and broken.

A broken kernel is the text of forward.py with one line changed, so that the
page's wrong outputs come from the mistake itself. TRITON_INTERPRET must be set
before Triton is imported.
"""

import itertools
import linecache
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch

from bench.claims_walk import (
    BLOCK_N,
    SCORES,
    VALUES,
    Claim,
    agree,
    claim,
    softmax_average,
    walk,
)
from flashwalk import forward
from flashwalk.forward import Tile

Edit = tuple[str, str]

# fp32 against fp64: a few roundings of numbers up to 40.
FP32 = 1e-6

FINITE_MASK = -1e6

_count = itertools.count()

EDITS: dict[str, Edit] = {
    "alpha-forgotten": ("        acc = acc * alpha[:, None]\n", ""),
    "old-maximum": (
        "p = tl.exp(s - m_safe[:, None])",
        'p = tl.exp(s - tl.where(m_i == float("-inf"), 0.0, m_i)[:, None])',
    ),
    "tail-counted": ("visible = in_keys[None, :]", "visible = (cols >= 0)[None, :]"),
    "finite-mask": (
        's = tl.where(visible, s, float("-inf"))',
        f"s = tl.where(visible, s, {FINITE_MASK})",
    ),
}


class Row(NamedTuple):
    """What the kernel wrote for one query."""

    out: float
    lse: float


def kernel_with(*edits: Edit) -> ModuleType:
    """The module forward.py with each edit made; the text must occur once."""
    return edited(forward, edits)


def edited(module: ModuleType, edits: Iterable[Edit]) -> ModuleType:
    """A copy of a kernel's module with each edit made; the text must occur once."""
    path = Path(str(module.__file__))
    text = path.read_text(encoding="utf-8")
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{old.strip()!r}: {text.count(old)} of them, not one")
        text = text.replace(old, new)
    # Triton reads the source of what it runs: linecache stands for the file.
    name = f"{path.stem}_variant_{next(_count)}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    variant = ModuleType(name.removesuffix(".py"))
    exec(compile(text, name, "exec"), variant.__dict__)
    return variant


def rows_of(
    module: ModuleType,
    scores: Sequence[float],
    values: Sequence[float],
    *,
    block_n: int = BLOCK_N,
    seqlen_q: int = 1,
    causal: bool = False,
) -> list[Row]:
    """Runs the kernel with q = 1, keys = the scores, a scale of 1, in fp32."""
    q = torch.ones(1, 1, seqlen_q, 1)
    k, v = (torch.tensor(x).view(1, 1, -1, 1) for x in (scores, values))
    out = torch.full_like(q, math.nan)
    lse = torch.full((1, 1, seqlen_q), math.nan)
    block_m = 1 << (seqlen_q - 1).bit_length()
    tile = Tile(block_m, block_n, num_warps=1, num_stages=1)
    with np.errstate(divide="ignore"):  # the log of a row that saw no key
        module.launch(q, k, v, out, lse, causal=causal, softmax_scale=1.0, tile=tile)
    pairs = zip(out.flatten().tolist(), lse.flatten().tolist(), strict=True)
    return [Row(*pair) for pair in pairs]


def kernel_agrees() -> Iterator[Claim]:
    """The worked example through the real kernel, in two blocks of two keys."""
    (row,) = rows_of(forward, SCORES, VALUES)
    last = walk(SCORES, VALUES)[-1]
    agree(row.out, last.out, "the kernel and the walk", FP32)
    agree(row.lse, last.m_new + math.log(last.l_i), "their log-sum-exps", FP32)
    found = {"out": row.out, "lse": row.lse}
    yield claim("kernel-result", found, dtype="fp32")


def broken_updates() -> Iterator[Claim]:
    """Two mistakes in the update, with the maximum rising and falling."""
    orders = {"rising": (SCORES, VALUES), "falling": (_swap(SCORES), _swap(VALUES))}
    for fault in ("alpha-forgotten", "old-maximum"):
        broken = kernel_with(EDITS[fault])
        for order, (scores, values) in orders.items():
            (row,) = rows_of(broken, scores, values)
            agree(row.out, walk(scores, values, fault=fault)[-1].out, fault, FP32)
            found = {"out": row.out, "right": softmax_average(scores, values)}
            yield claim("fault", found, fault=fault, maximum=order)


def tail_counted() -> Iterator[Claim]:
    """All keys zero, all values one: the right answer is 1 whatever the length."""
    keys, block_n = 100, 64
    padded = -keys % block_n
    zeros, ones = [0.0] * keys, [1.0] * keys
    (good,) = rows_of(forward, zeros, ones, block_n=block_n)
    agree(good.out, 1.0, "the kernel and an average of ones", FP32)
    (row,) = rows_of(kernel_with(EDITS["tail-counted"]), zeros, ones, block_n=block_n)
    agree(row.out, keys / (keys + padded), "the leak and its formula", FP32)
    found = {"out": row.out, "right": good.out}
    yield claim("tail-exact", found, keys=keys, padded=padded)


def empty_row() -> Iterator[Claim]:
    """Five queries on four keys, causal: the first query sees no key.

    The kernel answers 0 and an lse of −inf. With a large negative number for
    −inf the answer is an average of values that the row must not see; padded
    keys, whose values were loaded as 0, take part in it.
    """
    first = rows_of(forward, SCORES, VALUES, seqlen_q=5, causal=True)[0]
    agree(first.out, 0.0, "an empty row and 0", 0.0)
    if first.lse != -math.inf:
        raise ValueError(f"the lse of an empty row is −inf, got {first.lse}")
    broken = kernel_with(EDITS["finite-mask"])
    for block_n in (2, 16):
        row = rows_of(broken, SCORES, VALUES, block_n=block_n, seqlen_q=5, causal=True)[
            0
        ]
        counted = math.ceil(len(VALUES) / block_n) * block_n
        agree(row.out, sum(VALUES) / counted, "the average of forbidden values", FP32)
        found = {"out": row.out, "right": first.out}
        yield claim("empty-row", found, masked=FINITE_MASK, block_n=block_n)


def _swap(numbers: Sequence[float]) -> tuple[float, ...]:
    """The same blocks in the other order: the largest score comes first."""
    return (*numbers[BLOCK_N:], *numbers[:BLOCK_N])
