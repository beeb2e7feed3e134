"""What follows from one number a row: weights again, and their gradients.

In fp64, for one query: its keys have a score and a value each, and the gradient
that arrives at its output is a number too.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from bench.claims_walk import (
    SCORES,
    VALUES,
    Claim,
    agree,
    claim,
    log_sum_exp,
    softmax_average,
)
from bench.rows import Value
from flashwalk import forward
from flashwalk.forward import Tile

TOP = 1000.0  # added to every value: no gradient of a score may notice
FACTORS = (0.0, 2.0, 2.0, 0.0)  # of the weights, dropout_p a half: 2 or nothing


class Key(NamedTuple):
    """What a key weighs, and the gradients of its weight and of its score."""

    weight: float
    dp: float
    ds: float


def softmax_backward(
    scores: Sequence[float],
    values: Sequence[float],
    g: float = 1.0,
    delta: float | None = None,
) -> list[Key]:
    """p, dp and ds of each key, by the formula; `delta` for another than g·o."""
    lse = log_sum_exp(scores)
    weights = [math.exp(score - lse) for score in scores]
    if delta is None:
        delta = g * softmax_average(scores, values)
    return [
        Key(p, g * v, p * (g * v - delta)) for p, v in zip(weights, values, strict=True)
    ]


def by_hand() -> Iterator[Claim]:
    """The standing example backwards, with a gradient of 1 at its output."""
    keys = softmax_backward(SCORES, VALUES)
    s = torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)
    (s.softmax(0) @ torch.tensor(VALUES, dtype=torch.float64)).backward()  # type: ignore[no-untyped-call]
    assert s.grad is not None
    row_sum = sum(key.weight * key.dp for key in keys)
    agree(row_sum, softmax_average(SCORES, VALUES), "the row sum of p·dp and g·o")
    agree(sum(key.ds for key in keys), 0.0, "the sum of ds and 0")
    for index, key in enumerate(keys):
        agree(key.ds, s.grad[index].item(), "the formula and autograd")
        found = {"score": SCORES[index], **key._asdict()}
        yield claim("softmax-backward", found, key=index)
    yield claim("row-delta", {"delta": row_sum})


def nudge(step: float = 0.01) -> Iterator[Claim]:
    """One score up by a little: what its ds promises, and what the output does."""
    (*_, ds), key = softmax_backward(SCORES, VALUES)[0], 0
    raised = list(SCORES)
    raised[key] += step
    before = softmax_average(SCORES, VALUES)
    moved = softmax_average(raised, VALUES) - before
    agree(moved / step, ds, "the slope and its ds", 0.02 * abs(ds))
    yield claim("nudge", {"promised": step * ds, "moved": moved}, key=key, raised=step)


def delta_both_ways(
    keys: int = 4096, head_dim: int = 128, seed: int = 0
) -> Iterator[Claim]:
    """p·(V·g) and (p·V)·g: one number, and how many multiplications for it."""
    draw = torch.Generator().manual_seed(seed)
    s, g, v = (
        torch.randn(*shape, generator=draw, dtype=torch.float64)
        for shape in ((keys,), (head_dim,), (keys, head_dim))
    )
    p = s.softmax(0)
    along_the_row, from_the_output = p @ (v @ g), (p @ v) @ g
    agree(along_the_row.item(), from_the_output.item(), "delta in two ways")
    found = {
        "difference": abs((along_the_row - from_the_output).item()),
        "along_the_row": keys * head_dim + keys,
        "from_the_output": head_dim,
    }
    yield claim("delta-two-ways", found, keys=keys, head_dim=head_dim, seed=seed)


def rounded_delta() -> Iterator[Claim]:
    """Values around 1000: dp and delta are large, their difference is not."""
    values = [TOP + value for value in VALUES]
    right = softmax_backward(SCORES, values)
    for key, plain in zip(right, softmax_backward(SCORES, VALUES), strict=True):
        agree(key.ds, plain.ds, "ds, whatever is added to all values", 1e-9)
    delta = softmax_average(SCORES, values)
    short = torch.tensor(delta).bfloat16().item()
    rounded = softmax_backward(SCORES, values, delta=short)
    found = {"delta": delta, "delta_bf16": short, "ds_sum": sum(x.ds for x in rounded)}
    agree(found["ds_sum"], delta - short, "the sum of ds and what delta lost")
    yield claim("delta-rounded", found, added=TOP)
    for index, (good, bad) in enumerate(zip(right, rounded, strict=True)):
        found = {"dp": good.dp, "ds": good.ds, "ds_wrong": bad.ds}
        yield claim("ds-from-rounded-delta", found, key=index, added=TOP)


def rebuilt_weights(
    keys: int = 512, head_dim: int = 64, seed: int = 0
) -> Iterator[Claim]:
    """exp(s - lse), from the kernel's lse, against p / l in fp64, and 16 bits."""
    draw = torch.Generator().manual_seed(seed)
    q = torch.randn(1, 1, 16, head_dim, generator=draw)
    k, v = torch.randn(2, 1, 1, keys, head_dim, generator=draw).unbind(0)
    out, lse = torch.empty_like(q), torch.empty(1, 1, 16)
    scale = head_dim**-0.5
    tile = Tile(block_m=16, block_n=32, num_warps=4, num_stages=1)
    forward.launch(q, k, v, out, lse, causal=False, softmax_scale=scale, tile=tile)
    rebuilt = (q @ k.mT * scale - lse[..., None]).exp().double()
    exact = (q.double() @ k.double().mT * scale).softmax(-1)
    relative = float(((rebuilt - exact) / exact).abs().max())
    if not relative < 1e-5:
        raise ValueError(f"a weight came back off by {relative} of it")
    agree(float(rebuilt.sum(-1)[0, 0, 0]), 1.0, "rebuilt weights and 1", 1e-5)
    half = float(((exact.bfloat16().double() - exact) / exact).abs().max())
    sizes: dict[str, Value] = {"keys": keys, "head_dim": head_dim, "seed": seed}
    yield claim("rebuilt", {"relative": relative, "relative_bf16": half}, **sizes)


