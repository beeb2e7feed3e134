"""Six broken kernels, each of which passes an easy test: find what breaks it.

    TRITON_INTERPRET=1 python -m bench.self_test A
    TRITON_INTERPRET=1 python -m bench.self_test A --seqlen-k 21 --causal

The options make the input; the program says whether the broken kernel's answer
is still right, that is, as near to the definition in fp64 as rounding allows.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch

from bench.claims_kernel import Edit, kernel_with
from flashwalk import attention_ref
from flashwalk.forward import Tile

SIZES = ("batch", "nheads", "nheads_k", "seqlen_q", "seqlen_k", "block_m", "block_n")
RIGHT = 1e-4  # the largest error of an fp32 answer that only rounds


@dataclass(frozen=True)
class Input:
    """What a test feeds: sizes, mask, and how the scores run along the keys."""

    batch: int = 1
    nheads: int = 1
    nheads_k: int = 1
    seqlen_q: int = 16
    seqlen_k: int = 16
    block_m: int = 16
    block_n: int = 16
    causal: bool = False
    rising: bool = False  # each block of 16 keys scores higher than the last
    ones: bool = False  # V is one everywhere: the right answer is known

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q, k and v in fp32, the same in every run; head dim 16."""
        random = torch.Generator().manual_seed(0)
        q_shape = (self.batch, self.nheads, self.seqlen_q, 16)
        k_shape = (self.batch, self.nheads_k, self.seqlen_k, 16)
        q, k, v = (
            torch.randn(shape, generator=random)
            for shape in (q_shape, k_shape, k_shape)
        )
        if self.rising:
            block = torch.arange(self.seqlen_k)[:, None] // 16
            q, k = 0.1 * q + 1.0, 0.1 * k + 0.375 * block
        return q, k, torch.ones_like(v) if self.ones else v


def broken_a() -> Edit:
    """Kernel A: its line, and what stands there instead."""
    # [a] Of batch and head only one is used for V.
    before = "v_ptr + off_b * stride_vb + off_hk * stride_vh"
    after = "v_ptr + off_hk * stride_vh"
    return before, after


def broken_b() -> Edit:
    """Kernel B."""
    # [b] The factor is taken from the new maximum.
    before = "alpha = tl.exp(m_i - m_safe)"
    after = "alpha = tl.exp(m_new - m_safe)"
    return before, after


def broken_c() -> Edit:
    """Kernel C."""
    # [c] Padded keys were loaded as 0; the scores are left as they are.
    before = "visible = in_keys[None, :]"
    after = "visible = (cols >= 0)[None, :]"
    return before, after


def broken_d() -> Edit:
    """Kernel D."""
    # [d] The textbook's triangle: key j is seen from query j on.
    before = "last_key = offs_m + (seqlen_k - seqlen_q)"
    after = "last_key = offs_m"
    return before, after


def broken_e() -> Edit:
    """Kernel E."""
    # [e] A masked score is a large negative number: there is no NaN to fear.
    before = 's = tl.where(visible, s, float("-inf"))'
    after = "s = tl.where(visible, s, -1.0e6)"
    return before, after


def broken_f() -> Edit:
    """Kernel F."""
    # [f] The query heads take turns on the key heads.
    before = "off_hk = off_h // group_size"
    after = "off_hk = off_h % (nheads // group_size)"
    return before, after


BROKEN: dict[str, Callable[[], Edit]] = {
    "A": broken_a,
    "B": broken_b,
    "C": broken_c,
    "D": broken_d,
    "E": broken_e,
    "F": broken_f,
}


def answers(module: ModuleType, given: Input) -> tuple[torch.Tensor, torch.Tensor]:
    """(found, right): what the module's kernel writes, and the definition in fp64."""
    q, k, v = given.tensors()
    out, lse = torch.full_like(q, math.nan), torch.full(q.shape[:-1], math.nan)
    tile = Tile(given.block_m, given.block_n, num_warps=4, num_stages=1)
    with np.errstate(all="ignore"):  # a broken kernel subtracts infinities
        module.launch(
            q, k, v, out, lse, causal=given.causal, softmax_scale=0.25, tile=tile
        )
    right, _ = attention_ref(
        *(x.double() for x in (q, k, v)), causal=given.causal, softmax_scale=0.25
    )
    return out, right


def largest_error(edit: Edit | None, given: Input) -> float:
    """How far the edited kernel is off; infinite where it answers NaN."""
    module = kernel_with(edit) if edit else kernel_with()
    found, right = answers(module, given)
    error = (found.double() - right).abs().max().item()
    return math.inf if math.isnan(error) else error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", choices=BROKEN)
    for name in SIZES:
        flag, usual = "--" + name.replace("_", "-"), getattr(Input, name)
        parser.add_argument(flag, type=int, default=usual)
    for name in ("causal", "rising", "ones"):
        parser.add_argument("--" + name, action="store_true")
    options = vars(parser.parse_args())
    name = options.pop("kernel")
    error = largest_error(BROKEN[name](), Input(**options))
    verdict = "still right" if error <= RIGHT else "broken"
    print(f"{name}: {verdict}, largest error {error:.2g}")


if __name__ == "__main__":
    main()
