"""Roles: who waits for whom, the registers that change hands, the order of keys."""

from typing import NamedTuple

from bench.figures.drawing import GAP, arrow, box, labelled, path, sheet, text, word

GROUPS, SLOTS, BLOCKS = 2, 2, 3
LOAD, PRODUCT, SOFTMAX = 2, 2, 3  # units of time

LEFT, UNIT, BAR = 124, 17, 30
LANES = ("group-0", "loader", "group-1", "cores")
PITCH = 60


class Span(NamedTuple):
    """Something that a lane does: what, and from when to when."""

    lane: str
    name: str
    start: int
    end: int


class Wait(NamedTuple):
    """At `time`, `source` lets `target` go on."""

    source: str
    target: str
    time: int


class Run:
    """One tile: a loader with two rings, two warpgroups, and one set of tensor cores.

    Every product is awaited. Of two warpgroups that want the cores, the one that
    has been ready for longer gets them.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.waits: list[Wait] = []
        self._full: dict[str, int] = {}  # when a block has arrived
        self._read: dict[str, list[tuple[int, int]]] = {}  # when, by which group
        self._loads = [f"{name}{j}" for j in range(BLOCKS) for name in "KV"]
        self._loaded = 0  # the time until which the loader is busy
        self._work = [
            [step for j in range(BLOCKS) for step in (f"S{j}", f"O{j}")]
            for _ in range(GROUPS)
        ]
        self._ready = [0] * GROUPS
        self._cores = 0
        while self._loads or any(self._work):
            self._load()
            self._multiply()

    def _load(self) -> None:
        """Goes as far ahead as the rings allow."""
        while self._loads:
            block = self._loads[0]
            before = f"{block[0]}{int(block[1:]) - SLOTS}"  # who had the slot
            start = self._loaded
            if before in self._full:
                if len(self._read.get(before, [])) < GROUPS:
                    return
                room, group = max(self._read[before])
                if room > start:
                    start = room
                    self.waits.append(Wait(f"group-{group}", "loader", room))
            self._loaded = self._full[block] = start + LOAD
            self.spans.append(Span("loader", block, start, self._loaded))
            self._loads.pop(0)

    def _multiply(self) -> None:
        """The product that can start first: S, with its softmax, or O."""
        starts = {
            (max(self._ready[g], self._full[block], self._cores), self._ready[g], g)
            for g in range(GROUPS)
            if self._work[g] and (block := _block(self._work[g][0])) in self._full
        }
        start, ready, group = min(starts)
        step = self._work[group].pop(0)
        block, lane, end = _block(step), f"group-{group}", start + PRODUCT
        if start == self._full[block] > max(ready, self._cores):
            self.waits.append(Wait("loader", lane, start))
        self.spans += [Span(lane, step, start, end), Span("cores", step, start, end)]
        self._read.setdefault(block, []).append((end, group))
        self._cores = self._ready[group] = end
        if step[0] == "S":
            self._ready[group] += SOFTMAX
            self.spans.append(Span(lane, f"p{step[1:]}", end, end + SOFTMAX))


def _block(step: str) -> str:
    """The block that a product reads: S0 needs K0, O0 needs V0."""
    return ("K" if step[0] == "S" else "V") + step[1:]


def roles_timeline() -> str:
    """Lanes of one tile of BLOCKS blocks, an arrow wherever somebody waited."""
    run = Run()
    spans, waits = run.spans, run.waits
    kinds = {"S": "full", "O": "full", "p": "diagonal", "K": "tile", "V": "tile"}
    last = max(span.end for span in spans)
    parts = []
    for number, lane in enumerate(LANES):
        y = 10 + number * PITCH
        parts += [
            text(0, y + BAR / 2, word(lane), "start", "quiet"),
            box(LEFT, y, last * UNIT, BAR, "skipped"),
        ]
        for span in (span for span in spans if span.lane == lane):
            x, width = LEFT + span.start * UNIT, (span.end - span.start) * UNIT - 1
            parts.append(labelled(x, y, width, BAR, span.name, kinds[span.name[0]]))
    for wait in waits:
        x = LEFT + wait.time * UNIT
        source, target = LANES.index(wait.source), LANES.index(wait.target)
        start = 10 + source * PITCH + (BAR if target > source else 0)
        end = 10 + target * PITCH + (0 if target > source else BAR)
        parts.append(arrow(x, start, x, end))
    bottom = 10 + len(LANES) * PITCH
    parts += [
        text(LEFT, bottom - 10, word("time"), "start", "quiet"),
        arrow(LEFT + 60, bottom - 10, LEFT + last * UNIT, bottom - 10),
    ]
    return sheet("roles-timeline", bottom + 6, parts)


def registers_moved(asked: int = 168, loader: int = 24, multiplier: int = 240) -> str:
    """Three warpgroups before and after they have changed their registers."""
    if 3 * asked != loader + 2 * multiplier:
        raise ValueError(f"{3 * asked} registers became {loader + 2 * multiplier}")
    left, unit = 96, 510 / (3 * asked)
    names = ("loader", "group-0", "group-1")
    parts = []
    for row, counts in enumerate(((asked,) * 3, (loader, multiplier, multiplier))):
        y, x = 32 + row * 72, float(left)
        parts.append(text(0, y + 18, word(("before", "after")[row]), "start", "quiet"))
        for name, count in zip(names, counts, strict=True):
            width = count * unit - GAP
            parts.append(box(x, y, width, 36, "tile" if name == "loader" else "full"))
            middle = x + width / 2
            inside = y + 18 if width > 60 else y + 52
            parts.append(text(middle, inside, str(count)))
            if row == 0:
                parts.append(text(middle, y - 14, word(name), "quiet"))
            x += count * unit
    return sheet("registers-moved", 172, parts)


def keys_downwards(blocks: int = 5) -> str:
    """64 rows and blocks of 64 keys: one masked block each, and one handed on."""
    left, top, cell, height = 110, 30, 92, 54
    parts = [text(left, 12, word("keys"), "start", "quiet")]
    parts.append(arrow(left + 70, 12, left + blocks * cell - GAP, 12))
    for group in range(2):
        y = top + group * (height + GAP)
        seen = blocks - 1 + group
        parts.append(text(0, y + height / 2, word(f"group-{group}"), "start", "quiet"))
        for block in range(blocks):
            x = left + block * cell
            order = blocks - 1 - block
            if block >= seen:
                parts.append(box(x, y, cell - GAP, height, "skipped"))
                parts.append(text(x + cell / 2, y + height / 2, word("on"), "quiet"))
                continue
            if block < seen - 1:
                parts.append(labelled(x, y, cell - GAP, height, str(order), "full"))
                continue
            parts += [
                box(x, y, cell - GAP, height, "diagonal"),
                path([(x, y), (x + cell - GAP, y + height)]),
                text(x + cell * 0.3, y + height * 0.7, str(order)),
            ]
    bottom = top + 2 * (height + GAP) + 18
    parts += [
        arrow(left + blocks * cell - GAP, bottom, left, bottom),
        text(left + blocks * cell - GAP, bottom + 18, word("visited"), "end"),
    ]
    return sheet("keys-downwards", bottom + 32, parts)
