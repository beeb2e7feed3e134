"""Blocks that are averaged, joined and merged, and the factor that is forgotten.

The kernel answers in the interpreter: TRITON_INTERPRET must be set before Triton
is imported.
"""

import functools
import math
import random
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from bench.claims_causal import rows_in_tiles
from bench.claims_end import merge
from bench.claims_kernel import FP32, Edit, Row, kernel_with
from bench.claims_pitfalls import FAULTS
from bench.claims_traffic import whole
from bench.claims_walk import SCORES, VALUES, Claim, agree, claim, softmax_average, walk
from flashwalk import forward
from flashwalk.forward import Tile

# The text's own four scores: each block is settled, the blocks are far apart.
SEED_SCORES, SEED_VALUES = (0.0, 0.0, 10.0, 10.0), (0.0, 0.0, 1.0, 1.0)

_TOO_EARLY: Edit = ("alpha = tl.exp(m_i - m_safe)", "alpha = tl.exp(m_new - m_safe)")


class Part(NamedTuple):
    """A finished block: its answer, and three candidates for its weight."""

    out: float
    lse: float
    maximum: float
    keys: int


def blocks_alone() -> Iterator[Claim]:
    """The seed's four scores: each block by itself, the mean, the whole row.

    The kernel does all of it, once for each block and once for the row.
    """
    parts = parts_of(SEED_SCORES, SEED_VALUES, (2, 2))
    right = softmax_average(SEED_SCORES, SEED_VALUES)
    (row,) = _rows(SEED_SCORES, SEED_VALUES)
    agree(row.out, right, "the kernel and softmax over the whole row", FP32)
    agree(right, 1 / (1 + math.exp(-10)), "the row and 2e¹⁰ / (2 + 2e¹⁰)")
    for block, part in enumerate(parts, 1):
        scores = SEED_SCORES[2 * block - 2 : 2 * block]
        total = math.fsum(math.exp(score) for score in scores)
        agree(part.lse, math.log(total), "a block's lse and its total", FP32)
        found = {"answer": whole(part.out), "total_exp": whole(total)}
        yield claim("block-alone", found, block=block)
    mean = sum(part.out for part in parts) / len(parts)
    yield claim("blocks-averaged", {"mean": mean, "whole_row": right})
    weights = [math.exp(part.lse) for part in parts]
    shares = [weight / sum(weights) for weight in weights]
    answer = sum(s * part.out for s, part in zip(shares, parts, strict=True))
    agree(answer, right, "the shares and the whole row", FP32)
    found = {"first_share": shares[0], "second_share": shares[1], "answer": answer}
    yield claim("block-shares", found)


def parts_of(
    scores: Sequence[float], values: Sequence[float], lengths: Sequence[int]
) -> list[Part]:
    """Each piece of the row through the kernel alone."""
    parts, start = [], 0
    for length in lengths:
        here = slice(start, start + length)
        (row,) = _rows(scores[here], values[here])
        parts.append(Part(row.out, row.lse, max(scores[here]), length))
        start += length
    return parts


def _rows(
    scores: Sequence[float], values: Sequence[float], module: ModuleType = forward
) -> list[Row]:
    tile = Tile(block_m=1, block_n=2, num_warps=1, num_stages=1)
    return rows_in_tiles(module, scores, values, seqlen_q=1, causal=False, tile=tile)


def weighted_parts() -> Iterator[Claim]:
    """Four ways to weigh the blocks of the standing example, cut in two ways."""
    right = softmax_average(SCORES, VALUES)
    for lengths in ((2, 2), (1, 3)):
        parts = parts_of(SCORES, VALUES, lengths)
        ways = {
            "alike": [0.0] * len(parts),
            "keys": [math.log(part.keys) for part in parts],
            "maximum": [part.maximum for part in parts],
            "lse": [part.lse for part in parts],
        }
        outs = [part.out for part in parts]
        agree(merge(outs, ways["lse"]), right, "weighed by exp(lse), the row", FP32)
        for way, statistics in ways.items():
            found = {
                "first_half": outs[0],
                "second_half": outs[1],
                "out": merge(outs, statistics),
                "right": right,
            }
            cut = " | ".join(str(part.keys) for part in parts)
            yield claim("weighted-blocks", found, weighed_by=way, pieces=cut)


def averaged_at_random(rows: int = 200, seed: int = 0) -> Iterator[Claim]:
    """By how much the mean of 8 blocks of 64 random keys misses, in percent.

    Of the root mean square of the right answers, over rows whose scores are
    normal with the spread given.
    """
    draw = np.random.default_rng(seed)
    for spread in (0.1, 1.0, 3.0):
        s = draw.standard_normal((rows, 8, 64)) * spread
        v = draw.standard_normal((rows, 8, 64))
        weights = np.exp(s - s.max((1, 2), keepdims=True))
        right = (weights * v).sum((1, 2)) / weights.sum((1, 2))
        averaged = ((weights * v).sum(2) / weights.sum(2)).mean(1)
        missed = np.sqrt(np.square(averaged - right).mean() / np.square(right).mean())
        found = {"missed": 100 * float(missed)}
        sizes = {"rows": rows, "seed": seed, "score_spread": spread}
        yield claim("averaged-at-random", found, **sizes)


def gaps() -> Iterator[Claim]:
    """The second block's share, by how far its lse is above the first's."""
    for gap in (0, 1, 2, 5, 10):
        yield claim("lse-gap", {"second_share": 1 / (1 + math.exp(-gap))}, gap=gap)


class Sums(NamedTuple):
    """Three numbers of a row: maximum, denominator, numerator.

    Those of NumPy may be fp32, and stay so when two states are joined.
    """

    m: float
    l: float  # noqa: E741
    a: float


