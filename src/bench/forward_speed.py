"""The jobs forward-d64, -d128, -d256 and -other: our forward beside others'.

    python -m bench.forward_speed --head-dim 128
    python -m bench.forward_speed --other

One head dim a job, so that all that is compared is measured in one run. The sizes
that no tile was chosen on stand in a job of their own, beside the fastest alone.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial

import torch

from bench import job
from bench.accuracy import Judge, make_inputs
from bench.cases import NHEADS, Case, forward_cases, other_cases
from bench.implementations import IMPLEMENTATIONS, RIVALS, Implementation
from bench.measure import Contender, Machine, cuda_machine, measure
from bench.rows import Columns, Rows


def main() -> None:
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--head-dim", type=int, choices=NHEADS)
    which.add_argument("--other", action="store_true")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("bench.forward_speed needs a CUDA device")
    machine = cuda_machine()
    cases = other_cases() if chosen.other else forward_cases(chosen.head_dim)
    names = ("flashwalk", *RIVALS) if chosen.other else tuple(IMPLEMENTATIONS)
    measure_one = partial(
        measure_case,
        implementations={name: IMPLEMENTATIONS[name] for name in names},
        machine=machine,
        device="cuda",
    )
    with Rows.open() as rows:
        job.run(rows, cases, measure_one, columns, machine)


def measure_case(
    case: Case,
    implementations: Mapping[str, Implementation],
    machine: Machine,
    device: str,
) -> Iterator[job.Outcome]:
    inputs = make_inputs(case, device)
    contenders = [
        Contender(name, partial(prepare, case, inputs))
        for name, prepare in implementations.items()
    ]
    return measure(contenders, Judge.of(case, inputs), case.flops, machine)


def columns(impl: str, case: Case) -> Columns:
    return {"impl": impl, "mode": "forward", **asdict(case)}


if __name__ == "__main__":
    main()
