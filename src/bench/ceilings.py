"""The job ceilings: what this chip can do at all, measured.

    python -m bench.ceilings

A large matrix product, a copy, and exponentials alone. From the first and the
last follows a line for each head dim: the speed of an attention that never
multiplies while it takes exponentials. Scores need one exponential each, and
4 * head_dim floating-point operations, so

    no overlap = 4 d / (4 d / product + 1 / exponentials).
"""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from bench.measure import Machine, Timing, cuda_machine
from bench.rows import Rows

ROUNDS = 5
SIDE = 8192
COPIED_BYTES = 2**31
EXPONENTIALS = 256  # by each thread and element, one after another
HEAD_DIMS = (64, 128, 256)
_BLOCK = 1024
_PROGRAMS = 132 * 16


@triton.jit
def _exponentials(out_ptr, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Chains of 2**x, four in each thread, none of which can be left out."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = at.to(tl.float32) * -1e-6
    for _ in range(COUNT):
        x = tl.exp2(x) - 1.0
    tl.store(out_ptr + at, x)


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("bench.ceilings needs a CUDA device")
    with Rows.open() as rows:
        run(rows, cuda_machine(), SIDE, COPIED_BYTES, "cuda")


def run(rows: Rows, machine: Machine, side: int, size: int, device: str) -> None:
    """Writes a row for each ceiling, and one for each head dim."""
    a, b = (
        torch.randn(side, side, dtype=torch.bfloat16, device=device) for _ in range(2)
    )
    product = timing(machine, lambda: a @ b)
    rows.measured({"ceiling": "product"}, product.values(2 * side**3))

    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = timing(machine, lambda: target.copy_(source))
    rows.measured({"ceiling": "copy"}, {"tbs": short(2 * size / copy.ms / 1e9)})

    out = torch.empty(_PROGRAMS * _BLOCK, dtype=torch.float32, device=device)
    kernel: Any = _exponentials
    exps = timing(
        machine,
        lambda: kernel[(_PROGRAMS,)](out, COUNT=EXPONENTIALS, BLOCK=_BLOCK),
    )
    per_second = _PROGRAMS * _BLOCK * EXPONENTIALS / exps.ms * 1e3
    rows.measured({"ceiling": "exponentials"}, {"gexps": short(per_second / 1e9)})

    flops = 2 * side**3 / product.ms * 1e3
    for head_dim in HEAD_DIMS:
        rows.measured(
            {"ceiling": "no overlap", "head_dim": head_dim},
            {"tflops": short(no_overlap(head_dim, flops, per_second) / 1e12)},
        )


def no_overlap(head_dim: int, flops: float, exponentials: float) -> float:
    """FLOP/s of an attention that waits for its exponentials; both a second."""
    work = 4 * head_dim
    return work / (work / flops + 1 / exponentials)


def timing(machine: Machine, run: Callable[[], Any]) -> Timing:
    return Timing.over([machine.time(run) for _ in range(ROUNDS)])


def short(number: float) -> float:
    return float(f"{number:.6g}")


if __name__ == "__main__":
    main()
