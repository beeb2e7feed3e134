"""Forwards with one fault each: the real source with one edit, made runnable.

A mutant shows that a check can fail. `outcome` gives what a page needs to show
the fault itself: the input, what is right and what the mutant makes of it.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import problems
import torch
from accuracy import Problem, run

from flashwalk import forward

SOURCE = Path(forward.__file__)


class Mutant(NamedTuple):
    """One edit of the kernel, and the problem whose check must reject it."""

    before: str
    after: str
    problem: Callable[[torch.device, torch.dtype], Problem]


MUTANTS = {
    "alpha-forgotten-on-acc": Mutant(
        "        acc = acc * alpha[:, None]\n", "", problems.rising_maximum
    ),
    "alpha-forgotten-on-l": Mutant(
        "l_i = l_i * alpha + tl.sum", "l_i = l_i + tl.sum", problems.rising_maximum
    ),
    "weights-from-old-maximum": Mutant(
        "tl.exp(s - m_safe[:, None])",
        "tl.exp(s - m_i[:, None])",
        problems.soaring_maximum,
    ),
    "bound-from-block-n": Mutant(
        "(start_m + 1) * BLOCK_M", "(start_m + 1) * BLOCK_N", problems.tall_tiles
    ),
    "tail-keys-counted": Mutant(
        "visible = in_keys[None, :]", "visible = cols[None, :] >= 0", problems.tail_keys
    ),
    "causal-top-left": Mutant(
        "last_key = offs_m + (seqlen_k - seqlen_q)",
        "last_key = offs_m",
        problems.bottom_right,
    ),
    "infinity-minus-infinity": Mutant(
        'tl.where(m_new == float("-inf"), 0.0, m_new)', "m_new", problems.empty_rows
    ),
    "empty-row-divided": Mutant(
        "tl.where(l_i == 0.0, 1.0, l_i)", "l_i", problems.empty_rows
    ),
    "heads-by-modulo": Mutant(
        "off_h // group_size", "off_h % (nheads // group_size)", problems.grouped_heads
    ),
    "query-rows-in-int32": Mutant(
        "rows = offs_m[:, None].to(tl.int64)",
        "rows = offs_m[:, None]",
        problems.far_rows,
    ),
    "key-rows-in-int32": Mutant(
        "k_cols = cols[None, :].to(tl.int64)",
        "k_cols = cols[None, :]",
        problems.far_rows,
    ),
    "lse-in-base-2": Mutant(
        "lse = m_i + tl.log(l_safe)",
        "lse = m_i + tl.log2(l_safe)",
        problems.rising_maximum,
    ),
}


def load(source: str, path: Path) -> ModuleType:
    """Writes `source` to `path`, where Triton reads it again, and imports it."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_mutant(name: str, folder: Path) -> ModuleType:
    """The forward with the fault called `name`, as a module like `forward`."""
    before, after, _ = MUTANTS[name]
    source = SOURCE.read_text(encoding="utf-8")
    if source.count(before) != 1:
        raise LookupError(f"{name}: {before!r} occurs {source.count(before)} times")
    return load(source.replace(before, after), folder / f"{name.replace('-', '_')}.py")


def outcome(name: str, folder: Path, device: torch.device, dtype: torch.dtype):
    """(problem, right, wrong): the last two are (out, lse), of kernel and mutant."""
    problem = MUTANTS[name].problem(device, dtype)
    return problem, run(forward, problem), run(load_mutant(name, folder), problem)
