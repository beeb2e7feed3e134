"""Edits of the real kernels: which sections hear of them, and which do not.

Each section of a page talks about one part of the source. An edit is reported
for exactly the sections that are named with it, and is silent for all others.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import kernel_edits
import kernel_step_edits
import pytest
from kernel_edits import STEP
from kernel_step_edits import LOOP

from codewalk.config import read_project
from codewalk.references import Library
from codewalk.reviews import Review
from codewalk.unread import findings, passages

ROOT = Path(__file__).parents[2]
FORWARD, ATTENTION = "flashwalk/forward.py", "flashwalk/attention.py"
SECTIONS = {
    "program": f"{FORWARD}#program",
    "offsets": f"{FORWARD}#offsets",
    "state": f"{FORWARD}#state",
    "bound": f"{FORWARD}#bound",
    "loop": f"{FORWARD}#main-loop",
    "load-k": f"{FORWARD}#load-k",
    "scores": f"{FORWARD}#_attn_fwd.scores",
    "mask": f"{FORWARD}#mask",
    "new-max": f"{FORWARD}#new-max",
    "weights": f"{FORWARD}#weights",
    "rescale": f"{FORWARD}#rescale",
    "accumulate": f"{FORWARD}#accumulate",
    "finish": f"{FORWARD}#finish",
    "store": f"{FORWARD}#store",
    "kernel": f"{FORWARD}#_attn_fwd",
    "tile": f"{FORWARD}#Tile",
    "tile-for": f"{FORWARD}#tile_for",
    "launch": f"{FORWARD}#launch",
    "file": FORWARD,
    "attention": f"{ATTENTION}#attention",
    "sizes": f"{ATTENTION}#_check_sizes",
    "access": f"{ATTENTION}#_check_access",
}
EDITS = {**kernel_edits.EDITS, **kernel_step_edits.EDITS}


def moved(text: str, start: str, end: str, before: str) -> str:
    """`text` with what lies from `start` up to `end` put before `before`."""
    for mark in (start, end, before):
        assert mark in text, mark
    first, last = text.index(start), text.index(end)
    rest = text[:first] + text[last:]
    place = rest.index(before)
    return rest[:place] + text[first:last] + rest[place:]


def deeper(text: str) -> str:
    """The whole loop inside another block."""
    first, last = text.index("    # [main-loop]"), text.index("    # [finish]")
    lines = text[first:last].splitlines(keepends=True)
    inside = "".join(f"    {line}" if line.strip() else line for line in lines)
    return f"{text[:first]}    if HEAD_DIM:\n{inside}{text[last:]}"


MOVES: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a function to another place": (
        FORWARD,
        lambda text: moved(text, "def tile_for(", "def is_aligned(", "class Tile("),
        "file",
    ),
    "functions of the other file": (
        ATTENTION,
        lambda text: moved(
            text, "def _check_sizes(", "def _check_access(", "@overload"
        ),
        "",
    ),
    "a step before another": (
        FORWARD,
        lambda text: moved(text, "    # [state]", "    # [bound]", "    # [offsets]"),
        STEP,
    ),
    "a step of the loop before another": (
        FORWARD,
        lambda text: moved(
            text, "        # [weights]", "        # [rescale]", "        # [scores]"
        ),
        LOOP,
    ),
    # The step before it then goes on to the end of that block.
    "a step into another block": (FORWARD, deeper, f"bound {STEP}"),
    "everything down": (FORWARD, lambda text: "\n" * 40 + text, ""),
    "other line ends": (FORWARD, lambda text: text.replace("\n", "\r\n"), ""),
    "a byte order mark": (ATTENTION, lambda text: "\ufeff" + text, ""),
    "the kernel's name": (
        FORWARD,
        lambda text: text.replace("_attn_fwd", "_kernel"),
        # The addresses that name the function lead nowhere now.
        "kernel scores launch file",
    ),
    "a step's name": (
        FORWARD,
        lambda text: text.replace("# [rescale]", "# [move-sums]"),
        "rescale",
    ),
    "a step's mark": (
        FORWARD,
        lambda text: text.replace("# [state]", "# State:"),
        "state",
    ),
    "tabs for spaces": (
        ATTENTION,
        lambda text: "\n".join(
            "\t" * ((len(line) - len(line.lstrip(" "))) // 4) + line.lstrip(" ")
            for line in text.split("\n")
        ),
        "",
    ),
}


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return {
        name: (ROOT / "src" / name).read_text(encoding="utf-8")
        for name in (FORWARD, ATTENTION)
    }


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, sources: Mapping[str, str]) -> Path:
    """A project with the real kernels and a page about them."""
    root = tmp_path_factory.mktemp("kernels")
    page = "".join(
        f"# {name} {{ #{name} }}\n\n[these lines](src:{address})\n\n"
        for name, address in SECTIONS.items()
    )
    for path, text in {
        "pyproject.toml": "[tool.codewalk]\n",
        "docs/en/page.md": page,
        **{f"src/{name}": text for name, text in sources.items()},
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def reviews(tree: Path) -> dict[str, Review]:
    library = Library(read_project(tree))
    return {
        key: passage.read_on("2026-11-20") for key, passage in passages(library).items()
    }


@pytest.fixture
def reported(tree: Path, sources: Mapping[str, str], reviews: Mapping[str, Review]):
    """The sections that must be read again once a file is that text."""

    def ask(name: str, text: str) -> set[str]:
        path = tree / "src" / name
        path.write_bytes(text.encode("utf-8"))
        try:
            found = findings(Library(read_project(tree)), reviews)
        finally:
            path.write_text(sources[name], encoding="utf-8")
        return {finding.key.partition("#")[2] for finding in found}

    return ask


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_reported_where_it_is_talked_about(
    name: str, sources: Mapping[str, str], reported
) -> None:
    before, after, expected = EDITS[name]
    counts = {file: text.count(before) for file, text in sources.items()}
    assert sum(counts.values()) == 1, counts
    file = max(counts, key=lambda file: counts[file])
    text = sources[file].replace(before, after)
    compile(text, file, "exec")
    assert reported(file, text) == set(expected.split())


@pytest.mark.parametrize("name", MOVES)
def test_a_move_is_reported_where_order_is_talked_about(
    name: str, sources: Mapping[str, str], reported
) -> None:
    file, move, expected = MOVES[name]
    text = move(sources[file])
    assert text != sources[file]
    compile(text.removeprefix("\ufeff"), file, "exec")
    assert reported(file, text) == set(expected.split())


def test_the_unchanged_kernels_are_silent(reported, sources: Mapping[str, str]) -> None:
    for name, text in sources.items():
        assert reported(name, text) == set()


def test_the_table_is_large_enough_and_hits_every_section() -> None:
    assert len(EDITS) + len(MOVES) >= 80
    heard = {
        s
        for *_, sections in (*EDITS.values(), *MOVES.values())
        for s in sections.split()
    }
    assert heard == set(SECTIONS)
