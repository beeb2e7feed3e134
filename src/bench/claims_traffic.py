"""Bytes and FLOPs of attention, with and without the matrix of scores.

Counted for the sizes of the text that the book began with, whose elements have
two bytes and which has no mask. What a GPU really moves is measured elsewhere,
by the job traffic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

import torch

from bench.cases import SEEDS, Case
from bench.claims_compiled import LIMIT_KIB
from bench.claims_walk import (
    BLOCK_N,
    SCORES,
    VALUES,
    Claim,
    agree,
    claim,
    softmax_average,
)
from bench.rows import Columns, Value
from flashwalk.forward import tile_for

SIZE = SEEDS[64]
ELEMENT, SCORE = 2, 4  # bytes: an element in memory; a score on the chip
KIB, MIB, GIB = 2**10, 2**20, 2**30

# What NVIDIA's data sheet says of an H200: fp16 without sparsity, and its memory.
PEAK_TFLOPS, BANDWIDTH_TBS = 989, 4.8


def sizes(case: Case) -> Mapping[str, Value]:
    """The columns that name a case; queries and keys are as many as each other."""
    names = ("batch", "nheads", "seqlen_q", "head_dim", "dtype")
    return {name: asdict(case)[name] for name in names}


def tensor_bytes(case: Case) -> int:
    """One of Q, K, V and O."""
    return case.batch * case.nheads * case.seqlen_q * case.head_dim * ELEMENT


def matrix_bytes(case: Case) -> int:
    """All scores, or all weights, in 16 bits."""
    return case.batch * case.nheads * case.seqlen_q * case.seqlen_k * ELEMENT


def whole(number: float) -> Value:
    """An integer where the number is one: 32 MiB, not 32.0."""
    return int(number) if number == int(number) else number


def at_length(seqlen: int) -> Case:
    return replace(SIZE, seqlen_q=seqlen, seqlen_k=seqlen)


def score_traffic() -> Iterator[Claim]:
    """S and P, each written once and read once, beside Q, K, V and O."""
    for seqlen in (4096, 8192):
        case = at_length(seqlen)
        matrix, ends = matrix_bytes(case), 4 * tensor_bytes(case)
        times = 4 * matrix / ends
        agree(times, case.seqlen_q / case.head_dim, "the bytes and their formula, S/D")
        found = {
            "tensor_mib": whole(tensor_bytes(case) / MIB),
            "ends_mib": whole(ends / MIB),
            "matrix_gib": whole(matrix / GIB),
            "one_way_gib": whole(2 * matrix / GIB),
            "both_ways_gib": whole(4 * matrix / GIB),
            "times": whole(times),
        }
        yield claim("score-traffic", found, **sizes(case))


def naive_steps() -> Iterator[Claim]:
    """What each of the three steps reads and writes, and the three together."""
    tensor, matrix = tensor_bytes(SIZE) / MIB, matrix_bytes(SIZE) / MIB
    steps = {
        "scores": (2 * tensor, matrix),
        "softmax": (matrix, matrix),
        "output": (matrix + tensor, tensor),
    }
    total = tuple(map(sum, zip(*steps.values(), strict=True)))
    both = (4 * matrix_bytes(SIZE) + 4 * tensor_bytes(SIZE)) / MIB
    agree(sum(total), both, "the steps and the sum of all tensors")
    for step, (read, written) in (steps | {"together": total}).items():
        found: Columns = {"step_reads": whole(read), "step_writes": whole(written)}
        yield claim("naive-step", found, step=step, **sizes(SIZE))


def scaling() -> Iterator[Claim]:
    """`q @ k.T * scale` in PyTorch: one kernel more, which reads and writes S."""
    found = {"scaling_gib": whole(2 * matrix_bytes(SIZE) / GIB)}
    yield claim("scaling-traffic", found, **sizes(SIZE))


def issued_loads() -> Iterator[Claim]:
    """What the programs ask for: K and V whole, once for each block of queries."""
    ours = tile_for(SIZE.head_dim, torch.float16).block_m
    for seqlen in (4096, 8192):
        for block_m in (64, ours):
            case = at_length(seqlen)
            times = -(-case.seqlen_q // block_m)
            found = {
                "times_read": times,
                "head_mib": whole(2 * seqlen * case.head_dim * ELEMENT / MIB),
                "once_mib": whole(2 * tensor_bytes(case) / MIB),
                "issued_gib": whole(times * 2 * tensor_bytes(case) / GIB),
            }
            yield claim("issued-loads", found, block_m=block_m, **sizes(case))


def arithmetic() -> Iterator[Claim]:
    """Two matrix products, and what the online softmax adds to them."""
    tile = tile_for(SIZE.head_dim, torch.float16)
    scores = SIZE.batch * SIZE.nheads * SIZE.seqlen_q * SIZE.seqlen_k
    products = 2 * (2 * scores * SIZE.head_dim)
    agree(products, SIZE.flops, "the two products and the benchmark's count")
    # acc = acc * alpha: a multiplication an element, once a block of keys.
    rescaling = scores // tile.block_n * SIZE.head_dim
    found = {
        "gflop": products / 1e9,
        "exponentials_g": scores / 1e9,
        "rescaling": 100 * rescaling / products,
    }
    yield claim("arithmetic", found, block_n=tile.block_n, **sizes(SIZE))


def intensity() -> Iterator[Claim]:
    """FLOPs for each byte, of four ways to count; and what the chip asks for."""
    ends, matrix = 4 * tensor_bytes(SIZE), matrix_bytes(SIZE)
    block_m = tile_for(SIZE.head_dim, torch.float16).block_m
    kv = 2 * tensor_bytes(SIZE)
    passes = -(-SIZE.seqlen_q // block_m)
    one_query = replace(SIZE, seqlen_q=1)
    ways = {
        "three-steps": SIZE.flops / (4 * matrix + ends),
        "one-pass": SIZE.flops / ends,
        "issued": SIZE.flops / (passes * kv),
        "decode": one_query.flops / (2 * tensor_bytes(one_query) + kv),
    }
    agree(ways["one-pass"], SIZE.seqlen_q / 2, "FLOPs a byte and S/2")
    agree(ways["issued"], block_m, "FLOPs a byte of K and V and BLOCK_M")
    for counted, flops in ways.items():
        found = {"flop_per_byte": whole(flops)}
        yield claim("intensity", found, counted=counted, **sizes(SIZE))
    peak: Columns = {"flop_per_byte": PEAK_TFLOPS / BANDWIDTH_TBS}
    given = {"peak_tflops": PEAK_TFLOPS, "bandwidth_tbs": BANDWIDTH_TBS}
    yield claim("ridge", peak, **given)


def least_times() -> Iterator[Claim]:
    """How long the arithmetic takes at its peak, and the bytes at theirs."""
    naive = 4 * matrix_bytes(SIZE) + 4 * tensor_bytes(SIZE)
    times = {
        "arithmetic": SIZE.flops / (PEAK_TFLOPS * 1e12),
        "three-steps": naive / (BANDWIDTH_TBS * 1e12),
        "one-pass": 4 * tensor_bytes(SIZE) / (BANDWIDTH_TBS * 1e12),
    }
    for counted, seconds in times.items():
        found = {"least_ms": seconds * 1e3}
        given = {"peak_tflops": PEAK_TFLOPS, "bandwidth_tbs": BANDWIDTH_TBS}
        yield claim("least-time", found, counted=counted, **given, **sizes(SIZE))


def row_on_chip(block_m: int = 16) -> Iterator[Claim]:
    """Fused, but without an online softmax: a program holds whole rows of scores."""
    found = {
        "rows_kib": whole(block_m * SIZE.seqlen_k * SCORE / KIB),
        "limit_kib": LIMIT_KIB,
        "longest": LIMIT_KIB * KIB // (block_m * SCORE),
    }
    yield claim("row-on-chip", found, block_m=block_m, seqlen_k=SIZE.seqlen_k)


def averaged_blocks() -> Iterator[Claim]:
    """Each block's own softmax, then their mean: each block weighs the same."""
    outs = [
        softmax_average(SCORES[at : at + BLOCK_N], VALUES[at : at + BLOCK_N])
        for at in range(0, len(SCORES), BLOCK_N)
    ]
    found = {
        "out": sum(outs) / len(outs),
        "right": softmax_average(SCORES, VALUES),
    }
    yield claim("averaged-blocks", found, block_n=BLOCK_N)


def traffic_claims() -> Iterator[Claim]:
    yield from score_traffic()
    yield from naive_steps()
    yield from scaling()
    yield from issued_loads()
    yield from arithmetic()
    yield from intensity()
    yield from least_times()
    yield from row_on_chip()
    yield from averaged_blocks()
