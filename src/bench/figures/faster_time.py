"""Where the time goes: one quarter of a multiprocessor, and one step of the loop."""

from bench.figures.drawing import GAP, arrow, box, labelled, sheet, text, word

# Of each of the four quarters of a multiprocessor of sm_90, a clock.
QUARTERS = 4
FLOP, EXPONENTIALS, LANES = 1024, 4, 32
HEAD_DIMS = (64, 128, 256)

LEFT, ROW = 150, 28
UNIT = 23  # of the view box, for a 64th of a clock of the whole multiprocessor


def multiprocessor() -> str:
    """Four quarters side by side, and what they share below."""
    width, gap = 142, 12
    parts = [box(0, 0, 620, 268, "near")]
    for quarter in range(QUARTERS):
        left = 8 + quarter * (width + gap)
        parts += [
            box(left, 8, width, 178, "nearer"),
            *_unit(left + 8, 18, width - 16, word("tensor"), f"{FLOP} FLOP"),
            *_unit(left + 8, 74, width - 16, word("exp"), f"{EXPONENTIALS}"),
            *_unit(left + 8, 130, width - 16, word("lanes"), f"{LANES}"),
        ]
    parts += [
        labelled(8, 198, 604, 28, word("shared"), "tile"),
        labelled(8, 232, 604, 28, word("registers"), "tile"),
    ]
    return sheet("multiprocessor", 268, parts)


def _unit(x: float, y: float, width: float, name: str, rate: str) -> list[str]:
    """A unit and what it does in a clock."""
    return [
        box(x, y, width, 46, "tile"),
        text(x + width / 2, y + 15, name),
        text(x + width / 2, y + 33, rate, "quiet"),
    ]


def in_turn() -> str:
    """The tensor cores wait while exponentials are taken, for each head dim."""
    parts: list[str] = []
    for number, head_dim in enumerate(HEAD_DIMS):
        parts += _step(head_dim, 26 + number * 104)
    bottom = 26 + len(HEAD_DIMS) * 104
    parts += [
        text(LEFT, bottom - 6, word("time"), "start", "quiet"),
        arrow(LEFT + 110, bottom - 6, LEFT + 20 * UNIT - GAP, bottom - 6),
    ]
    return sheet("in-turn", bottom + 12, parts)


def clocks(head_dim: int) -> tuple[int, int]:
    """64ths of a clock that one score takes: of one product, and of its exponential."""
    product = 2 * head_dim * 64 // (QUARTERS * FLOP)
    return product, 64 // (QUARTERS * EXPONENTIALS)


def _step(head_dim: int, top: float) -> list[str]:
    product, exponential = (UNIT * clock for clock in clocks(head_dim))
    second, third = LEFT + product, LEFT + product + exponential
    below = top + ROW + 6
    return [
        text(0, top - 14, f"{word('head')} {head_dim}", "start", "strong"),
        text(0, top + ROW / 2, word("tensor"), "start", "quiet"),
        text(0, below + ROW / 2, word("exp"), "start", "quiet"),
        labelled(LEFT, top, product - GAP, ROW, "QKᵀ", "full"),
        box(second, top, exponential - GAP, ROW, "skipped"),
        labelled(third, top, product - GAP, ROW, "PV", "full"),
        labelled(second, below, exponential - GAP, ROW, "exp", "diagonal"),
    ]
