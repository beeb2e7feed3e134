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
from torch import Tensor

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
from flashwalk.hopper.host import Recipe
from flashwalk.signature import Signature

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
    return launched(_Chosen(tile, variant.heads_at_once), case, inputs)


class _Chosen:
    """The kernel's module, as far as `launched` needs it, with choices made.

    The first launch prepares them. They are in no cache, where they would meet
    the usual order of the same tiles.
    """

    def __init__(self, tile: forward.Tile, heads_at_once: int | None) -> None:
        self._tile, self._heads_at_once = tile, heads_at_once
        self._recipe: Recipe | None = None

    def launch(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        *,
        causal: bool,
        softmax_scale: float,
    ) -> None:
        if self._recipe is None:
            self._recipe = self._prepare(
                Signature.of(q, k, v), out.stride(), lse.stride(1),
                causal, softmax_scale, self._tile,
            )  # fmt: skip
        self._recipe.launch(forward._attn_fwd, (q, k, v, out), lse)

    def _prepare(self, *asked: Any) -> Recipe:
        usual = schedule.heads_in_l2
        if (heads := self._heads_at_once) is not None:
            schedule.heads_in_l2 = lambda *sizes: heads
        try:
            return forward.prepare.__wrapped__(*asked)
        finally:
            schedule.heads_in_l2 = usual


def columns(variant: str, case: Case) -> Columns:
    return {"variant": variant, "mode": "forward", **asdict(case)}


if __name__ == "__main__":
    main()
