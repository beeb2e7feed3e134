"""Backwards with one fault each: the real source with one edit, made runnable."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import problems
import torch
from gradients import Case, with_gradient
from kernel_mutants import load
from philox import dropout_of
from problems import random_problem

from flashwalk import backward, delta, dropout

TILES = ((16, 32, 4, 1), (32, 16, 4, 1))


class Mutant(NamedTuple):
    """One edit of a module's source, and the case whose check must reject it."""

    before: str
    after: str
    case: Callable[[torch.device, torch.dtype], Case]
    module: ModuleType = backward


def ordinary(device, dtype, **how) -> Case:
    """Two query heads on a key head, three blocks of each kind; a scale of 3/4."""
    how = {"nheads": 2, "nheads_k": 1, "seqlen_q": 40, "seqlen_k": 50} | how
    how = {"softmax_scale": 0.75} | how
    return with_gradient(random_problem(device, dtype, **how), tiles=TILES)


def causal(device, dtype) -> Case:
    """More keys than queries: the diagonal is not that of a square."""
    return ordinary(device, dtype, causal=True)


def through_lse(device, dtype) -> Case:
    """A gradient of lse beside that of the output."""
    return ordinary(device, dtype)._replace(
        dlse=torch.ones(2, 2, 40, device=device), tiles=TILES
    )


def groups_of_three(device, dtype) -> Case:
    """6 query heads on 2 key heads: 3 is neither 2 nor a power of it."""
    return ordinary(device, dtype, nheads=6, nheads_k=2, seqlen_q=5, seqlen_k=9)


def dropped(device, dtype) -> Case:
    """Some of the weights are dropped; there are several batches, heads, blocks."""
    case = ordinary(device, dtype, causal=True)
    return case._replace(dropout=dropout_of(case.problem, 2**40 + 12345, 0.3))


def empty_rows(device, dtype) -> Case:
    """38 rows see no key."""
    return with_gradient(problems.empty_rows(device, dtype), tiles=TILES)


def low_scores(device, dtype) -> Case:
    """A lse of about -125: relative to it a score of 0 weighs exp(125), infinity."""
    case = ordinary(device, dtype, softmax_scale=1.0)
    q, k = (0.01 * x for x in case.problem[:2])
    return case._replace(problem=case.problem._replace(q=q + 1.0, k=k - 8.0))


def slices(device, dtype) -> Case:
    """Tails in q and do, which lie inside of larger tensors full of ones."""
    case = ordinary(device, dtype)

    def inside(x):
        whole = torch.ones(2, 3, 64, 16, dtype=dtype, device=device)
        return whole[:, :2, :40].copy_(x)

    q = inside(case.problem.q)
    return case._replace(problem=case.problem._replace(q=q), do=inside(case.do))


def far_rows(device, dtype) -> Case:
    """Rows of q, k, v and do so far apart that int32 wraps."""
    return _far(problems.far_rows(device, dtype), 192)


def far_heads(device, dtype) -> Case:
    """Batches and heads so far apart that int32 wraps."""
    return _far(problems.far_heads(device, dtype), 176)


def _far(problem, at: int) -> Case:
    """The problem with a do beside its q, in the same memory and as far apart."""
    q = problem.q
    do = q.as_strided(q.shape, q.stride(), q.storage_offset() + at)
    if q.storage_offset() >= 2**31:
        # Where a row lands whose offset wrapped.
        q.as_strided(q.shape, q.stride(), at).zero_()
    do.copy_(with_gradient(problem).do)
    return Case(problem, do, tiles=(problem.tile, problem.tile))


