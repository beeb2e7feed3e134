"""The jobs backward-d64, -d128, -d256 and -other: our backward beside others'.

    python -m bench.backward_speed --head-dim 128
    python -m bench.backward_speed --other

As bench.forward_speed, in the same cells, with 2.5 times the operations: five
products where the forward has two. Products that a kernel computes a second time
do not count. The error is the largest of the three gradients'.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial

import torch

from bench import job
from bench.accuracy import make_inputs
from bench.cases import NHEADS, Case, forward_cases, other_cases
from bench.gradients import GradientJudge, make_do
from bench.implementations import RIVALS
from bench.implementations_backward import BACKWARDS, Backward
from bench.measure import Contender, Machine, cuda_machine, measure
from bench.rows import Columns, Rows


def main() -> None:
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--head-dim", type=int, choices=NHEADS)
    which.add_argument("--other", action="store_true")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("bench.backward_speed needs a CUDA device")
    machine = cuda_machine()
    cases = other_cases() if chosen.other else forward_cases(chosen.head_dim)
    names = ("flashwalk", *RIVALS) if chosen.other else tuple(BACKWARDS)
    measure_one = partial(
        measure_case,
        backwards={name: BACKWARDS[name] for name in names},
        machine=machine,
        device="cuda",
    )
    with Rows.open() as rows:
        job.run(rows, cases, measure_one, columns, machine)


def measure_case(
    case: Case, backwards: Mapping[str, Backward], machine: Machine, device: str
) -> Iterator[job.Outcome]:
    inputs = make_inputs(case, device)
    do = make_do(inputs)
    contenders = [
        Contender(name, partial(prepare, case, inputs, do))
        for name, prepare in backwards.items()
    ]
    judge = GradientJudge.of(case, inputs, do)
    return measure(contenders, judge, case.backward_flops, machine)


def columns(impl: str, case: Case) -> Columns:
    return {"impl": impl, "mode": "backward", **asdict(case)}


if __name__ == "__main__":
    main()
