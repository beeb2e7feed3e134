"""The forward rung by rung, from the teaching kernel to the one for Hopper.

Each rung is one module and one idea more than the rung before. All have the
same `launch(q, k, v, out, lse, *, causal, softmax_scale, tile=None)` and a
`Tile` of their own. A rung that does not take all inputs that `attention` does
has `refusal(q, k, v, softmax_scale)`: why not, or None.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType

# In order: a rung's name in records, and its module.
RUNGS: Mapping[str, str] = MappingProxyType(
    {
        "forward": "flashwalk.forward",
        "base_two": "flashwalk.ladder.base_two",
        "two_loops": "flashwalk.ladder.two_loops",
        "moving_pointers": "flashwalk.ladder.moving_pointers",
        "descriptors": "flashwalk.ladder.descriptors",
        "specialised": "flashwalk.ladder.specialised",
        "in_flight": "flashwalk.ladder.in_flight",
        "turns": "flashwalk.ladder.turns",
        "q_in_registers": "flashwalk.ladder.q_in_registers",
        "lazy_rescale": "flashwalk.ladder.lazy_rescale",
        "hopper": "flashwalk.hopper.forward",
    }
)


def rung(name: str) -> ModuleType:
    """The module of a rung, imported on demand: those in Gluon need Triton 3.6.

    Raises LookupError for a name that is not in RUNGS.
    """
    if name not in RUNGS:
        raise LookupError(f"a rung is one of {', '.join(RUNGS)}, got {name!r}")
    return import_module(RUNGS[name])