MUTANTS = {
    "delta-left-out-of-dk": Mutant("(dp - delta[None, :])", "dp", ordinary),
    "delta-left-out-of-dq": Mutant("(dp - delta[:, None])", "dp", ordinary),
    "delta-without-dlse": Mutant(
        "delta = delta - tl.where", "tl.where", through_lse, delta
    ),
    "delta-plus-dlse": Mutant(
        "delta = delta - tl.where", "delta = delta + tl.where", through_lse, delta
    ),
    "dk-without-the-scale": Mutant("    dk = dk * softmax_scale\n", "", ordinary),
    "dq-without-the-scale": Mutant("    dq = dq * softmax_scale\n", "", ordinary),
    "dv-with-the-scale": Mutant(
        "dv.to(dv_ptr", "(dv * softmax_scale).to(dv_ptr", ordinary
    ),
    "dk-of-one-head-of-the-group": Mutant(
        "range(0, group_size * num_m_blocks)", "range(0, num_m_blocks)", groups_of_three
    ),
    "query-heads-by-modulo": Mutant(
        "off_hk * group_size + step // num_m_blocks",
        "off_hk + step // num_m_blocks * nheads_k",
        groups_of_three,
    ),
    "key-heads-by-modulo": Mutant(
        "off_h // group_size", "off_h % (nheads // group_size)", groups_of_three
    ),
    "lse-in-base-2-for-dk": Mutant(
        "s - lse[None, :]", "s - lse[None, :] * 1.4426950", ordinary
    ),
    "lse-in-base-2-for-dq": Mutant(
        "s - lse[:, None]", "s - lse[:, None] * 1.4426950", ordinary
    ),
    "causal-start-a-block-late": Mutant(
        "start_n - (seqlen_k - seqlen_q), 0",
        "start_n + BLOCK_M - (seqlen_k - seqlen_q), 0",
        causal,
    ),
    "causal-start-top-left": Mutant(
        "tl.maximum(start_n - (seqlen_k - seqlen_q), 0)", "start_n", causal
    ),
    "causal-end-from-block-n": Mutant(
        "(start_m + 1) * BLOCK_M", "(start_m + 1) * BLOCK_N", causal
    ),
    "mask-top-left-for-dk": Mutant(
        "last_key = start_m + offs_bm + (seqlen_k - seqlen_q)",
        "last_key = start_m + offs_bm",
        causal,
    ),
    "mask-before-lse": Mutant(
        'tl.where(visible, s - lse[:, None], float("-inf"))',
        'tl.where(visible, s, float("-inf")) - lse[:, None]',
        empty_rows,
    ),
    "tail-keys-counted": Mutant(
        "visible = in_keys[None, :]", "visible = offs_n[None, :] >= 0", low_scores
    ),
    "padding-rows-weigh-infinity": Mutant(
        "lse = tl.load(lse_at, mask=in_rows, other=0.0)",
        'lse = tl.load(lse_at, mask=in_rows, other=float("-inf"))',
        ordinary,
    ),
    "padding-rows-bring-do": Mutant(
        "        do = tl.load(do_at, mask=mask, other=0.0)",
        "        do = tl.load(do_at, mask=in_head[None, :], other=0.0)",
        slices,
    ),
    "dropped-weights-in-dv": Mutant(
        "dv = tl.dot(p_kept.to(do.dtype)", "dv = tl.dot(p.to(do.dtype)", dropped
    ),
    "dropped-gradients-in-dk": Mutant(
        "            dp = tl.where(keep, dp * rescale, 0.0)\n        delta_at",
        "            dp = dp * rescale\n        delta_at",
        dropped,
    ),
    "dropped-gradients-in-dq": Mutant(
        "            )\n            dp = tl.where(keep, dp * rescale, 0.0)",
        "            )\n            dp = dp * rescale",
        dropped,
    ),
    "kept-weights-in-ds": Mutant(
        "ds = p * (dp - delta[None, :])", "ds = p_kept * (dp - delta[None, :])", dropped
    ),
    "kept-without-the-factor": Mutant("keep, p * rescale", "keep, p", dropped),
    "mask-by-the-row-of-the-block": Mutant(
        "offs_m = start_m + offs_bm\n", "offs_m = offs_bm\n", dropped
    ),
    "mask-of-no-head": Mutant("h.to(tl.int32)", "h.to(tl.int32) * 0", dropped, dropout),
    "mask-of-no-batch": Mutant(
        "b.to(tl.int32)", "b.to(tl.int32) * 0", dropped, dropout
    ),
    "mask-of-half-a-seed": Mutant(
        "tl.philox(\n        seed,",
        "tl.philox(\n        seed & 0xFFFFFFFF,",
        dropped,
        dropout,
    ),
    "query-rows-in-int32": Mutant(
        "(start_m + offs_bm)[:, None].to(tl.int64)",
        "(start_m + offs_bm)[:, None]",
        far_rows,
    ),
    "key-rows-in-int32": Mutant(
        "        keys = offs_n[:, None].to(tl.int64)",
        "        keys = offs_n[:, None]",
        far_rows,
    ),
    "own-keys-in-int32": Mutant(
        "keys = offs_n[:, None].to(tl.int64)\n\n    # [load-kv]",
        "keys = offs_n[:, None]\n\n    # [load-kv]",
        far_rows,
    ),
    "own-rows-in-int32": Mutant(
        "rows = offs_m[:, None].to(tl.int64)", "rows = offs_m[:, None]", far_rows
    ),
    "rows-of-delta-in-int32": Mutant(
        "rows = offs_m[:, None].to(tl.int64)", "rows = offs_m[:, None]", far_rows, delta
    ),
}


def load_mutant(name: str, folder: Path) -> ModuleType:
    """The backward with the fault called `name`, as a module like `backward`."""
    before, after, _, module = MUTANTS[name]
    source = Path(module.__file__).read_text(encoding="utf-8")
    if source.count(before) != 1:
        raise LookupError(f"{name}: {before!r} occurs {source.count(before)} times")
    path = folder / f"{name.replace('-', '_')}.py"
    mutant = load(source.replace(before, after), path)
    if module is backward:
        return mutant
    whole = load(
        Path(backward.__file__).read_text(encoding="utf-8"), folder / "whole.py"
    )
    for changed in ("compute_delta", "keep_mask"):
        if hasattr(mutant, changed):
            setattr(whole, changed, getattr(mutant, changed))
    return whole
