"""Compiles kernels for sm_90 with no GPU; prints what ptxas says as JSON.

    python compile_sm90.py KERNEL...

Run as a program, in a process of its own with TRITON_INTERPRET unset: under
the interpreter Triton refuses to compile. The real `launch` chooses the tile
and passes the arguments; only its last step is replaced, by Triton's own
`warmup`, which specialises and compiles as a launch does and then stops.
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
import triton
from triton.backends.compiler import GPUTarget

from flashwalk import backward, delta, dropout, forward

SM_90 = GPUTarget("cuda", 90, 32)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
HEAD_DIMS = (16, 32, 64, 128, 256)  # what HEAD_DIM can be
WORKERS = 2

# Triton compiles anew for a stride that 16 divides, for one beyond int32, and
# for an address that 16 bytes divide. Of all the combinations these are the
# corners: everything divisible; nothing; rows cut out of divisible ones at the
# end and at the beginning; and the first two with strides in int64.
LAYOUTS = ("aligned", "ragged", "padded", "shifted", "far", "far-ragged")


# Where each kernel is a name, and whether causal makes another one of it.
KERNELS: dict[str, tuple[ModuleType, str]] = {
    "forward": (forward, "_attn_fwd"),
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


class HostDriver:
    """Stands in for the CUDA driver, as far as compiling asks for one."""

    def get_current_target(self):
        return SM_90

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


class Warmup:
    """Takes a kernel's place in its module: compiles, does not launch."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def compile_only(*args, **kwargs):
            log = io.StringIO()
            with contextlib.redirect_stdout(log):
                self.compiled = self.kernel.warmup(*args, grid=grid, **kwargs)
            self.log = log.getvalue()

        return compile_only


class Skipped:
    """Takes a kernel's place in its module: does nothing."""

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None


def make_tensor(case: Case, nheads: int, seqlen: int) -> torch.Tensor:
    """A tensor, on the meta device, whose strides and address suit the layout."""
    batch, dim = 2, case.head_dim
    if "ragged" in case.layout:
        batch, nheads, seqlen, dim = 3, nheads - 1, seqlen - 1, dim - 1
    strides = [nheads * seqlen * dim, seqlen * dim, dim, 1]
    if "far" in case.layout:
        strides = [2**31 + strides[0], 2**31 + strides[1], 2**31 + strides[2], 1]
    shape = (batch, nheads, seqlen, dim)
    dtype = DTYPES[case.dtype]
    whole = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    if case.layout == "padded":
        return whole[..., :-1]
    if case.layout == "shifted":
        return whole[..., 1:]
    return whole


@contextlib.contextmanager
def standing_in(name: str):
    """One kernel's Warmup, in its place; the others are skipped."""
    places = set(KERNELS.values())
    kernels = {place: getattr(*place) for place in places}
    warmup = Warmup(kernels[KERNELS[name]])
    try:
        for place in places:
            setattr(*place, warmup if place == KERNELS[name] else Skipped())
        yield warmup
    finally:
        for place, kernel in kernels.items():
            setattr(*place, kernel)


def launch(case: Case) -> None:
    """Launches the forward or the backward on tensors of the case's layout."""
    q = make_tensor(case, nheads=16, seqlen=4096)
    k, v = (make_tensor(case, nheads=4, seqlen=2048) for _ in "kv")
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device="meta")
    how = {"causal": case.causal, "softmax_scale": 0.125}
    if "dropout" in case.kernel:
        how["seed"] = torch.empty(1, dtype=torch.int64, device="meta")
        how["dropout_p"] = 0.25
    if "forward" in case.kernel:
        out = torch.empty(q.shape, dtype=q.dtype, device="meta")
        KERNELS[case.kernel][0].launch(q, k, v, out, lse, **how)
    else:
        # Gradients lie as their tensors do, and out as do: no more variants.
        backward.launch(q, k, v, q, lse, q, lse, q, k, v, **how)


def compile_case(case: Case) -> dict:
    """Compiles one case; returns it with the registers, spills and warnings."""
    with standing_in(case.kernel) as warmup:
        launch(case)
    return case._asdict() | {
        "registers": number(r"Used (\d+) registers", warmup.log),
        "spill_bytes": number(r"(\d+) bytes spill stores", warmup.log)
        + number(r"(\d+) bytes spill loads", warmup.log),
        # C7519 is no warning: ptxas adds the fence that registers need.
        "warnings": re.findall(r".*\bC75(?!19)\d\d\b.*", warmup.log),
        "shared_bytes": warmup.compiled.metadata.shared,
        "wgmma": "wgmma" in warmup.compiled.asm["ptx"],
    }


def number(pattern: str, log: str) -> int:
    """The one number that `pattern` finds in the log of ptxas."""
    (found,) = re.findall(pattern, log)
    return int(found)


def prepare_worker(cache_dir: str) -> None:
    """Makes Triton compile for sm_90, afresh, and show what ptxas says."""
    triton.runtime.driver.set_active(HostDriver())
    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.cache.dir = cache_dir


def cases_of(kernel: str) -> list[Case]:
    """The cases of one kernel that differ enough: compiling takes time."""
    causal = (False,) if kernel in KNOWS_NO_MASK else (False, True)
    cases = [Case(kernel, *c) for c in product(DTYPES, HEAD_DIMS, causal, LAYOUTS)]
    if kernel == "forward":
        # bf16 has fp16's tiles and instructions: its two main layouts are enough.
        return [c for c in cases if c.dtype != "bf16" or c.layout in LAYOUTS[:2]]
    main, more = layouts_of(kernel)
    return [
        c
        for c in cases
        if c.layout == "aligned"
        or (c.layout in main and c.dtype != "bf16")
        or (c.layout in more and c.dtype != "bf16" and c.causal and c.head_dim >= 128)
    ]


def layouts_of(kernel: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The main layouts to compile a kernel for, and the others."""
    if "dropout" in kernel:  # one table of tiles for all of them
        return ("aligned",), ("padded", "far-ragged")
    if kernel == "forward":
        return LAYOUTS, ()
    return LAYOUTS[:2], ("padded", "far", "far-ragged")


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
