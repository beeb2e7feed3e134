"""Three numbers meet three others, and in which orders many of them may."""

import math

from bench.claims_walk import SCORES, VALUES, State, walk
from bench.figures.drawing import arrow, box, labelled, path, sheet, text, word

BOX_WIDTH, BOX_HEIGHT = 112, 36
ROWS = (48, 112, 176)
LEFT, MIDDLE, RIGHT = 1, 254, 507


def two_states_meet() -> str:
    """The standing example's two blocks, each alone, and what they make."""
    first = walk(SCORES[:2], VALUES[:2])[-1]
    second = walk(SCORES[2:], VALUES[2:])[-1]
    both = walk(SCORES, VALUES)[-1]
    factors = [math.exp(x.m_new - both.m_new) for x in (first, second)]
    parts = [
        text(LEFT, 16, word("first"), "start", "strong"),
        text(MIDDLE + BOX_WIDTH / 2, 16, word("both"), "strong"),
        text(RIGHT + BOX_WIDTH, 16, word("second"), "end", "strong"),
        *_state(LEFT, first, "tile"),
        *_state(RIGHT, second, "tile"),
        *_state(MIDDLE, both, "full"),
    ]
    for y, sign in zip(ROWS, ("max", "", ""), strict=True):
        middle = y + BOX_HEIGHT / 2
        parts.append(arrow(LEFT + BOX_WIDTH, middle, MIDDLE, middle))
        parts.append(arrow(RIGHT, middle, MIDDLE + BOX_WIDTH, middle))
        labels = [sign] * 2 if sign else [f"× {factor:.3g}" for factor in factors]
        for x, label in zip((184, 437), labels, strict=True):
            parts.append(text(x, middle - 13, label, "quiet"))
    parts.append(text(184, 240, f"α = exp({first.m_new:g} − {both.m_new:g})"))
    parts.append(text(437, 240, f"β = exp({second.m_new:g} − {both.m_new:g})"))
    return sheet("two-states-meet", 258, parts)


def _state(x: float, state: State, kind: str) -> list[str]:
    numbers = (
        f"m = {state.m_new:g}",
        f"ℓ = {state.l_i:.4g}",
        f"a = {state.acc:.4g}",
    )
    return [
        labelled(x, y, BOX_WIDTH, BOX_HEIGHT, words, kind)
        for y, words in zip(ROWS, numbers, strict=True)
    ]


CELL, STEP = 26, 44


def any_order() -> str:
    """Four blocks from left to right, in pairs, and beginning in the middle."""
    parts = []
    for x, title, merges in (
        (4, "walk", ((0, 1), (4, 2), (5, 3))),
        (222, "pairs", ((0, 1), (2, 3), (4, 5))),
        (440, "ring", ((1, 2), (4, 3), (5, 0))),
    ):
        parts.append(text(x + 1.5 * STEP + CELL / 2, 14, word(title), "strong"))
        parts += _merges(x, 36, merges)
    return sheet("any-order", 36 + 3 * 50 + CELL + 12, parts)


def _merges(x: float, y: float, merges: tuple[tuple[int, int], ...]) -> list[str]:
    """Four leaves, then a box for each merge, half a step below the lower one.

    places: the middle of each state, and how deep it lies.
    """
    places = [(x + index * STEP + CELL / 2, 0) for index in range(4)]
    parts = []
    for one, two in merges:
        depth = max(places[one][1], places[two][1]) + 1
        middle = (places[one][0] + places[two][0]) / 2
        top = y + depth * 50
        for state in (one, two):
            at, level = places[state]
            bottom = y + level * 50 + CELL
            parts.append(path([(at, bottom), (at, top - 12), (middle, top - 12)]))
        parts.append(arrow(middle, top - 12, middle, top))
        places.append((middle, depth))
    for index, (at, depth) in enumerate(places):
        kind = "full" if index == len(places) - 1 else "tile"
        parts.append(box(at - CELL / 2, y + depth * 50, CELL, CELL, kind))
        if index < 4:
            parts.append(text(at, y + CELL / 2, str(index + 1), "index"))
    return parts
