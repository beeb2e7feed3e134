"""Compiles every rung for sm_90 with no GPU; prints what ptxas says as JSON.

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
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from flashwalk import forward
from flashwalk.ladder import RUNGS, rung

SM_90 = GPUTarget("cuda", 90, 32)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
HEAD_DIMS = (16, 32, 64, 128, 256)  # what HEAD_DIM can be
WORKERS = 2

# Triton compiles anew for a stride that 16 divides, for one beyond int32, and
# for an address that 16 bytes divide. Of all the combinations these are the
# corners: everything divisible; nothing; rows cut out of divisible ones at the
# end and at the beginning; and the first two with strides in int64.
LAYOUTS = ("aligned", "ragged", "padded", "shifted", "far", "far-ragged")

# Of the other rungs: those in pointers take all that the first one does, and a
# corner of each kind is enough; those with descriptors know one layout. In Gluon
# a diagonal that may cross two blocks is another kernel ("crossing").
IN_POINTERS = ("base_two", "two_loops", "moving_pointers")
IN_DESCRIPTORS = tuple(name for name in RUNGS if name not in ("forward", *IN_POINTERS))
RUNG_HEAD_DIMS = (64, 128, 256)


class Case(NamedTuple):
    """One kernel: what a launch with these arguments compiles."""

    dtype: str
    head_dim: int
    causal: bool
    layout: str
    rung: str = "forward"


class HostDriver:
    """Stands in for the CUDA driver, as far as compiling asks for one."""

    def get_current_target(self):
        return SM_90

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


class Warmup:
    """Takes the kernel's place in `forward`: compiles, does not launch."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def compile_only(*args, **kwargs):
            self.compiled = self.kernel.warmup(*args, grid=grid, **kwargs)

        return compile_only


class Skipped:
    """Takes a kernel's place in its module: does nothing."""

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None


@contextlib.contextmanager
def standing_in(place: tuple, places: Iterable[tuple]):
    """The Warmup of the kernel at one place, (module, name); the others do nothing."""
    kernels = {each: getattr(*each) for each in places}
    warmup = Warmup(kernels[place])
    try:
        for each in kernels:
            setattr(*each, warmup if each == place else Skipped())
        yield warmup
    finally:
        for each, kernel in kernels.items():
            setattr(*each, kernel)


def make_tensor(case: Case, nheads: int, seqlen: int) -> torch.Tensor:
    """A tensor, on the meta device, whose strides and address suit the layout."""
    batch, dim = 2, case.head_dim
    if case.layout == "crossing":
        seqlen -= seqlen // 2048  # so that q's and k's differ by no multiple
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


def compile_case(case: Case, tile: forward.Tile | None = None) -> dict:
    """Compiles one case; returns it with the registers, spills and warnings."""
    q = make_tensor(case, nheads=16, seqlen=4096)
    k, v = (make_tensor(case, nheads=4, seqlen=2048) for _ in "kv")
    out = torch.empty(q.shape, dtype=q.dtype, device="meta")
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device="meta")
    kernel = rung(case.rung)
    if case.rung == "hopper":
        prepare_plan(kernel)
    warmup = Warmup(kernel._attn_fwd)
    log = io.StringIO()
    kernel._attn_fwd = warmup
    try:
        with contextlib.redirect_stdout(log):
            kernel.launch(
                q, k, v, out, lse, causal=case.causal, softmax_scale=0.125, tile=tile
            )
    finally:
        kernel._attn_fwd = warmup.kernel
    return case._asdict() | {
        "registers": number(r"Used (\d+) registers", log.getvalue()),
        "spill_bytes": number(r"(\d+) bytes spill stores", log.getvalue())
        + number(r"(\d+) bytes spill loads", log.getvalue()),
        "warnings": re.findall(r".*\bC75\d\d\b.*", log.getvalue()),
        "shared_bytes": warmup.compiled.metadata.shared,
        "wgmma": "wgmma" in warmup.compiled.asm["ptx"],
    }


def prepare_plan(kernel) -> None:
    """The plan of tiles asks the device for its size, and lies on it."""
    tiles = torch.empty(16, dtype=torch.int32, device="meta")
    kernel.host.multiprocessors = lambda device: 132
    kernel.plan_on_device = lambda *args: (tiles, tiles)
    kernel.keep_for_graphs = lambda plan: None


def number(pattern: str, log: str) -> int:
    """The one number that `pattern` finds in the log of ptxas."""
    (found,) = re.findall(pattern, log)
    return int(found)


def prepare_worker(cache_dir: str) -> None:
    """Makes Triton compile for sm_90, afresh, and show what ptxas says."""
    triton.runtime.driver.set_active(HostDriver())
    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.cache.dir = cache_dir


def compile_all(cases: list, compile_case: Callable) -> list:
    """compile_case of each case, in their order, by a few processes."""
    if os.environ.get("TRITON_INTERPRET"):
        raise SystemExit("unset TRITON_INTERPRET: nothing compiles under it")
    with (
        tempfile.TemporaryDirectory() as cache_dir,
        ProcessPoolExecutor(
            WORKERS, get_context("spawn"), prepare_worker, (cache_dir,)
        ) as pool,
    ):
        return list(pool.map(compile_case, cases))


def rung_cases() -> list[Case]:
    """What is compiled of the rungs above the first."""
    masks = (False, True)
    cases = product(("fp16", "fp32"), RUNG_HEAD_DIMS, masks, LAYOUTS[:2], IN_POINTERS)
    found = [Case(*c) for c in cases]
    for name, head_dim in product(IN_DESCRIPTORS, RUNG_HEAD_DIMS):
        found += [Case("bf16", head_dim, causal, "aligned", name) for causal in masks]
        if name != "descriptors":
            found.append(Case("bf16", head_dim, True, "crossing", name))
    return found


def main() -> None:
    """Compiles every case in use and prints a JSON list."""
    cases = [Case(*c) for c in product(DTYPES, HEAD_DIMS, (False, True), LAYOUTS)]
    # bf16 has fp16's tiles and instructions: its two main layouts are enough.
    cases = [c for c in cases if c.dtype != "bf16" or c.layout in LAYOUTS[:2]]
    cases += rung_cases()
    print(json.dumps(compile_all(cases, compile_case)))


if __name__ == "__main__":
    main()
