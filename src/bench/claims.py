"""Computes the quantities that the pages state, on the CPU; a row for each.

A case holds every parameter of its claim. Where a number can be had in two
ways, the job does both and fails when they disagree.
"""

import os
from collections.abc import Iterator

from bench.rows import Columns, Rows


def all_claims() -> Iterator[tuple[Columns, Columns]]:
    """Every claim. TRITON_INTERPRET must have been set before this is called."""
    from bench import (
        claims_backward,
        claims_backward_kernels,
        claims_backward_kernels_cost,
        claims_backward_kernels_tiles,
        claims_causal,
        claims_compiled,
        claims_end,
        claims_grid,
        claims_kernel,
        claims_pitfalls,
        claims_placed,
        claims_rounding,
        claims_state,
        claims_tiles,
        claims_traffic,
        claims_walk,
    )

    yield from claims_traffic.traffic_claims()
    yield from claims_grid.grid_claims()
    yield from claims_state.state_claims()
    yield from claims_placed.placed_claims()
    yield from claims_walk.worked_example()
    yield from claims_walk.bookkeeping()
    yield from claims_kernel.kernel_agrees()
    yield from claims_kernel.broken_updates()
    yield from claims_kernel.tail_counted()
    yield from claims_kernel.empty_row()
    yield from claims_rounding.tail_leak()
    yield from claims_rounding.weights_in_16_bits()
    yield from claims_rounding.smallest_weight()
    yield from claims_rounding.sums_of_rounded_weights()
    yield from claims_rounding.overflow_of_exp()
    yield from claims_rounding.base_two()
    yield from claims_rounding.scale_on_q()
    yield from claims_rounding.scores_in_tf32()
    yield from claims_compiled.compiled_claims()
    yield from claims_causal.causal_claims()
    yield from claims_tiles.compiled_claims()
    yield from claims_end.end_claims()
    yield from claims_pitfalls.pitfall_claims()
    yield from claims_backward.backward_claims()
    yield from claims_backward_kernels.backward_kernel_claims()
    yield from claims_backward_kernels_cost.cost_claims()
    yield from claims_backward_kernels_tiles.compiled_claims()


def main() -> None:
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported
    with Rows.open() as rows:
        for case, values in all_claims():
            rows.measured(case, values)


if __name__ == "__main__":
    main()
