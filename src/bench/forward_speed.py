"""The job forward-d64, -d128, -d256: our forward beside others'.

    python -m bench.forward_speed --head-dim 128

One head dim a job, so that all that is compared is measured in one run.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial

import torch

from bench import job
from bench.accuracy import Judge, make_inputs
from bench.cases import NHEADS, Case, forward_cases
from bench.implementations import IMPLEMENTATIONS, Implementation
from bench.measure import Contender, Machine, cuda_machine, measure
from bench.rows import Columns, Rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--head-dim", type=int, choices=NHEADS, required=True)
    head_dim = parser.parse_args().head_dim
    if not torch.cuda.is_available():
        raise SystemExit("bench.forward_speed needs a CUDA device")
    machine = cuda_machine()
    measure_one = partial(
        measure_case, implementations=IMPLEMENTATIONS, machine=machine, device="cuda"
    )
    with Rows.open() as rows:
        job.run(rows, forward_cases(head_dim), measure_one, columns, machine)


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
