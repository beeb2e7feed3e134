"""The job attention-memory: what one attention takes beyond its inputs.

    python -m bench.attention_memory

Ours beside the version that writes the matrix of weights down and, under
autograd, keeps it until the backward. Counted is what PyTorch's allocator has
handed out, at its highest: the same in every run.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

import flashwalk
from bench.accuracy import Inputs, causal_mask, make_inputs, naive_attention
from bench.cases import SEEDS, Case
from bench.gradients import leaves_of, make_do
from bench.measure import Machine, Unmeasured, Values, attempt, cuda_machine
from bench.rows import Columns, Rows

CASE = SEEDS[128]
PARTS = ("forward", "forward-backward")

Attention = Callable[[Inputs], Tensor]


class Meter(NamedTuple):
    """Bytes of the device: in use now, and the most since `restart`."""

    used: Callable[[], int]
    highest: Callable[[], int]
    restart: Callable[[], None]


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("bench.attention_memory needs a CUDA device")
    inputs = make_inputs(CASE, "cuda")
    meter = Meter(
        torch.cuda.memory_allocated,
        torch.cuda.max_memory_allocated,
        torch.cuda.reset_peak_memory_stats,
    )
    with Rows.open() as rows:
        run(rows, CASE, attentions(CASE, "cuda"), inputs, meter, cuda_machine())


def attentions(case: Case, device: str) -> dict[str, Attention]:
    hidden = causal_mask(case, device)
    return {
        "flashwalk": lambda inputs: flashwalk.attention(*inputs, causal=case.causal),
        "naive": partial(
            naive_attention, softmax_scale=case.softmax_scale, hidden=hidden
        ),
    }


def run(
    rows: Rows,
    case: Case,
    found: Mapping[str, Attention],
    inputs: Inputs,
    meter: Meter,
    machine: Machine,
) -> None:
    """Writes two rows for each of them: of the forward, and of both."""
    do = make_do(inputs)
    for name, attention in found.items():
        outcome = attempt(partial(measured, attention, inputs, do, meter), machine)
        for part in PARTS:
            columns: Columns = {"impl": name, "part": part, **asdict(case)}
            if isinstance(outcome, Unmeasured):
                rows.unmeasured(columns, *outcome)
            else:
                rows.measured(columns, outcome[part])
        print(name, outcome, file=sys.stderr)
        machine.release()


def measured(
    attention: Attention, inputs: Inputs, do: Tensor, meter: Meter
) -> dict[str, Values]:
    """By part. saved_mib: what stays from the forward to the backward, the output
    with it."""
    leaves = leaves_of(inputs)
    # Libraries take their workspaces at the first call, and keep them.
    torch.autograd.grad(attention(leaves), leaves, do)
    start = meter.used()
    meter.restart()
    out = attention(leaves)
    forward, saved = meter.highest() - start, meter.used() - start
    torch.autograd.grad(out, leaves, do)
    peaks = (forward, meter.highest() - start)
    return {
        part: {"peak_mib": peak / 2**20, "saved_mib": saved / 2**20}
        for part, peak in zip(PARTS, peaks, strict=True)
    }


if __name__ == "__main__":
    main()