EMPTY = Sums(-math.inf, 0.0, 0.0)


def joined(one: Sums, two: Sums) -> Sums:
    """The state of all keys that either state has seen."""
    m = max(one.m, two.m)
    if m == -math.inf:  # neither has seen a key; -inf - (-inf) is NaN
        return EMPTY
    alpha, beta = np.exp(one.m - m), np.exp(two.m - m)
    return Sums(m, alpha * one.l + beta * two.l, alpha * one.a + beta * two.a)


def merged_states() -> Iterator[Claim]:
    """The standing example's two blocks, met from their own states."""
    first, second = (_state(at, at + 2) for at in (0, 2))
    both = joined(first, second)
    last = walk(SCORES, VALUES)[-1]
    for mine, theirs in zip(both, (last.m_new, last.l_i, last.acc), strict=True):
        agree(mine, theirs, "two states that meet and the walk")
    agree(joined(second, first).a, both.a, "the merge and its mirror image")
    agree(joined(EMPTY, first).a, first.a, "the merge with nothing")
    for name, state in {"first": first, "second": second, "both": both}.items():
        numbers = {
            "m_new": state.m,
            "l_i": state.l,
            "acc": state.a,
            "out": state.a / state.l,
            "factor": math.exp(state.m - both.m),
        }
        found = {column: float(number) for column, number in numbers.items()}
        yield claim("met-states", found, state=name)


def _state(start: int, stop: int) -> Sums:
    last = walk(SCORES[start:stop], VALUES[start:stop])[-1]
    return Sums(last.m_new, last.l_i, last.acc)


def orders(keys: int = 4096, block: int = 64, seed: int = 0) -> Iterator[Claim]:
    """Blocks joined in three orders, all in fp32: equal but for the last bits."""
    draw = np.random.default_rng(seed)
    s = draw.standard_normal(keys) * 3
    v = draw.standard_normal(keys)
    weights = np.exp(s - s.max())
    exact = float(weights @ v / weights.sum())
    pieces = (slice(i, i + block) for i in range(0, keys, block))
    states = [_fp32_state(s[here], v[here]) for here in pieces]
    found = {
        "left-to-right": functools.reduce(joined, states),
        "right-to-left": functools.reduce(joined, states[::-1]),
        "tree": _tree(states),
    }
    outs = {order: float(sums.a / sums.l) for order, sums in found.items()}
    for order, out in outs.items():
        agree(out, exact, f"{order} and the whole row", FP32)
        values = {
            "error": abs(out - exact),
            "difference": abs(out - outs["left-to-right"]),
        }
        sizes = {"keys": keys, "block_n": block, "seed": seed}
        yield claim("merge-order", values, merge_order=order, **sizes)


def _fp32_state(s: np.ndarray, v: np.ndarray) -> Sums:
    s, v = s.astype(np.float32), v.astype(np.float32)
    p = np.exp(s - s.max())
    return Sums(s.max(), p.sum(), (p * v).sum())


def _tree(states: Sequence[Sums]) -> Sums:
    while len(states) > 1:
        pairs = zip(states[::2], states[1::2], strict=True)
        states = [joined(one, two) for one, two in pairs]
    return states[0]


ALPHA_FAULTS: dict[str, Edit] = {
    "alpha-forgotten-on-acc": FAULTS["alpha-forgotten-on-acc"],
    "alpha-forgotten-on-l": FAULTS["alpha-forgotten-on-l"],
    "maximum-moved-early": _TOO_EARLY,
}


def who_would_notice() -> Iterator[Claim]:
    """Three broken kernels on three rows; each is right on one of them at least.

    The third row is the standing example with its blocks in the other order.
    """
    rows: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "answer_seed": (SEED_SCORES, SEED_VALUES),
        "answer_rising": (SCORES, VALUES),
        "answer_falling": ((*SCORES[2:], *SCORES[:2]), (*VALUES[2:], *VALUES[:2])),
    }
    right = {name: softmax_average(*row) for name, row in rows.items()}
    yield claim("alpha-faults", {**right}, fault="none")
    for fault, edit in ALPHA_FAULTS.items():
        broken = kernel_with(edit)
        found = {name: _rows(*row, broken)[0].out for name, row in rows.items()}
        if all(math.isclose(found[x], right[x], rel_tol=FP32) for x in rows):
            raise ValueError(f"{fault}: none of the rows notices it")
        yield claim("alpha-faults", found, fault=fault)


def first_blocks(rows: int = 2000, seed: int = 0) -> Iterator[Claim]:
    """Random rows whose largest score lies in their first block, in percent.

    In these every alpha after the first is 1, so that a kernel without it errs
    in none of them; checked on each.
    """
    draw = random.Random(seed)
    for blocks in (1, 2, 4, 16):
        untouched = 0
        for _ in range(rows):
            scores = [draw.gauss(0.0, 1.0) for _ in range(blocks * 8)]
            values = [draw.gauss(0.0, 1.0) for _ in range(blocks * 8)]
            first = max(scores[:8]) == max(scores)
            out = walk(scores, values, 8, "alpha-forgotten")[-1].out
            right = abs(out - softmax_average(scores, values)) < 1e-9
            if right != first:
                raise ValueError("an alpha was forgotten, and its row cannot tell")
            untouched += first
        found = {"untouched": 100 * untouched / rows}
        yield claim("first-block", found, key_blocks=blocks, rows=rows, seed=seed)


def block_claims() -> Iterator[Claim]:
    """The claims of this file."""
    yield from blocks_alone()
    yield from weighted_parts()
    yield from averaged_at_random()
    yield from gaps()
    yield from merged_states()
    yield from orders()
    yield from who_would_notice()
    yield from first_blocks()
