"""What the job traffic profiles: one call of each implementation, from a cold cache.

    python -m bench.traffic_target forward naive
    python -m bench.traffic_target forward forward two_loops hopper
    python -m bench.traffic_target backward flashwalk portable

The first word says whether it is the forward or, on an output made beforehand, the
backward.

bench.traffic starts it under Nsight Compute, which counts only between the start
and the stop below. It runs without a profiler too, and then shows nothing.
"""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bench import implementations_backward as backward
from bench.accuracy import Inputs, make_inputs, naive_attention
from bench.cases import SEEDS
from bench.gradients import make_do
from bench.implementations import launched
from flashwalk.ladder import rung

CASE = replace(SEEDS[64], causal=False)

# Many times the L2 cache of any GPU: once this much has been read, nothing else
# is left in there.
SWEEP_BYTES = 512 * 2**20
SWEEP_KERNEL = "_sweep"
_BLOCK = 4096  # elements a program
_ELEMENT = 4  # bytes


# What has a backward; the rungs are forwards.
BACKWARDS = {
    "naive": backward.naive,
    "flashwalk": backward.ours,
    "portable": backward.portable,
}


def naive(inputs: Inputs) -> Tensor:
    return naive_attention(inputs, CASE.softmax_scale, hidden=None)


def call_of(mode: str, name: str, inputs: Inputs) -> Callable[[], Any]:
    """One call of the naive version, or of a rung of the ladder; or a backward."""
    if mode == "backward":
        return BACKWARDS[name](CASE, inputs, make_do(inputs)).run
    if name == "naive":
        return partial(naive, inputs)
    return launched(rung(name), CASE, inputs).run


@triton.jit
def _sweep(x_ptr, BLOCK: tl.constexpr):
    x_at = x_ptr + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_at)
    # Never so, since x is all zeros; but the compiler must load x to know that.
    tl.store(x_at, x, mask=x == 1.0)


class Sweep:
    """Reads memory that no one else uses until the L2 cache holds nothing else.

    What was written and still lay in the cache has then reached device memory.
    The sweep itself writes nothing.
    """

    def __init__(self, device: str, size: int = SWEEP_BYTES) -> None:
        """size: bytes, a multiple of a program's share."""
        self._x = torch.zeros(size // _ELEMENT, dtype=torch.float32, device=device)

    def __call__(self) -> None:
        grid = (self._x.numel() // _BLOCK,)
        kernel: Any = _sweep
        kernel[grid](self._x, BLOCK=_BLOCK)


def main() -> None:
    inputs = make_inputs(CASE, "cuda")
    mode, *names = sys.argv[1:]
    calls = [call_of(mode, name, inputs) for name in names]
    sweep = Sweep("cuda")
    # Compiles all kernels, and takes the memory that they need.
    for call in calls:
        for _ in range(2):
            call()
            sweep()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    for call in calls:
        call()
        sweep()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
