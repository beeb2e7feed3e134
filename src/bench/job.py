"""The loop of a benchmark job: every case measured, every outcome written."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator

from bench.cases import Case
from bench.measure import Machine, Unmeasured, Values
from bench.rows import Columns, Rows

Outcome = tuple[str, Values | Unmeasured]


def run(
    rows: Rows,
    cases: Iterable[Case],
    measure_case: Callable[[Case], Iterator[Outcome]],
    columns: Callable[[str, Case], Columns],
    machine: Machine,
) -> None:
    """Writes a row for each contender of each case, and tells of it on stderr.

    columns: the case of a row, from the contender's name and what it measured.
    """
    start = time.monotonic()
    for case in cases:
        for name, outcome in measure_case(case):
            seconds = time.monotonic() - start
            print(f"{seconds:4.0f} s  {case}  {name}: {told(outcome)}", file=sys.stderr)
            if isinstance(outcome, Unmeasured):
                rows.unmeasured(columns(name, case), *outcome)
            else:
                rows.measured(columns(name, case), outcome)
        machine.release()


def told(outcome: Values | Unmeasured) -> str:
    """One line for someone who watches."""
    if isinstance(outcome, Unmeasured):
        return f"{outcome.status}: {outcome.reason}"
    spread = f"{outcome['tflops_low']:.0f}–{outcome['tflops_high']:.0f}"
    return f"{outcome['tflops']:.0f} TFLOP/s ({spread}), error {outcome['error']:.1g}"
