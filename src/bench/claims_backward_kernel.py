"""What the real backward answers in Triton's interpreter, whole and broken.

A broken kernel is the text of backward.py with a few lines changed. It must be
interpreted: TRITON_INTERPRET must be set before Triton is imported.
"""

import math
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch

from bench.claims_backward_blocks import parts_of
from bench.claims_backward_gradients import softmax_backward
from bench.claims_end import merge
from bench.claims_kernel import FP32, Edit, edited
from bench.claims_walk import SCORES, VALUES, Claim, agree, claim, softmax_average
from flashwalk import backward, forward
from flashwalk.forward import Tile

LOG2E = math.log2(math.e)
TILE = Tile(block_m=16, block_n=16, num_warps=1, num_stages=1)


class Gradients(NamedTuple):
    """One tensor for each input, in its shape."""

    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor


def backward_with(*edits: Edit) -> ModuleType:
    """The module backward.py with each edit made; the text must occur once."""
    return edited(backward, edits)


def gradients(
    module: ModuleType,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None = None,
    *,
    softmax_scale: float = 1.0,
    causal: bool = False,
) -> Gradients:
    """The forward of the book, then the backward of `module`."""
    found = Gradients(*(torch.full_like(x, math.nan) for x in (q, k, v)))
    out, lse = torch.empty_like(q), torch.empty(q.shape[:-1])
    how = {"causal": causal, "softmax_scale": softmax_scale}
    tiles = module.Tiles(TILE, TILE)
    with np.errstate(all="ignore"):  # broken kernels multiply infinities by 0
        forward.launch(q, k, v, out, lse, tile=TILE, **how)  # type: ignore[arg-type]
        module.launch(q, k, v, out, lse, do, dlse, *found, tiles=tiles, **how)
    return found


def row(numbers: Sequence[float]) -> torch.Tensor:
    """One head's keys or values, of head dim 1: (1, 1, keys, 1)."""
    return torch.tensor(numbers).view(1, 1, -1, 1)


def by_hand() -> Iterator[Claim]:
    """The standing example through the kernels: q is 1, so dk is ds."""
    one = torch.ones(1, 1, 1, 1)
    found = gradients(backward, one, row(SCORES), row(VALUES), one)
    keys = softmax_backward(SCORES, VALUES)
    dq = sum(key.ds * score for key, score in zip(keys, SCORES, strict=True))
    agree(found.dq.item(), dq, "dq and the sum of ds · k", 1e-5)
    for index, key in enumerate(keys):
        dk, dv = (x[0, 0, index, 0].item() for x in (found.dk, found.dv))
        agree(dk, key.ds, "dk and ds", 1e-5)
        agree(dv, key.weight, "dv and the weight", FP32)
        yield claim("kernel-backward", {"dk": dk, "dv": dv}, key=index)
    yield claim("kernel-dq", {"dq": found.dq.item()})


# The dq kernel of those who scale K beforehand and take powers of two.
_FOLDED: tuple[Edit, ...] = (
    (
        "        k = tl.load(k_at, mask=kv_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]",
        "        k = tl.load(k_at, mask=kv_mask, other=0.0)\n"
        f"        k = k * (softmax_scale * {LOG2E})",
    ),
    (
        's = tl.dot(q, tl.trans(k), input_precision="ieee")\n'
        "        s = s * softmax_scale",
        's = tl.dot(q, tl.trans(k), input_precision="ieee")',
    ),
    ("s - lse[:, None]", f"s - lse[:, None] * {LOG2E}"),
    ("p = tl.exp(s)  # [BLOCK_M, BLOCK_N]", "p = tl.exp2(s)  # [BLOCK_M, BLOCK_N]"),
)
_LAST = {x: f"{x} = {x} * softmax_scale" for x in ("dq", "dk")}


# What somebody might multiply a gradient by at the end, and how it is written.
_FACTORS = {
    "ln 2": str(math.log(2)),
    "none": "1.0",
    "scale": "softmax_scale",
    "scale twice": "softmax_scale * softmax_scale",
}


def constants() -> Iterator[Claim]:
    """How far off a gradient is when its last factor is another one.

    Random rows; the scale is one over the root of the head dim, as it is when
    nobody says otherwise. 1 is right.
    """
    for head_dim in (2, 64):
        scale = head_dim**-0.5
        q, k, v, do = _random(head_dim)
        right = gradients(backward, q, k, v, do, softmax_scale=scale)
        _agree_with_autograd(right, q, k, v, do, scale)
        for gradient, folded, factor in (
            ("dq", True, "ln 2"),
            ("dq", True, "none"),
            ("dq", True, "scale"),
            ("dq", False, "none"),
            ("dq", False, "ln 2"),
            ("dk", False, "none"),
            ("dk", False, "ln 2"),
            ("dk", False, "scale twice"),
        ):
            last = (_LAST[gradient], f"{gradient} = {gradient} * ({_FACTORS[factor]})")
            module = backward_with(*(_FOLDED if folded else ()), last)
            wrong = gradients(module, q, k, v, do, softmax_scale=scale)
            times = _times(getattr(wrong, gradient), getattr(right, gradient))
            if folded and factor == "ln 2":
                agree(times, 1.0, "a scaled K with ln 2 and a plain one", 1e-5)
            yield claim(
                "last-factor",
                {"times_right": times},
                gradient=gradient,
                k_scaled=folded,
                last_factor=factor,
                head_dim=head_dim,
            )


def _random(head_dim: int, seed: int = 0) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 1, n, head_dim, generator=draw) for n in (5, 20, 20, 5)]


