"""The job ladder: every rung, from the teaching kernel to the fastest, in one run.

    python -m bench.ladder_speed

Each is called by its own launcher, so that a rung is never replaced by another.
"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from importlib import import_module

import torch

from bench import job
from bench.accuracy import Judge, make_inputs
from bench.cases import Case, ladder_cases
from bench.implementations import launched
from bench.measure import Contender, Machine, cuda_machine, measure
from bench.rows import Columns, Rows
from flashwalk.ladder import RUNGS


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("bench.ladder_speed needs a CUDA device")
    machine = cuda_machine()
    measure_one = partial(measure_case, machine=machine, device="cuda")
    with Rows.open() as rows:
        job.run(rows, ladder_cases(), measure_one, columns, machine)


def measure_case(case: Case, machine: Machine, device: str) -> Iterator[job.Outcome]:
    inputs = make_inputs(case, device)
    contenders = [
        Contender(name, partial(launched, import_module(module), case, inputs))
        for name, module in RUNGS.items()
    ]
    return measure(contenders, Judge.of(case, inputs), case.flops, machine)


def columns(rung: str, case: Case) -> Columns:
    return {"rung": rung, "mode": "forward", **asdict(case)}


if __name__ == "__main__":
    main()
