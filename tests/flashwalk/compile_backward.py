"""Compiles the backward's kernels for sm_90 with no GPU; prints JSON.

    python compile_backward.py KERNEL...

As `compile_sm90` does for the forward: the real `launch` chooses the tile and
passes the arguments, and only its last step is replaced.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from types import ModuleType
from typing import NamedTuple

import torch
from compile_sm90 import (
    DTYPES,
    HEAD_DIMS,
    LAYOUTS,
    WORKERS,
    Warmup,
    make_tensor,
    number,
    prepare_worker,
)

from flashwalk import backward, delta

# Where each kernel is a name; the first one knows no mask.
KERNELS: dict[str, tuple[ModuleType, str]] = {
    "delta": (delta, "_attn_bwd_delta"),
    "dkdv": (backward, "_attn_bwd_dkdv"),
    "dq": (backward, "_attn_bwd_dq"),
}
KNOWS_NO_MASK = ("delta",)


class Case(NamedTuple):
    """One kernel: what a launch with these arguments compiles."""

    kernel: str
    dtype: str
    head_dim: int
    causal: bool
    layout: str


class Skipped:
    """Takes a kernel's place in its module: does nothing."""

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None


@contextlib.contextmanager
def standing_in(name: str):
    """One kernel's Warmup, in its place; the others are skipped."""
    kernels = {key: getattr(module, of) for key, (module, of) in KERNELS.items()}
    warmup = Warmup(kernels[name])
    try:
        for key, (module, of) in KERNELS.items():
            setattr(module, of, warmup if key == name else Skipped())
        yield warmup
    finally:
        for key, (module, of) in KERNELS.items():
            setattr(module, of, kernels[key])


def compile_case(case: Case) -> dict:
    """Compiles one case; returns it with the registers, spills and warnings."""
    q = make_tensor(case, nheads=16, seqlen=4096)
    k, v = (make_tensor(case, nheads=4, seqlen=2048) for _ in "kv")
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device="meta")
    log = io.StringIO()
    # Gradients lie as their tensors do, and out as do: no more variants.
    with standing_in(case.kernel) as warmup, contextlib.redirect_stdout(log):
        backward.launch(
            *(q, k, v, q, lse, q, lse, q, k, v),
            causal=case.causal,
            softmax_scale=0.125,
        )
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


def cases_of(kernel: str) -> list[Case]:
    """Every case in use of one kernel.

    bf16 has fp16's tiles and instructions, and small head dims share a tile with
    64: the two main layouts are enough for them.
    """
    causal = (False,) if kernel in KNOWS_NO_MASK else (False, True)
    cases = [Case(kernel, *c) for c in product(DTYPES, HEAD_DIMS, causal, LAYOUTS)]
    return [
        c
        for c in cases
        if c.layout in LAYOUTS[:2] or (c.dtype != "bf16" and c.head_dim >= 64)
    ]


def main() -> None:
    """Compiles every case in use of the kernels named; prints a JSON list."""
    if os.environ.get("TRITON_INTERPRET"):
        raise SystemExit("unset TRITON_INTERPRET: nothing compiles under it")
    cases = [case for name in sys.argv[1:] for case in cases_of(name)]
    with (
        tempfile.TemporaryDirectory() as cache_dir,
        ProcessPoolExecutor(
            WORKERS, get_context("spawn"), prepare_worker, (cache_dir,)
        ) as pool,
    ):
        print(json.dumps(list(pool.map(compile_case, cases))))


if __name__ == "__main__":
    main()
