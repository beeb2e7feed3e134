"""The job training-step: a transformer block trained, with one attention or another.

    python -m bench.training_step

All attentions are timed in one run on one block: in each round a few steps of
each, in an order that turns, as bench.measure says. Time is taken by events on the
device, between the parts of the steps themselves. Autocast is to bf16.
"""

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

import flashwalk
from bench.accuracy import Inputs, Judge, causal_mask, naive_attention
from bench.cases import Case
from bench.implementations import refusals_of, sdpa_function
from bench.measure import (
    Machine,
    Timing,
    Unmeasured,
    Values,
    attempt,
    cuda_machine,
    in_rounds,
    short,
)
from bench.rows import Columns, Rows
from bench.training import PARTS, Attention, Training, silent

CASE = Case(4, 16, 16, 4096, 4096, 128, "bf16", causal=True)
WARMUP, REPEATS = 3, 8  # steps in a round

Times = dict[str, float]  # milliseconds by part


def attentions(case: Case, device: str) -> dict[str, Attention]:
    hidden = causal_mask(case, device)

    def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # Autocast would make the weights fp32, and keep them twice.
        with torch.autocast(q.device.type, enabled=False):
            return naive_attention(Inputs(q, k, v), case.softmax_scale, hidden)

    return {
        "flashwalk": partial(flashwalk.attention, causal=case.causal),
        "cudnn": _sdpa(SDPBackend.CUDNN_ATTENTION, case),
        "fa2": _sdpa(SDPBackend.FLASH_ATTENTION, case),
        "naive": naive,
    }


def _sdpa(backend: SDPBackend, case: Case) -> Attention:
    attention = sdpa_function(backend, case)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with refusals_of(backend):
            return attention(q, k, v)

    return call


class Clock(NamedTuple):
    """now: an event on the device. between: milliseconds of two of them, waiting
    for the second."""

    now: Callable[[], Any]
    between: Callable[[Any, Any], float]


def cuda_clock() -> Clock:
    def now() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def between(first: torch.cuda.Event, last: torch.cuda.Event) -> float:
        last.synchronize()
        return float(first.elapsed_time(last))

    return Clock(now, between)


# --- Right, and then timed ---


def judge_of(naive: Attention, training: Training) -> Judge:
    """Of the gradient that has come through the attention: the weights' of Q, K, V.

    The truth has the attention in fp32, the naive one sets the budget; all else
    is the same block, in the same precision.
    """

    def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return naive(q.float(), k.float(), v.float()).to(q.dtype)

    truth, textbook = (gradient(training, x) for x in (exact, naive))
    return Judge.between(truth.double(), textbook)


def gradient(training: Training, attention: Attention) -> Tensor:
    """In the dtype that it was computed in."""
    training.differentiate(attention, silent)
    found = training.block.qkv.weight.grad
    assert found is not None
    return found.to(training.dtype)


def peak_of(
    attention: Attention, training: Training, judge: Judge, machine: Machine
) -> float:
    """MiB of a step beyond parameters, optimiser and input, if its gradient is
    right; else raises WrongAnswer."""
    judge.error(gradient(training, attention))
    step = partial(training.step, attention, silent)
    step()  # the first step makes the optimiser's state
    training.optimiser.zero_grad()
    return machine.peak_mib(step)


def times_of_steps(training: Training, attention: Attention, clock: Clock) -> Times:
    """The median of each part over a round's steps."""
    steps: list[dict[str, Any]] = []
    for _ in range(WARMUP + REPEATS):
        marks: dict[str, Any] = {}
        training.step(attention, partial(_note, marks, clock))
        steps.append(marks)
    return {
        part: statistics.median(
            clock.between(marks[first], marks[last]) for marks in steps[WARMUP:]
        )
        for part, (first, last) in PARTS.items()
    }


def _note(marks: dict[str, Any], clock: Clock, name: str) -> None:
    marks[name] = clock.now()


def measure(
    found: Mapping[str, Attention], training: Training, clock: Clock, machine: Machine
) -> dict[str, dict[str, Values] | Unmeasured]:
    """The values of each attention by part, or why it has none."""
    judge = judge_of(found["naive"], training)
    peaks = {
        name: attempt(partial(peak_of, attention, training, judge, machine), machine)
        for name, attention in found.items()
    }
    right = [name for name, peak in peaks.items() if not isinstance(peak, Unmeasured)]
    rounds = in_rounds(
        right, lambda name: times_of_steps(training, found[name], clock), machine
    )
    outcomes: dict[str, dict[str, Values] | Unmeasured] = {}
    for name, peak in peaks.items():
        if isinstance(peak, Unmeasured):
            outcomes[name] = peak
        elif isinstance(times := rounds[name], Unmeasured):
            outcomes[name] = times
        else:
            outcomes[name] = values(times, peak)
    return outcomes


def values(rounds: Sequence[Times], peak: float) -> dict[str, Values]:
    """By part; the most memory, in MiB, is the step's."""
    parts = {part: Timing.over([t[part] for t in rounds]).times() for part in PARTS}
    return {**parts, "step": {**parts["step"], "peak_mib": short(peak)}}


def columns(impl: str, part: str, case: Case) -> Columns:
    return {"impl": impl, "part": part, **asdict(case)}


def write(
    rows: Rows, case: Case, outcomes: Mapping[str, dict[str, Values] | Unmeasured]
) -> None:
    """A row for each part of each attention's steps."""
    for name, outcome in outcomes.items():
        print(name, outcome, file=sys.stderr)
        for part in PARTS:
            if isinstance(outcome, Unmeasured):
                rows.unmeasured(columns(name, part, case), *outcome)
            else:
                rows.measured(columns(name, part, case), outcome[part])


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("bench.training_step needs a CUDA device")
    training = Training.of(CASE, "cuda")
    outcomes = measure(attentions(CASE, "cuda"), training, cuda_clock(), cuda_machine())
    with Rows.open() as rows:
        write(rows, CASE, outcomes)


if __name__ == "__main__":
    main()
