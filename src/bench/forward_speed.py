"""The jobs forward-d64, -d128, -d256 and -other: our forward beside others'.

    python -m bench.forward_speed --head-dim 128
    python -m bench.forward_speed --other

One head dim a job: bench.command says why.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial

from bench import command, job
from bench.accuracy import Judge, make_inputs
from bench.cases import Case
from bench.implementations import IMPLEMENTATIONS, Implementation
from bench.measure import Contender, Machine, measure
from bench.rows import Columns


def main() -> None:
    command.main("bench.forward_speed", IMPLEMENTATIONS, measure_case, columns)


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
