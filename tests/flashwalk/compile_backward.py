"""Compiles the kernels of backward and dropout for sm_90 with no GPU; prints JSON.

    python compile_backward.py KERNEL...

As `compile_sm90` does for the forward: the real `launch` chooses the tile and
passes the arguments, and only its last step is replaced.
"""

import contextlib
import io
import json
import re
import sys
from itertools import product
from types import ModuleType
from typing import NamedTuple

import torch
from compile_sm90 import (
    DTYPES,
    HEAD_DIMS,
    LAYOUTS,
    compile_all,
    make_tensor,
    number,
    standing_in,
)

from flashwalk import backward, delta, dropout

# Where each kernel is a name; a seed makes another kernel of the backward's two.
KERNELS: dict[str, tuple[ModuleType, str]] = {
    "delta": (delta, "_attn_bwd_delta"),
    "dkdv": (backward, "_attn_bwd_dkdv"),
    "dq": (backward, "_attn_bwd_dq"),
    "forward-dropout": (dropout, "_attn_fwd_dropout"),
    "dkdv-dropout": (backward, "_attn_bwd_dkdv"),
    "dq-dropout": (backward, "_attn_bwd_dq"),
}
KNOWS_NO_MASK = ("delta",)


class Case(NamedTuple):
    """One kernel: what a launch with these arguments compiles."""

    kernel: str
    dtype: str
    head_dim: int
    causal: bool
    layout: str


def launch(case: Case) -> None:
    """Launches the forward with dropout, or the backward, on the case's tensors."""
    q = make_tensor(case, nheads=16, seqlen=4096)
    k, v = (make_tensor(case, nheads=4, seqlen=2048) for _ in "kv")
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device="meta")
    how = {"causal": case.causal, "softmax_scale": 0.125}
    if "dropout" in case.kernel:
        how["seed"] = torch.empty(1, dtype=torch.int64, device="meta")
        how["dropout_p"] = 0.25
    if "forward" in case.kernel:
        out = torch.empty(q.shape, dtype=q.dtype, device="meta")
        dropout.launch(q, k, v, out, lse, **how)
    else:
        # Gradients lie as their tensors do, and out as do: no more variants.
        backward.launch(q, k, v, q, lse, q, lse, q, k, v, **how)


def compile_case(case: Case) -> dict:
    """Compiles one case; returns it with the registers, spills and warnings."""
    log = io.StringIO()
    with (
        standing_in(KERNELS[case.kernel], KERNELS.values()) as warmup,
        contextlib.redirect_stdout(log),
    ):
        launch(case)
    text = log.getvalue()
    return case._asdict() | {
        "registers": number(r"Used (\d+) registers", text),
        "spill_bytes": number(r"(\d+) bytes spill stores", text)
        + number(r"(\d+) bytes spill loads", text),
        # C7519 is no warning: ptxas adds the fence that registers need.
        "warnings": re.findall(r".*\bC75(?!19)\d\d\b.*", text),
        "shared_bytes": warmup.compiled.metadata.shared,
        "wgmma": "wgmma" in warmup.compiled.asm["ptx"],
    }


def layouts_of(kernel: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The layouts to compile a kernel for: all cases, and the largest of them."""
    if "dropout" in kernel:  # one table of tiles for whatever layout
        return ("aligned",), ("padded", "far-ragged")
    if kernel in KNOWS_NO_MASK:
        return LAYOUTS[:2], ()
    return LAYOUTS[:2], ("padded", "far", "far-ragged")


def cases_of(kernel: str) -> list[Case]:
    """The cases of one kernel that differ enough: compiling takes time.

    bf16 has fp16's tiles and instructions, and small head dims share a tile.
    """
    causal = (False,) if kernel in KNOWS_NO_MASK else (False, True)
    cases = [Case(kernel, *c) for c in product(DTYPES, HEAD_DIMS, causal, LAYOUTS)]
    main, more = layouts_of(kernel)
    return [
        c
        for c in cases
        if c.layout == "aligned"
        or (c.layout in main and c.dtype != "bf16")
        or (c.layout in more and c.dtype != "bf16" and c.causal and c.head_dim >= 128)
    ]


def main() -> None:
    """Compiles every case in use of the kernels named; prints a JSON list."""
    cases = [case for name in sys.argv[1:] for case in cases_of(name)]
    print(json.dumps(compile_all(cases, compile_case)))


if __name__ == "__main__":
    main()