def _times(found: torch.Tensor, right: torch.Tensor) -> float:
    """By how much all of `found` is too large; raises if it is not one factor."""
    times = float((found * right).sum() / (right * right).sum())
    if float((found - times * right).abs().max()) > 1e-4 * float(found.abs().max()):
        raise ValueError("the two gradients differ by more than a factor")
    return times


def _agree_with_autograd(
    found: Gradients,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    scale: float,
) -> None:
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    out = (leaves[0] @ leaves[1].mT * scale).softmax(-1) @ leaves[2]
    exact = torch.autograd.grad(out, leaves, do.double())
    for name, mine, theirs in zip(Gradients._fields, found, exact, strict=True):
        error = float((mine - theirs).abs().max() / theirs.abs().max())
        agree(error, 0.0, f"{name} and autograd in fp64", 1e-5)


def merged_in_training() -> Iterator[Claim]:
    """Two halves through the kernels, merged by lse; dlse left out, and not."""
    one = torch.ones(1, 1, 1, 1)
    right = softmax_backward(SCORES, VALUES)
    out = softmax_average(SCORES, VALUES)
    parts = parts_of(SCORES, VALUES, (2, 2))
    outs, lses = [part.out for part in parts], [part.lse for part in parts]
    agree(merge(outs, lses), out, "the merged halves and the row", FP32)
    total = sum(math.exp(lse) for lse in lses)
    for half in range(2):
        k, v = (row(x[2 * half : 2 * half + 2]) for x in (SCORES, VALUES))
        share = math.exp(lses[half]) / total
        dlse = torch.full((1, 1, 1), share * (outs[half] - out))
        whole = gradients(backward, one, k, v, share * one, dlse).dk
        without = gradients(backward, one, k, v, share * one).dk
        for place in range(2):
            index = 2 * half + place
            ds = whole[0, 0, place, 0].item()
            agree(ds, right[index].ds, "the halves' ds and the row's", 1e-5)
            found = {"ds": ds, "ds_wrong": without[0, 0, place, 0].item()}
            yield claim("ds-without-dlse", found, key=index)


MASKS: dict[str, tuple[Edit, ...]] = {
    "dq, masked before lse": (
        (
            'tl.where(visible, s - lse[:, None], float("-inf"))',
            'tl.where(visible, s, float("-inf")) - lse[:, None]',
        ),
    ),
    "dk and dv, masked before lse": (
        (
            'tl.where(visible, s - lse[None, :], float("-inf"))',
            'tl.where(visible, s, float("-inf")) - lse[None, :]',
        ),
        # The bound would begin after the empty rows: here all are visited.
        ("lo = tl.maximum(start_n - (seqlen_k - seqlen_q), 0)", "lo = 0"),
    ),
    "past the end, an lse of −inf": (
        (
            "lse = tl.load(lse_at, mask=in_rows, other=0.0)",
            'lse = tl.load(lse_at, mask=in_rows, other=float("-inf"))',
        ),
    ),
}


def bad_rows() -> Iterator[Claim]:
    """One row whose p is NaN, and what of dk and dv is left.

    Five queries on four keys, causal: the first sees none. The block has room
    for 16 rows: the other eleven are past the end.
    """
    q, k, v, do = _random(4)
    k, v = k[:, :, :4].contiguous(), v[:, :, :4].contiguous()
    right = gradients(backward, q, k, v, do, causal=True)
    if not all(bool(x.isfinite().all()) for x in right) or right.dq[0, 0, 0].any():
        raise ValueError("an empty row has a gradient, or spoils those of others")
    for name, edits in MASKS.items():
        wrong = gradients(backward_with(*edits), q, k, v, do, causal=True)
        found = {
            f"{gradient}_nan": 100 * float(x.isnan().double().mean())
            for gradient, x in zip(Gradients._fields, wrong, strict=True)
        }
        if not any(found.values()):
            raise ValueError(f"{name}: nothing is NaN")
        yield claim("bad-rows", found, mask_fault=name)


ONE_HEAD: Edit = ("range(0, group_size * num_m_blocks)", "range(0, num_m_blocks)")


def group_of_two() -> Iterator[Claim]:
    """Two query heads, q = 1 and q = −1, on one key head; and the second forgotten."""
    queries = (1.0, -1.0)
    q = torch.tensor(queries).view(1, 2, 1, 1)
    k, v, do = row(SCORES), row(VALUES), torch.ones_like(q)
    heads = [softmax_backward([x * score for score in SCORES], VALUES) for x in queries]
    right = gradients(backward, q, k, v, do)
    wrong = gradients(backward_with(ONE_HEAD), q, k, v, do)
    if not torch.equal(wrong.dq, right.dq):
        raise ValueError("dq is said to stay right")
    for index, keys in enumerate(zip(*heads, strict=True)):
        dk, dv = (x[0, 0, index, 0].item() for x in (right.dk, right.dv))
        summed = sum(x * key.ds for x, key in zip(queries, keys, strict=True))
        agree(dk, summed, "dk and the sum over the group", 1e-5)
        agree(dv, sum(key.weight for key in keys), "dv and the sum of weights", FP32)
        dk_wrong, dv_wrong = (x[0, 0, index, 0].item() for x in (wrong.dk, wrong.dv))
        found = {"dk": dk, "dk_wrong": dk_wrong, "dv": dv, "dv_wrong": dv_wrong}
        yield claim("one-head-of-two", found, key=index)


def kernel_claims() -> Iterator[Claim]:
    """The claims of this file."""
    yield from by_hand()
    yield from constants()
    yield from merged_in_training()
    yield from bad_rows()
    yield from group_of_two()
