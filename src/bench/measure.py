"""Measures contenders on one case: the right answers are timed, side by side.

The chip is limited by its power, so its clock depends on what has just run: two
runs of one kernel have differed by 9 %. Figures are comparable only within one
case of one run, where every contender meets the same drift: all are measured
once in each round, and every other round goes in reverse.
"""

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from bench.accuracy import WrongAnswer

ROUNDS = 6  # even, so that each contender runs as often before as after another
WARMUP_MS = 40
REPEAT_MS = 80

T = TypeVar("T")
Run = Callable[[], Any]
Values = dict[str, int | float | str | bool]


class Unsupported(Exception):
    """The contender cannot do this case, or cannot be reached here."""


class Call(NamedTuple):
    """A contender, ready for one case: inputs are made, kernels are compiled.

    run: what is timed. output: its result as the judge wants it, with tensors
    of (batch, heads, seqlen, head_dim).
    """

    run: Run
    output: Callable[[Any], Any] = lambda result: result


class Judge(Protocol):
    """Says of an answer how far it is from the truth.

    budget: of the error. poison: leaves no earlier answer in free memory. error:
    the largest; raises `WrongAnswer` beyond the budget.
    """

    @property
    def budget(self) -> float: ...

    def poison(self) -> None: ...

    def error(self, answer: Any, /) -> float: ...


class Contender(NamedTuple):
    name: str
    prepare: Callable[[], Call]


class Unmeasured(NamedTuple):
    status: str
    reason: str


class Admitted(NamedTuple):
    """A contender whose answer was right, and what its check found."""

    call: Call
    found: Values


class Machine(NamedTuple):
    """The device's part; tests bring their own.

    time: the median milliseconds of a run. peak_mib: the most memory above the
    inputs during one. release: gives cached memory back.
    """

    time: Callable[[Run], float]
    peak_mib: Callable[[Run], float]
    release: Callable[[], None]


@dataclass(frozen=True)
class Timing:
    """Milliseconds: the median over the rounds, the lowest and the highest."""

    ms: float
    ms_low: float
    ms_high: float
    rounds: int

    @classmethod
    def over(cls, times: Sequence[float]) -> "Timing":
        return cls(statistics.median(times), min(times), max(times), len(times))

    def values(self, flops: int) -> Values:
        """With the rates: the lowest rate belongs to the longest time."""
        return {
            **self.times(),
            "tflops": short(flops / self.ms / 1e9),
            "tflops_low": short(flops / self.ms_high / 1e9),
            "tflops_high": short(flops / self.ms_low / 1e9),
        }

    def times(self) -> Values:
        return {
            "ms": short(self.ms),
            "ms_low": short(self.ms_low),
            "ms_high": short(self.ms_high),
            "rounds": self.rounds,
        }


def round_order(names: Sequence[str], index: int) -> list[str]:
    """The order of round `index`: every name once, odd rounds in reverse.

    Each pair of rounds begins with another name, so that it is not always the
    same contenders that run right after themselves where rounds meet.
    """
    start = index // 2 % len(names) if names else 0
    order = [*names[start:], *names[:start]]
    return order[::-1] if index % 2 else order


def measure(
    contenders: Sequence[Contender], judge: Judge, flops: int, machine: Machine
) -> Iterator[tuple[str, Values | Unmeasured]]:
    """Yields each contender's values, or why it has none, as soon as known."""
    admitted: dict[str, Admitted] = {}
    for contender in contenders:
        outcome = attempt(partial(_admit, contender, judge, machine), machine)
        if isinstance(outcome, Unmeasured):
            yield contender.name, outcome
        else:
            admitted[contender.name] = outcome

    def time(name: str) -> float:
        return machine.time(admitted[name].call.run)

    for name, times in in_rounds(list(admitted), time, machine).items():
        if isinstance(times, Unmeasured):
            yield name, times
        else:
            yield name, {**Timing.over(times).values(flops), **admitted[name].found}


def _admit(contender: Contender, judge: Judge, machine: Machine) -> Admitted:
    """Checks an answer; only then is it worth the time of a measurement."""
    call = contender.prepare()
    judge.poison()
    error = judge.error(call.output(call.run()))
    found: Values = {
        "error": short(error),
        "budget": short(judge.budget),
        "peak_mib": short(machine.peak_mib(call.run)),
    }
    return Admitted(call, found)


def in_rounds(
    names: Sequence[str], once: Callable[[str], T], machine: Machine
) -> dict[str, list[T] | Unmeasured]:
    """What `once` finds of each name, once a round; why, for one that broke."""
    found: dict[str, list[T]] = {name: [] for name in names}
    broken: dict[str, Unmeasured] = {}
    # The first to run on a rested chip has read up to 15 % too fast. This
    # measurement takes that place, and is thrown away.
    for name in names[-1:]:
        attempt(partial(once, name), machine)
    for index in range(ROUNDS):
        for name in round_order(names, index):
            if name in broken:
                continue
            outcome = attempt(partial(once, name), machine)
            if isinstance(outcome, Unmeasured):
                broken[name] = outcome
            else:
                found[name].append(outcome)
    return {**found, **broken}


def attempt(step: Callable[[], T], machine: Machine) -> T | Unmeasured:
    """What `step` returns, or why it could not: contenders are foreign code."""
    try:
        return step()
    except torch.AcceleratorError:
        # After a fault the device's answers mean nothing, nor would any row.
        raise
    except Exception as error:
        outcome = _explain(error)
    # Out of the handler the tensors of the failed step are free again.
    machine.release()
    return outcome


def _explain(error: Exception) -> Unmeasured:
    if isinstance(error, Unsupported):
        return Unmeasured("unsupported", _one_line(str(error)))
    if isinstance(error, torch.OutOfMemoryError):
        # The rest of that message names processes, and differs between runs.
        asked = re.search(r"Tried to allocate [\d.]+ \w+", str(error))
        return Unmeasured("out-of-memory", asked[0] if asked else "out of memory")
    if isinstance(error, WrongAnswer):
        return Unmeasured("failed", f"wrong answer: {_one_line(str(error))}")
    return Unmeasured("failed", _one_line(f"{type(error).__name__}: {error}"))


def _one_line(text: str) -> str:
    """A message fit for a record: short, and without this machine's folders."""
    return re.sub(r"(?:/[\w.+-]+)+/", "", " ".join(text.split()))[:300]


def short(number: float) -> float:
    """Six digits: more than any clock here can tell apart."""
    return float(f"{number:.6g}")


def cuda_machine() -> Machine:
    """The current CUDA device."""
    from triton.testing import do_bench

    def time(run: Run) -> float:
        # do_bench overwrites the L2 cache before each repeat, and records
        # events around it: the host's part is hidden while it runs ahead.
        ms = do_bench(run, warmup=WARMUP_MS, rep=REPEAT_MS, return_mode="median")
        return float(ms)

    return Machine(time, _cuda_peak_mib, torch.cuda.empty_cache)


def _cuda_peak_mib(run: Run) -> float:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20
