"""Who does what inside a program of the backward: splits, registers, time."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bench.figures.drawing import (
    GAP,
    arrow,
    box,
    cells,
    labelled,
    path,
    sheet,
    text,
    word,
)
from bench.figures.timelines import BAR, Span, product, softmax

# --- Who takes which part of a tile of scores ---

CELL, SHARES, PANEL = 28, 4, 212
STEP = CELL + GAP
SPLIT_TOP = 44


def warps() -> str:
    """Keys shared out in the forward, queries shared out, and keys in the backward."""
    parts: list[str] = []
    for number, key in enumerate(("keys", "queries", "backward")):
        x = 1.0 + number * PANEL
        parts.append(text(x, 12, word(key), "start"))
        down = key != "queries"  # a warp has a column
        parts.append(cells(x, SPLIT_TOP, SHARES, SHARES, _mine(down)))
        parts += list(_results(x, key))
    return sheet("backward-warps", SPLIT_TOP + SHARES * STEP + 74, parts)


def _mine(down: bool) -> Callable[[int, int], str]:
    def kind(m: int, n: int) -> str:
        return "full" if (n if down else m) == 1 else "past"

    return kind


def _results(x: float, key: str) -> Iterable[str]:
    bottom = SPLIT_TOP + SHARES * STEP
    right = x + SHARES * STEP
    if key == "queries":
        y = SPLIT_TOP + STEP
        yield arrow(right - GAP, y + CELL / 2, right + 22, y + CELL / 2)
        yield labelled(right + 28, y, 44, CELL, "O", "full")
    else:
        name = "+O" if key == "keys" else "+dQ"
        for m in range(SHARES):
            y = SPLIT_TOP + m * STEP
            yield arrow(x + 2 * STEP, y + CELL / 2, right + 22, y + CELL / 2)
            yield labelled(right + 28, y, 44, CELL, name, "diagonal")
    if key == "backward":
        middle = x + STEP + CELL / 2
        yield labelled(middle - 32, bottom + 10, 64, CELL, "dK, dV", "full")
    yield text(x, bottom + 58, word(f"{key}-merge"), "start", "quiet")


# --- Registers ---

ROWS, THREADS = 64, 128  # of a warpgroup: a column of 64 rows is half a register


class Group(NamedTuple):
    """A warpgroup: what its threads hold, in fp32 columns, and what they may."""

    name: str
    parts: tuple[tuple[str, int], ...]
    limit: int


def groups() -> tuple[Group, ...]:
    """Columns of 64 rows in fp32: half a register each; 16 bits, half of that."""
    half = ROWS / THREADS

    def held(columns: int, size: int = 4) -> int:
        return int(columns * half * size / 4)

    scores = (("S, P", held(64)), ("dP", held(64)))
    return (
        Group(
            "d128",
            (("dK", held(128)), ("dV", held(128)), *scores, ("dQ", held(64))),
            240,
        ),
        Group(
            "d64",
            (
                ("dK", held(64)),
                ("dV", held(64)),
                *scores,
                ("K", held(64, 2)),
                ("V", held(64, 2)),
            ),
            208,
        ),
        Group("d64-dq", (("dQ", held(64)),), 64),
    )


def registers() -> str:
    """A bar a warpgroup, to scale; the thick line is what it may have."""
    left, unit, bar, lane = 150, 1.8, 28, 76
    parts = [text(left, 10, word("registers"), "start", "quiet")]
    y = 44.0
    for group in groups():
        parts.append(text(0, y + bar / 2, word(group.name), "start"))
        x = float(left)
        for name, size in group.parts:
            width = size * unit - GAP
            kind = "tile" if name in ("K", "V") else "nearer"
            parts.append(box(x, y, width, bar, kind))
            parts.append(text(x + width / 2, y + bar / 2, name))
            parts.append(text(x + width / 2, y + bar + 13, str(size), "index", "quiet"))
            x += size * unit
        edge = left + group.limit * unit
        parts.append(path([(edge, y - 6), (edge, y + bar + 6)], "now"))
        parts.append(text(edge, y - 16, str(group.limit), "index"))
        y += lane
    return sheet("backward-registers", y + 2, parts)


# --- Time ---

LEFT, UNIT, LANE = 148, 47, 30


def timeline() -> str:
    """Two blocks of a key warpgroup: head dim 128 with dQ, head dim 64 without."""
    parts: list[str] = []
    y = 16.0
    for key, lanes, meets in (
        ("d128", _shared_dq(), (3.0, 8.0)),
        ("d64", _helper(), ()),
    ):
        parts.append(text(0, y, word(key), "start"))
        top = y + 14
        for number, (name, spans) in enumerate(lanes):
            parts += _lane(top + number * LANE, word(name), spans)
        bottom = top + len(lanes) * LANE
        for time in meets:
            x = LEFT + time * UNIT - GAP / 2
            parts.append(path([(x, top - 4), (x, bottom)], "now"))
            parts.append(text(x, y - 2, word("meet"), "index"))
        y = bottom + 22
    end = LEFT + 10 * UNIT
    parts += [
        text(LEFT, y - 4, word("time"), "start", "quiet"),
        arrow(LEFT + 96, y - 4, end, y - 4),
    ]
    return sheet("backward-timeline", y + 10, parts)


def _lane(y: float, name: str, spans: Iterable[Span]) -> Iterable[str]:
    yield text(0, y + BAR / 2, name, "start", "quiet")
    for span in spans:
        x, width = LEFT + span.start * UNIT, span.length * UNIT - GAP
        yield box(x, y, width, BAR, span.kind)
        if span.label:
            yield text(x + width / 2, y + BAR / 2, span.label, "index")


def _shared_dq() -> list[tuple[str, list[Span]]]:
    """S dP dV, then both meet, then dQ and dK: five products in a row."""
    products, between, sent = [], [], []
    for at in (0, 5):
        names = enumerate(("S", "dP", "dV", "dQ", "dK"))
        products += [product(at + k, 1, name) for k, name in names]
        between += [softmax(at + 1, 1, "P"), softmax(at + 2, 0.9, "dS")]
        between.append(softmax(at + 4, 0.7, "dQ"))  # to shared memory
        sent.append(softmax(at + 4.7, 0.3 if at else 1, "" if at else "+dQ"))
    return [("products", products), ("between", between), ("tma", sent)]


def _helper() -> list[tuple[str, list[Span]]]:
    """S dP, dV dK; dS goes to a warpgroup whose dQ takes twice as long."""
    products, between, helper, sent = [], [], [], []
    for at in (0.0, 4.6):
        products += [product(at, 1, "S"), product(at + 1, 1, "dP")]
        products += [product(at + 2.6, 1, "dV"), product(at + 3.6, 1, "dK")]
        between += [softmax(at + 1, 1.6, "P"), softmax(at + 2.6, 0.9, "dS")]
    helper = [product(3.6, 2, "dQ"), product(8.2, 1.8, "dQ")]
    sent = [softmax(5.6, 0.7, "dQ"), softmax(6.3, 1, "+dQ")]
    return [
        ("products", products),
        ("between", between),
        ("helper", helper),
        ("tma", sent),
    ]
