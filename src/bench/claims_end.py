"""The chapter on the end and the host: lse, merging, scale, head dims, work."""

import math
from collections.abc import Iterator, Sequence

import torch

from bench.cases import SEEDS
from bench.claims_causal import rows_in_tiles
from bench.claims_kernel import FP32
from bench.claims_walk import (
    BLOCK_N,
    SCORES,
    VALUES,
    Claim,
    agree,
    claim,
    softmax_average,
)
from bench.rows import Value
from flashwalk import attention, forward
from flashwalk.arguments import resolve_scale
from flashwalk.forward import Tile

MIB = 2**20
HEAD_DIMS = (64, 80, 96, 128, 160, 192, 256)
_ONE_BLOCK = Tile(block_m=1, block_n=2, num_warps=1, num_stages=1)


def weights_from_lse() -> Iterator[Claim]:
    """The weights of the standing example, from one number a row."""
    (row,) = rows_in_tiles(
        forward, SCORES, VALUES, seqlen_q=1, causal=False, tile=_ONE_BLOCK
    )
    weights = [math.exp(score - row.lse) for score in SCORES]
    agree(sum(weights), 1.0, "the sum of all weights and 1", FP32)
    out = sum(w * v for w, v in zip(weights, VALUES, strict=True))
    agree(out, row.out, "the values weighed anew and the output", FP32)
    for key, (score, weight) in enumerate(zip(SCORES, weights, strict=True)):
        found = {"score": score, "weight": weight}
        yield claim("weights", found, key=key)


def merge(outs: Sequence[float], statistics: Sequence[float]) -> float:
    """Two finished halves into one, each with the weight exp(its statistic)."""
    top = max(statistics)
    weights = [math.exp(x - top) for x in statistics]
    return sum(o * w for o, w in zip(outs, weights, strict=True)) / sum(weights)


def merged_halves() -> Iterator[Claim]:
    """Each half of the keys through the kernel alone, then joined by its lse.

    Wrong are: an lse in base 2 under exp, and log l, which has lost its maximum.
    """
    halves = [
        (SCORES[:BLOCK_N], VALUES[:BLOCK_N]),
        (SCORES[BLOCK_N:], VALUES[BLOCK_N:]),
    ]
    rows = [
        rows_in_tiles(forward, s, v, seqlen_q=1, causal=False, tile=_ONE_BLOCK)[0]
        for s, v in halves
    ]
    right = softmax_average(SCORES, VALUES)
    outs = [row.out for row in rows]
    statistics = {
        "natural": [row.lse for row in rows],
        "base 2": [row.lse / math.log(2) for row in rows],
        "log l": [row.lse - max(s) for row, (s, _) in zip(rows, halves, strict=True)],
        "none": [0.0, 0.0],
    }
    agree(merge(outs, statistics["natural"]), right, "the halves and the whole", FP32)
    for name, pair in statistics.items():
        found = {
            "first_half": pair[0],
            "second_half": pair[1],
            "out": merge(outs, pair),
            "right": right,
        }
        yield claim("merge", found, statistic=name)
    yield claim("halves", {"first_half": outs[0], "second_half": outs[1]})


def scale_of_zero() -> Iterator[Claim]:
    """A softmax_scale of 0 is a scale: every key counts alike."""
    q = torch.ones(1, 1, 1, 1)
    k, v = (torch.tensor(x).view(1, 1, -1, 1) for x in (SCORES, VALUES))
    out = attention(q, k, v, softmax_scale=0.0).item()
    agree(out, sum(VALUES) / len(VALUES), "a scale of 0 and the mean", FP32)
    defaulted = attention(q, k, v, softmax_scale=0.0 or None).item()
    found = {"out": out, "out_defaulted": defaulted}
    yield claim("scale-zero", found, softmax_scale=0)


def padded_head_dims() -> Iterator[Claim]:
    """What a head dim is padded to, and how much more the products then do."""
    for head_dim in HEAD_DIMS:
        padded = max(16, 1 << (head_dim - 1).bit_length())
        found = {
            "padded_dim": padded,
            "extra": 100 * (padded / head_dim - 1),
            "scale_true": resolve_scale(None, head_dim),
            "scale_padded": padded**-0.5,
        }
        yield claim("padded", found, head_dim=head_dim)


def work() -> Iterator[Claim]:
    """FLOPs and bytes of the seed's problem, by the formula that all count with."""
    case = SEEDS[64]
    pairs = case.batch * case.nheads * case.seqlen_q * case.seqlen_k
    visible = (case.seqlen_q + 1) / (2 * case.seqlen_q)
    rows = case.batch * case.nheads * case.seqlen_q
    agree(case.flops, 4 * pairs * case.head_dim, "the benchmark's FLOPs and ours")
    half = torch.finfo(torch.float16).bits // 8
    found = {
        "tflop": case.flops / 1e12,
        "tflop_causal": case.flops / 2e12,
        "visible_pairs": 100 * visible,
        "out_mib": rows * case.head_dim * half / MIB,
        "lse_mib": rows * torch.finfo(torch.float32).bits // 8 / MIB,
        "weights_mib": pairs * half / MIB,
        "grid": rows // forward.tile_for(64, torch.float16).block_m,
    }
    sizes: dict[str, Value] = {
        "batch": case.batch,
        "nheads": case.nheads,
        "seqlen_q": case.seqlen_q,
        "seqlen_k": case.seqlen_k,
        "head_dim": case.head_dim,
        "dtype": case.dtype,
    }
    yield claim("work", found, **sizes)


def end_claims() -> Iterator[Claim]:
    """The claims of this file."""
    yield from weights_from_lse()
    yield from merged_halves()
    yield from scale_of_zero()
    yield from padded_head_dims()
    yield from work()
