"""What chapter 5 of the backward derives: products, owners, bounds, sums.

Everything is counted or computed in plain Python and NumPy; where two ways lead
to a number, both are gone and must agree.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bench.claims_backward import SIZE
from bench.claims_backward_gradients import softmax_backward
from bench.claims_traffic import ELEMENT, GIB, MIB, whole
from bench.claims_walk import (
    BLOCK_N,
    SCORES,
    VALUES,
    Claim,
    agree,
    claim,
    softmax_average,
)
from bench.rows import Columns

# Which products a way of computing the gradients needs. S and dP stand once for
# each pass that recomputes them.
WAYS = {
    "stored": ("dP", "dV", "dK", "dQ"),
    "fused": ("S", "dP", "dV", "dK", "dQ"),
    "two-passes": ("S", "dP", "dV", "dK", "S", "dP", "dQ"),
}
COUNTED = 5  # the products that everyone's TFLOP/s of a backward are counted with

NHEADS, SEQLEN, HEAD_DIM = SIZE.nheads, SIZE.seqlen_k, SIZE.head_dim  # one batch
SUM = 4  # bytes of a sum, in fp32


# --- One row by hand ---


def by_owner() -> Iterator[Claim]:
    """What each block of keys can finish, and the part of dq that it can only add."""
    row = softmax_backward(SCORES, VALUES)
    p, ds = [key.weight for key in row], [key.ds for key in row]
    parts = []
    for block, at in enumerate(range(0, len(SCORES), BLOCK_N), 1):
        keys = SCORES[at : at + BLOCK_N]
        part = sum(g * k for g, k in zip(ds[at : at + BLOCK_N], keys, strict=True))
        parts.append(part)
        found = {
            "dv_first": p[at],
            "dv_second": p[at + 1],
            "dk_first": ds[at],
            "dk_second": ds[at + 1],
            "dq_part": part,
        }
        names = ", ".join(f"{k:g}" for k in keys)
        yield claim("by-owner", found, block=block, scores=names)
    agree(sum(ds), 0.0, "the gradients of a row's scores and their sum, 0")
    dq = sum(parts)
    agree(dq, slope(lambda q: _out(q, SCORES), 1.0), "dq and a difference", 1e-8)
    for j, gradient in enumerate(ds):
        agree(gradient, _slope_of_key(j), f"dk of key {j} and a difference", 1e-8)
    yield claim(
        "by-owner-sum", {"dq_sum": dq, "delta_row": softmax_average(SCORES, VALUES)}
    )


def slope(function: Callable[[float], float], at: float, step: float = 1e-5) -> float:
    """A central difference."""
    return (function(at + step) - function(at - step)) / (2 * step)


def _slope_of_key(j: int) -> float:
    return slope(lambda key: _out(1.0, _with(SCORES, j, key)), SCORES[j])


def _out(q: float, keys: tuple[float, ...]) -> float:
    return softmax_average([q * k for k in keys], VALUES)


def _with(keys: tuple[float, ...], j: int, key: float) -> tuple[float, ...]:
    return (*keys[:j], key, *keys[j + 1 :])


# --- Products ---


def products() -> Iterator[Claim]:
    """Products of each way, and its true rate where the printed one is 100."""
    for way, names in WAYS.items():
        found: Columns = {
            "product_count": len(names),
            "of_counted": len(names) / COUNTED,
            "product_names": ", ".join(names),
        }
        yield claim("backward-products", found, design=way)


def dq_sums() -> Iterator[Claim]:
    """What the fused way adds to dQ in fp32, and what two more products cost."""
    for keys in (64, 128):
        tiles = SEQLEN // keys
        once = NHEADS * SEQLEN * HEAD_DIM * SUM
        found = {
            "key_tiles": tiles,
            "dq_sum_mib": whole(once / MIB),
            "added_gib": whole(tiles * once / GIB),
            "tflop": 2 * 2 * NHEADS * SEQLEN * SEQLEN * HEAD_DIM / 1e12,
        }
        yield claim("dq-sums", found, keys=keys, seqlen_k=SEQLEN, head_dim=HEAD_DIM)


# --- The walks under a causal mask ---

# Four blocks of 16 of either kind; in the second shape the queries are the last
# 64 of 96 positions.
BLOCK, SHAPES = 16, ((64, 64), (64, 96))


def walk_of_keys(start_n: int, seqlen_q: int, seqlen_k: int) -> range:
    """The kernel's bound: blocks of queries that see the keys from start_n on."""
    lo = max(start_n - (seqlen_k - seqlen_q), 0)
    return range(lo // BLOCK, -(-seqlen_q // BLOCK))


def walk_of_queries(start_m: int, seqlen_q: int, seqlen_k: int) -> range:
    """The kernel's bound: blocks of keys that the queries from start_m on see."""
    hi = min(start_m + BLOCK + (seqlen_k - seqlen_q), seqlen_k)
    return range(-(-hi // BLOCK))


def walks() -> Iterator[Claim]:
    """Where each walk begins and ends; the mask itself must say the same."""
    for seqlen_q, seqlen_k in SHAPES:
        sizes = (seqlen_q, seqlen_k)
        mask = np.tri(*sizes, seqlen_k - seqlen_q, dtype=bool)
        crossed = mask.reshape(seqlen_q // BLOCK, BLOCK, seqlen_k // BLOCK, BLOCK)
        # [blocks of queries, blocks of keys]
        seen: np.ndarray = np.asarray(crossed.any(axis=(1, 3)))
        for owner, blocks, walk in (
            ("keys", seen.T, walk_of_keys),
            ("queries", seen, walk_of_queries),
        ):
            for block, row in enumerate(blocks):
                visited = walk(block * BLOCK, *sizes)
                if list(visited) != list(np.flatnonzero(row)):
                    raise ValueError(f"{owner} {block}: {visited} and {row}")
                found: Columns = {
                    "first_block": visited[0],
                    "last_block": visited[-1],
                    "visited": len(visited),
                }
                case = {"seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "block": block}
                yield claim("backward-walk", found, owner=owner, **case)


# --- The order of a sum ---


def orders(tiles: int = 64, draws: int = 1000, seed: int = 0) -> Iterator[Claim]:
    """One number of dQ, the sum of what 64 tiles of keys add, in chance orders."""
    draw = np.random.default_rng(seed)
    parts = draw.standard_normal(tiles).astype(np.float32)
    exact = parts.astype(np.float64).sum()
    sums = np.array([_one_by_one(draw.permutation(parts)) for _ in range(draws)])
    error = np.abs(sums.astype(np.float64) - exact).max() / abs(exact)
    if len({_one_by_one(parts).tobytes() for _ in range(10)}) != 1:
        raise ValueError("one order has several sums")
    found = {"different": len(np.unique(sums)), "relative": float(error)}
    yield claim("order-of-a-sum", found, key_tiles=tiles, orders=draws, seed=seed)


def _one_by_one(parts: np.ndarray) -> np.float32:
    """The sum as atomic additions make it, rounded after each."""
    total = np.float32(0.0)
    for part in parts:
        total = np.float32(total + part)
    return total


# --- Groups of heads ---


def groups() -> Iterator[Claim]:
    """dK and dV of key heads, and the same for each query head before a sum."""
    for nheads_k in (32, 8, 1):
        once = 2 * nheads_k * SEQLEN * HEAD_DIM * ELEMENT
        found = {
            "heads_a_group": NHEADS // nheads_k,
            "grouped_mib": whole(once / MIB),
            "expanded_mib": whole(NHEADS // nheads_k * once / MIB),
        }
        case = {"nheads": NHEADS, "nheads_k": nheads_k}
        yield claim("grouped-gradients", found, **case, seqlen_k=SEQLEN)


def backward_kernel_claims() -> Iterator[Claim]:
    yield from by_owner()
    yield from products()
    yield from dq_sums()
    yield from walks()
    yield from orders()
    yield from groups()
