"""The jobs backward-d64, -d128, -d256 and -other: our backward beside others'.

    python -m bench.backward_speed --head-dim 128
    python -m bench.backward_speed --other

As bench.forward_speed, in the same cells, with 2.5 times the operations: five
products where the forward has two. Products that a kernel computes a second time
do not count. The error is the largest of the three gradients'.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial

from bench import command, job
from bench.accuracy import make_inputs
from bench.cases import Case
from bench.gradients import GradientJudge, make_do
from bench.implementations_backward import BACKWARDS, Backward
from bench.measure import Contender, Machine, measure
from bench.rows import Columns


def main() -> None:
    command.main("bench.backward_speed", BACKWARDS, measure_case, columns)


def measure_case(
    case: Case, implementations: Mapping[str, Backward], machine: Machine, device: str
) -> Iterator[job.Outcome]:
    inputs = make_inputs(case, device)
    do = make_do(inputs)
    contenders = [
        Contender(name, partial(prepare, case, inputs, do))
        for name, prepare in implementations.items()
    ]
    judge = GradientJudge.of(case, inputs, do)
    return measure(contenders, judge, case.backward_flops, machine)


def columns(impl: str, case: Case) -> Columns:
    return {"impl": impl, "mode": "backward", **asdict(case)}


if __name__ == "__main__":
    main()
