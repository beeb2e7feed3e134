"""The job hopper-choices: the last rung with one of its choices taken back.

    python -m bench.hopper_choices

What each choice is worth, where it was made, and what was not chosen. All
variants are the same kernel with another tile or another order of tiles, and so
are right by the same tests; each is judged here too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import torch

from bench import job
from bench.accuracy import Inputs, Judge, make_inputs
from bench.cases import Case, ladder_cases
from bench.implementations import launched
from bench.measure import (
    Call,
    Contender,
    Machine,
    Unsupported,
    cuda_machine,
    measure,
)
from bench.rows import Columns, Rows
from flashwalk.hopper import forward, schedule

CHOSEN = "as chosen"


class Variant(NamedTuple):
    """Fields of the tile that differ, or how many heads are worked on at once."""

    tile: Mapping[str, int | bool] = {}
    heads_at_once: int | None = None


# By head dim; the name says what differs.
VARIANTS: dict[int, dict[str, Variant]] = {
    64: {
        CHOSEN: Variant(),
        "two warpgroups, Q in registers": Variant(
            {"groups": 2, "registers": 240, "q_in_registers": True}
        ),
        "lazy rescale": Variant({"lazy": True}),
        "three stages": Variant({"stages": 3}),
        "one head at a time": Variant(heads_at_once=1),
        "all heads at once": Variant(heads_at_once=2**20),
    },
    128: {
        CHOSEN: Variant(),
        "Q in shared memory": Variant({"q_in_registers": False}),
        "rescale always": Variant({"lazy": False}),
        "64 keys a block": Variant({"block_n": 64}),
        "one head at a time": Variant(heads_at_once=1),
        "all heads at once": Variant(heads_at_once=2**20),
    },
    256: {
        CHOSEN: Variant(),
        "rescale always": Variant({"lazy": False}),
        "32 keys a block": Variant({"block_n": 32}),
        "one head at a time": Variant(heads_at_once=1),
        "all heads at once": Variant(heads_at_once=2**20),
    },
}


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("bench.hopper_choices needs a Hopper GPU")
    machine = cuda_machine()
    measure_one = partial(measure_case, machine=machine)
    with Rows.open() as rows:
        job.run(rows, ladder_cases(), measure_one, columns, machine)


def measure_case(case: Case, machine: Machine) -> Iterator[job.Outcome]:
    inputs = make_inputs(case, "cuda")
    contenders = [
        Contender(name, partial(prepare, variant, case, inputs))
        for name, variant in VARIANTS[case.head_dim].items()
        # Without a mask every tile is as long as the others, in any order.
        if case.causal or variant.heads_at_once is None
    ]
    return measure(contenders, Judge.of(case, inputs), case.flops, machine)


def prepare(variant: Variant, case: Case, inputs: Inputs) -> Call:
    """The Hopper kernel with one choice changed."""
    tile = forward.TILES[case.head_dim]._replace(**variant.tile)  # type: ignore[arg-type]
    if case.causal and tile.block_n < schedule.ROWS:
        raise Unsupported("64 rows would cross the diagonal in more than one block")
    call = launched(_WithTile(tile), case, inputs)
    heads = variant.heads_at_once
    if heads is None:
        return call
    usual = schedule.heads_in_l2

    def run() -> Any:
        # By hand: a patch by unittest.mock takes longer than the kernel.
        schedule.heads_in_l2 = lambda *sizes: heads
        try:
            return call.run()
        finally:
            schedule.heads_in_l2 = usual

    return Call(run)


class _WithTile:
    """The kernel's module, as far as `launched` needs it, with a tile given."""

    def __init__(self, tile: forward.Tile) -> None:
        self.launch = partial(forward.launch, tile=tile)


def columns(variant: str, case: Case) -> Columns:
    return {"variant": variant, "mode": "forward", **asdict(case)}


if __name__ == "__main__":
    main()
