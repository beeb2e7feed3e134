"""What a program holds before its loop, and what follows if it begins otherwise.

The kernel answers in the interpreter: TRITON_INTERPRET must be set before Triton
is imported. What the compiler makes of it is in claims_placed.py.
"""

from collections.abc import Iterator

import torch

from bench.cases import SEEDS
from bench.claims_grid import run
from bench.claims_kernel import Edit, kernel_with, rows_of
from bench.claims_traffic import ELEMENT, GIB, KIB, MIB, SCORE
from bench.claims_walk import (
    SCORES,
    VALUES,
    Claim,
    agree,
    claim,
    softmax_average,
)
from flashwalk import forward
from flashwalk.forward import Tile, tile_for

SIZE = SEEDS[64]
LOW = -200  # added to every score: exp(−200) is 0 in fp32

_L = "l_i = tl.zeros([BLOCK_M], tl.float32)"
_M = 'm_i = tl.full([BLOCK_M], float("-inf"), tl.float32)'
EDITS: dict[str, Edit] = {
    "m-from-0": (_M, "m_i = tl.zeros([BLOCK_M], tl.float32)"),
    "dims-not-masked": ("in_head = offs_d < head_dim", "in_head = offs_d < HEAD_DIM"),
}


def what_it_holds() -> Iterator[Claim]:
    """The tile of Q, the state, and one tile of scores, for our 16-bit tiles."""
    for head_dim in (64, 128, 256):
        tile = tile_for(head_dim, torch.float16)
        threads = 32 * tile.num_warps
        acc = tile.block_m * head_dim
        scores = tile.block_m * tile.block_n
        found = {
            "q_kib": acc * ELEMENT // KIB,
            "m_l_kib": 2 * tile.block_m * SCORE // KIB,
            "acc_kib": acc * SCORE // KIB,
            "s_kib": scores * SCORE // KIB,
            "threads": threads,
            "acc_registers": acc // threads,
            "s_registers": scores // threads,
        }
        yield claim(
            "held-on-chip",
            found,
            head_dim=head_dim,
            block_m=tile.block_m,
            block_n=tile.block_n,
        )


def queries_again() -> Iterator[Claim]:
    """What reading Q in every step of the loop would add to the loads."""
    tile = tile_for(SIZE.head_dim, torch.float16)
    blocks = -(-SIZE.seqlen_k // tile.block_n)
    once = SIZE.batch * SIZE.nheads * SIZE.seqlen_q * SIZE.head_dim * ELEMENT
    found = {
        "steps": blocks,
        "once_mib": once // MIB,
        "again_gib": blocks * once // GIB,
    }
    yield claim("queries-again", found, block_n=tile.block_n, seqlen_k=SIZE.seqlen_k)


def start_of_l() -> Iterator[Claim]:
    """Whatever l starts from, the first alpha is 0 and clears it."""
    for start in (0, 1, 1000):
        edit = (_L, f"l_i = tl.full([BLOCK_M], {start}.0, tl.float32)")
        (row,) = rows_of(kernel_with(edit), SCORES, VALUES)
        agree(row.out, softmax_average(SCORES, VALUES), "any start of l", 1e-6)
        yield claim("start-of-l", {"out": row.out, "lse": row.lse}, start=start)


def start_of_m() -> Iterator[Claim]:
    """m from 0: a maximum that no key has, and a weight of 0 for all that do."""
    broken = kernel_with(EDITS["m-from-0"])
    for shift in (0, LOW):
        scores = [score + shift for score in SCORES]
        (good,), (bad,) = (rows_of(x, scores, VALUES) for x in (forward, broken))
        agree(good.out, softmax_average(scores, VALUES), "the kernel, shifted", 1e-6)
        found = {"out": bad.out, "right": good.out}
        yield claim("start-of-m", found, shift=shift)
    empty = rows_of(broken, SCORES, VALUES, seqlen_q=5, causal=True)[0]
    yield claim("start-of-m-empty-row", {"lse": empty.lse})


def padded_dims() -> Iterator[Claim]:
    """Head dims between two powers of two: what share of the products is zeros."""
    for head_dim in (40, 80, 96, 192):
        padded = 1 << (head_dim - 1).bit_length()
        found = {"padded_to": padded, "zeros": 100 * (padded - head_dim) / padded}
        yield claim("padded-head-dim", found, head_dim=head_dim)


def dims_not_masked() -> Iterator[Claim]:
    """Rows cut out of wider ones, whose other columns belong to someone else."""
    wide_q, wide_k = torch.zeros(1, 1, 1, 16), torch.zeros(1, 1, 4, 16)
    wide_v = torch.zeros(1, 1, 4, 16)
    wide_q[..., :2] = 1.0
    wide_k[..., 0] = torch.tensor(SCORES)
    wide_k[..., 1] = torch.tensor(SCORES[::-1])
    wide_v[..., 0] = torch.tensor(VALUES)
    q, k, v = (wide[..., :1] for wide in (wide_q, wide_k, wide_v))
    broken = kernel_with(EDITS["dims-not-masked"])
    right = run(forward, q, k, v, Tile(1, 2, 1, 1))[0].item()
    agree(right, softmax_average(SCORES, VALUES), "a row cut out of a wider one", 1e-6)
    wide_out = torch.zeros(1, 1, 1, 16)  # it stores all 16 columns, too
    lse = torch.zeros(1, 1, 1)
    broken.launch(
        *(q, k, v, wide_out[..., :1], lse),
        causal=False,
        softmax_scale=1.0,
        tile=Tile(1, 2, 1, 1),
    )
    found = {"out": wide_out[0, 0, 0, 0].item(), "right": right}
    summed = [s + t for s, t in zip(SCORES, SCORES[::-1], strict=True)]
    agree(found["out"], softmax_average(summed, VALUES), "both columns' scores", 1e-6)
    yield claim("dims-not-masked", found, head_dim=1, padded_to=16)


def state_claims() -> Iterator[Claim]:
    yield from what_it_holds()
    yield from queries_again()
    yield from start_of_l()
    yield from start_of_m()
    yield from padded_dims()
    yield from dims_not_masked()