def wrong_lse() -> Iterator[Claim]:
    """The standing example's weights from an lse in the wrong base, or without m."""
    lse = log_sum_exp(SCORES)
    top = max(SCORES)
    for name, used in {
        "natural": lse,
        "base 2": lse / math.log(2),
        "log l": lse - top,
    }.items():
        weights = [math.exp(score - used) for score in SCORES]
        found = {"total_weight": sum(weights), "largest_weight": max(weights)}
        yield claim("weights-from", found, statistic=name)


def dropped() -> Iterator[Claim]:
    """Dropout of the two outer keys: delta is still g·o, with the dropped o."""
    keys = softmax_backward(SCORES, VALUES)
    s = torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)
    v = torch.tensor(VALUES, dtype=torch.float64, requires_grad=True)
    out = (s.softmax(0) * torch.tensor(FACTORS, dtype=torch.float64)) @ v
    out.backward()  # type: ignore[no-untyped-call]
    assert s.grad is not None
    assert v.grad is not None
    o = sum(
        p.weight * f * value for p, f, value in zip(keys, FACTORS, VALUES, strict=True)
    )
    agree(o, out.item(), "the output after dropout")
    row_sum = 0.0
    for index, (key, factor) in enumerate(zip(keys, FACTORS, strict=True)):
        dp = key.dp * factor
        ds = key.weight * (dp - o)
        row_sum += key.weight * dp
        agree(ds, s.grad[index].item(), "ds under dropout and autograd")
        agree(key.weight * factor, v.grad[index].item(), "dv under dropout")
        found: dict[str, Value] = {
            "weight": key.weight,
            "factor": factor,
            "dp": dp,
            "ds": ds,
            "dv": key.weight * factor,
        }
        yield claim("dropped", found, key=index)
    agree(row_sum, o, "the row sum of p·dp and g·o, under dropout")
    plain = softmax_average(SCORES, VALUES)
    yield claim("dropped-delta", {"delta": o, "delta_undropped": plain})


def gradient_claims() -> Iterator[Claim]:
    """The claims of this file."""
    yield from by_hand()
    yield from nudge()
    yield from delta_both_ways()
    yield from rounded_delta()
    yield from rebuilt_weights()
    yield from wrong_lse()
    yield from dropped()
