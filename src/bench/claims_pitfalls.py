"""The pitfalls chapter's quantities: broken kernels, and which input notices them."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from bench.causal_blocks import Blocks
from bench.claims_causal import rows_in_tiles
from bench.claims_kernel import EDITS, Edit, kernel_with
from bench.claims_walk import SCORES, VALUES, Claim, claim, softmax_average
from bench.rows import Value
from bench.self_test import BROKEN, RIGHT, Input, largest_error
from flashwalk.forward import Tile

_WEIGHTS = "tl.exp(s - m_safe[:, None])"
FAULTS: dict[str, Edit] = {
    "alpha-forgotten-on-acc": ("        acc = acc * alpha[:, None]\n", ""),
    "alpha-forgotten-on-l": ("l_i = l_i * alpha + tl.sum", "l_i = l_i + tl.sum"),
    "weights-from-old-maximum": (_WEIGHTS, "tl.exp(s - m_i[:, None])"),
    "bound-from-block-n": ("(start_m + 1) * BLOCK_M", "(start_m + 1) * BLOCK_N"),
    "tail-keys-counted": (
        "visible = in_keys[None, :]",
        "visible = cols[None, :] >= 0",
    ),
    "causal-top-left": BROKEN["D"](),
    "infinity-minus-infinity": (
        'tl.where(m_new == float("-inf"), 0.0, m_new)',
        "m_new",
    ),
    "heads-by-modulo": BROKEN["F"](),
    "batch-forgotten": BROKEN["A"](),
}

# What a test feeds. Tiles are 16 × 16 unless the name says otherwise.
_MANY = Input(batch=2, nheads=6, nheads_k=2)
INPUTS = {
    "one_block": Input(),
    "one_head": Input(seqlen_q=64, seqlen_k=64),
    "odd_sizes": replace(_MANY, seqlen_q=37, seqlen_k=53),
    "causal_square": replace(_MANY, seqlen_q=64, seqlen_k=64, causal=True),
    "tall_tiles": replace(_MANY, seqlen_q=64, seqlen_k=64, block_m=64, causal=True),
    "few_queries": replace(_MANY, seqlen_q=5, seqlen_k=53, causal=True),
    "many_queries": replace(_MANY, seqlen_q=45, seqlen_k=7, causal=True),
}

# The input that breaks each kernel of the self-test, as changes of the easy one.
ANSWERS: dict[str, dict[str, int | bool]] = {
    "A": {"batch": 2},
    "B": {"seqlen_k": 32},
    "C": {"seqlen_k": 17},
    "D": {"causal": True, "seqlen_q": 1},
    "E": {"causal": True, "seqlen_q": 17},
    "F": {"nheads": 4, "nheads_k": 2},
}


def written(number: float) -> Value:
    """A number for a row, where only finite ones stand: NaN by its name."""
    return "NaN" if math.isnan(number) else number


def on_the_standing_example() -> Iterator[Claim]:
    """One query on the four keys; `soaring`: the 3 is a 103."""
    soaring = (*SCORES[:2], 100 + SCORES[2], SCORES[3])
    for fault, scores, name in (
        ("alpha-forgotten-on-acc", SCORES, "standing"),
        ("alpha-forgotten-on-l", SCORES, "standing"),
        ("weights-from-old-maximum", SCORES, "standing"),
        ("old-maximum", SCORES, "standing"),
        ("old-maximum", soaring, "soaring"),
    ):
        edit = EDITS[fault] if fault in EDITS else FAULTS[fault]
        (row,) = rows_in_tiles(
            kernel_with(edit), scores, VALUES, seqlen_q=1, causal=False
        )
        found = {"out": written(row.out), "right": softmax_average(scores, VALUES)}
        yield claim("pitfall", found, fault=fault, input=name)


def short_bound() -> Iterator[Claim]:
    """The bound from BLOCK_N: wrong in a tall tile, wasteful in a wide one."""
    tile = Tile(block_m=4, block_n=2, num_warps=1, num_stages=1)
    broken = kernel_with(FAULTS["bound-from-block-n"])
    rows = rows_in_tiles(broken, SCORES, VALUES, seqlen_q=4, tile=tile)
    for i, row in enumerate(rows):
        right = softmax_average(SCORES[: i + 1], VALUES[: i + 1])
        found = {"out": row.out, "right": right}
        yield claim("short-bound", found, query=i, block_m=4, block_n=2)
    wide = Blocks(4096, 4096, 64, 128)
    right_bound = sum(wide.walked(m) for m in range(wide.rows))
    from_n = [min((m + 1) * wide.block_n, wide.seqlen_k) for m in range(wide.rows)]
    walked = sum(hi // wide.block_n for hi in from_n)
    found = {"computed": walked, "needed": right_bound}
    yield claim("long-bound", found, seqlen_q=4096, block_m=64, block_n=128)


def tail_of_one() -> Iterator[Claim]:
    """Three of the four keys: the fourth column of the last block is padding."""
    scores, values = SCORES[:3], VALUES[:3]
    broken = kernel_with(FAULTS["tail-keys-counted"])
    (row,) = rows_in_tiles(broken, scores, values, seqlen_q=1, causal=False)
    found = {"out": row.out, "right": softmax_average(scores, values)}
    yield claim("tail-of-one", found, keys=3, padded=1)


def lost_nan() -> Iterator[Claim]:
    """Row 0 of five causal queries on four keys sees nothing; without m_safe, NaN.

    Three ways to write the check, of which two let the kernel pass.
    """
    broken = kernel_with(FAULTS["infinity-minus-infinity"])
    rows = rows_in_tiles(broken, SCORES, VALUES, seqlen_q=5)
    if not math.isnan(rows[0].out):
        raise ValueError(f"row 0 is {rows[0].out}, not NaN")
    error, budget = abs(rows[0].out - 0.0), 1e-3
    rejected = {
        "fail if error > budget": error > budget,
        "fail if max(0.0, error) > budget": max(0.0, error) > budget,
        "fail unless error <= budget": not error <= budget,
    }
    for text, fails in rejected.items():
        verdict = "rejected" if fails else "passes"
        yield claim("nan-check", {"verdict": verdict}, check=text, budget=budget)


def grouped_heads() -> Iterator[Claim]:
    """Six query heads on two key heads; V is the number of its head."""
    for name, edits in (("right", ()), ("heads-by-modulo", (BROKEN["F"](),))):
        module = kernel_with(*edits)
        q, k = torch.ones(1, 6, 1, 1), torch.zeros(1, 2, 1, 1)
        v = torch.arange(2.0).view(1, 2, 1, 1)
        out, lse = torch.full_like(q, math.nan), torch.empty(1, 6, 1)
        tile = Tile(1, 1, num_warps=1, num_stages=1)
        module.launch(q, k, v, out, lse, causal=False, softmax_scale=1.0, tile=tile)
        heads = ", ".join(f"{x:g}" for x in out.flatten().tolist())
        yield claim("grouped", {"by_head": heads}, mapping=name)


def wrapped_index(row: int = 2, stride: int = 2**30) -> Iterator[Claim]:
    """Where a row lies, and where int32 says that it lies, in elements."""
    with np.errstate(over="ignore"):
        wrapped = int((np.array([row], np.int32) * np.array([stride], np.int32))[0])
    found = {"index_true": row * stride, "index_wrapped": wrapped}
    yield claim("wrapped", found, row=row, stride=stride)


def who_notices() -> Iterator[Claim]:
    """Every fault against every input: which test would have seen it?"""
    for name, given in INPUTS.items():
        if (error := largest_error(None, given)) > RIGHT:
            raise ValueError(f"the kernel itself is off by {error} on {name}")
    # Guarded, the old maximum gives no NaN: it must be noticed by its numbers.
    guarded = {"weights-from-old-maximum": "old-maximum"}
    for fault in [guarded.get(name, name) for name in FAULTS]:
        edit = FAULTS.get(fault) or EDITS[fault]
        found = {
            name: "caught" if largest_error(edit, given) > RIGHT else "passes"
            for name, given in INPUTS.items()
        }
        if "caught" not in found.values():
            raise ValueError(f"{fault}: nothing notices it")
        yield claim("noticed", found, fault=fault)


def self_test() -> Iterator[Claim]:
    """Each kernel of the self-test: right on the easy input, wrong on its answer."""
    for kernel, options in ANSWERS.items():
        edit = BROKEN[kernel]()
        easy = largest_error(edit, Input())
        hard = largest_error(edit, replace(Input(), **options))  # type: ignore[arg-type]
        if not easy <= RIGHT < hard:
            raise ValueError(f"{kernel}: off by {easy}, then by {hard}")
        found = {"easy_error": easy, "hard_error": written(hard)}
        yield claim("self-test", found, kernel=kernel)


def two_errors(keys: int = 1024, head_dim: int = 64, seed: int = 0) -> Iterator[Claim]:
    """Plain attention in fp16 rounds too: it is not the truth to compare with."""
    random = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(keys, head_dim, generator=random).half() for _ in "qkv")
    exact = (q.double() @ k.double().T * head_dim**-0.5).softmax(1) @ v.double()
    # As a GPU does it: products add up in fp32, each result is rounded to fp16.
    scores = ((q.float() @ k.float().T).half() * head_dim**-0.5).float()
    plain = (scores.softmax(1).half().float() @ v.float()).half()
    ours = _ours(q, k, v)
    found = {
        "error_ours": float((ours - exact).abs().max()),
        "error_plain": float((plain.double() - exact).abs().max()),
        "difference": float((ours - plain.double()).abs().max()),
        "equal": 100 * float((ours == plain.double()).double().mean()),
    }
    sizes = {"keys": keys, "head_dim": head_dim, "seed": seed}
    yield claim("two-errors", found, dtype="fp16", **sizes)


def _ours(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The kernel's answer, interpreted, in fp64: (rows, head_dim)."""
    from flashwalk import attention

    with np.errstate(all="ignore"):
        out = attention(*(x[None, None] for x in (q, k, v)))
    return out[0, 0].double()


def pitfall_claims() -> Iterator[Claim]:
    """The claims of this file."""
    yield from on_the_standing_example()
    yield from short_bound()
    yield from tail_of_one()
    yield from lost_nan()
    yield from grouped_heads()
    yield from wrapped_index()
    yield from who_notices()
    yield from self_test()
    yield from two_errors()
