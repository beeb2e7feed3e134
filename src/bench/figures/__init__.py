"""The drawings of the book, each a function that returns the text of an SVG.

`python -m bench.figures` writes them into docs/figures, where the words of
each lie in a .toml file of its name.
"""

from collections.abc import Callable

from bench.figures.backward_bill import alive_when, memory_bill
from bench.figures.backward_blocks import blocks_alone, lse_gap
from bench.figures.backward_merge import any_order, two_states_meet
from bench.figures.backward_ownership import owners, walks
from bench.figures.backward_recompute import recompute
from bench.figures.backward_row import delta_two_ways, one_bad_row
from bench.figures.backward_warps import registers, timeline, warps
from bench.figures.causal_mask import causal_blocks, causal_shapes
from bench.figures.faster_descriptors import swizzle, tile_at_the_end
from bench.figures.faster_instructions import exponentials, register_file, two_loops
from bench.figures.faster_roles import keys_downwards, registers_moved, roles_timeline
from bench.figures.faster_time import in_turn, multiprocessor
from bench.figures.held_on_chip import held_on_chip
from bench.figures.lazy_base import lazy_base
from bench.figures.program_grid import program_grid
from bench.figures.register_bars import between_powers, register_bars
from bench.figures.row_end import row_end
from bench.figures.three_passes import three_passes
from bench.figures.tile_order import sequence_end, tile_order
from bench.figures.timelines import in_flight, turns
from bench.figures.uneven_programs import uneven_programs

FIGURES: dict[str, Callable[[], str]] = {
    "three-passes": three_passes,
    "program-grid": program_grid,
    "held-on-chip": held_on_chip,
    "causal-blocks": causal_blocks,
    "causal-shapes": causal_shapes,
    "uneven-programs": uneven_programs,
    "row-end": row_end,
    "multiprocessor": multiprocessor,
    "in-turn": in_turn,
    "exponentials": exponentials,
    "two-loops": two_loops,
    "register-file": register_file,
    "tile-at-the-end": tile_at_the_end,
    "swizzle": swizzle,
    "roles-timeline": roles_timeline,
    "registers-moved": registers_moved,
    "keys-downwards": keys_downwards,
    "in-flight": in_flight,
    "turns": turns,
    "register-bars": register_bars,
    "lazy-base": lazy_base,
    "sequence-end": sequence_end,
    "tile-order": tile_order,
    "between-powers": between_powers,
    "memory-bill": memory_bill,
    "alive-when": alive_when,
    "blocks-alone": blocks_alone,
    "lse-gap": lse_gap,
    "two-states-meet": two_states_meet,
    "any-order": any_order,
    "delta-two-ways": delta_two_ways,
    "one-bad-row": one_bad_row,
    "backward-owners": owners,
    "backward-walks": walks,
    "backward-recompute": recompute,
    "backward-warps": warps,
    "backward-registers": registers,
    "backward-timeline": timeline,
}
