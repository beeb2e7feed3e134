"""What the jobs of forward and backward share: a head dim, or the other sizes.

One head dim a job, so that all that is compared is measured in one run. The sizes
that no tile was chosen on stand in a job of their own, beside the fastest alone.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from bench import job
from bench.cases import NHEADS, Case, forward_cases, other_cases
from bench.implementations import RIVALS
from bench.measure import cuda_machine
from bench.rows import Columns, Rows


def main(
    program: str,
    implementations: Mapping[str, Any],
    measure_case: Callable[..., Iterator[job.Outcome]],
    columns: Callable[[str, Case], Columns],
) -> None:
    """Runs a job as its command line asks.

    implementations: what measure_case(case, implementations=…, machine=…,
    device=…) takes, by name; all of them for a head dim.
    """
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--head-dim", type=int, choices=NHEADS)
    which.add_argument("--other", action="store_true")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit(f"{program} needs a CUDA device")
    machine = cuda_machine()
    cases = other_cases() if chosen.other else forward_cases(chosen.head_dim)
    names = ("flashwalk", *RIVALS) if chosen.other else tuple(implementations)
    measure_one = partial(
        measure_case,
        implementations={name: implementations[name] for name in names},
        machine=machine,
        device="cuda",
    )
    with Rows.open() as rows:
        job.run(rows, cases, measure_one, columns, machine)
