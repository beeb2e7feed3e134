"""Fewer instructions: an exponential, the blocks of two loops, the registers."""

from bench.figures.drawing import GAP, arrow, box, labelled, path, sheet, text, word

BLOCK_M, BLOCK_N = 128, 32
ROWS_OF_TILES = 4  # the page shows the last program of so many
SM_REGISTERS = 65_536
THREADS = 256


def exponentials() -> str:
    """What a score costs between the subtraction and the weight, either way."""
    width, gap, left = 80, 22, 110
    long = ("mul", "compare", "half", "ex2", "square")
    parts = []
    for row, (name, steps) in enumerate((("exp", long), ("exp2", ("ex2",)))):
        y = 14 + row * 66
        parts.append(text(0, y + 18, name, "start", "code"))
        for step in steps:
            x = left + long.index(step) * (width + gap)
            kind = "diagonal" if step == "ex2" else "tile"
            parts.append(labelled(x, y, width, 36, word(step), kind))
            if step != steps[-1]:
                parts.append(arrow(x + width + 3, y + 18, x + width + gap - 3, y + 18))
    parts.append(text(left, 146, word("note"), "start", "quiet"))
    return sheet("exponentials", 162, parts)


def two_loops() -> str:
    """The walk of the last program of four: whole blocks, then the diagonal's."""
    columns = ROWS_OF_TILES * BLOCK_M // BLOCK_N
    whole = (ROWS_OF_TILES - 1) * BLOCK_M // BLOCK_N
    left, top, cell, height = 100, 44, 30, 128
    right = left + columns * (cell + GAP)
    middle = left + whole * (cell + GAP)
    parts = [
        text(left, 14, word("first"), "start"),
        text(middle, 14, word("second"), "start"),
        path([(left, 28), (middle - 4, 28)]),
        path([(middle, 28), (right - GAP, 28)]),
        text(0, top + height / 2, word("rows"), "start", "quiet"),
    ]
    for column in range(columns):
        x = left + column * (cell + GAP)
        kind = "full" if column < whole else "diagonal"
        parts.append(box(x, top, cell, height, kind))
    slope = height / (right - GAP - middle)
    parts += [
        path([(middle, top), (right - GAP, top + slope * (right - GAP - middle))]),
        arrow(left, top + height + 16, right - GAP, top + height + 16),
        text(left, top + height + 34, "0", "index"),
        text(middle, top + height + 34, "mid", "code", "index"),
        text(right - GAP, top + height + 34, "hi", "code", "index", "end"),
    ]
    return sheet("two-loops", top + height + 48, parts)


def register_file(few: int = 128, many: int = 150) -> str:
    """How many programs of 256 threads fit, with few and with many registers each."""
    left, width = 90, 530
    parts = []
    for row, registers in enumerate((few, many)):
        y = 30 + row * 74
        share = registers * THREADS / SM_REGISTERS
        parts += [
            text(0, y + 18, str(registers), "start", "strong"),
            box(left, y, width, 36, "skipped"),
        ]
        for program in range(int(1 / share)):
            x = left + program * share * width
            parts.append(
                labelled(
                    x,
                    y,
                    share * width - GAP,
                    36,
                    f"{word('program')} {program}",
                    "full",
                )
            )
        rest = 1 - int(1 / share) * share
        if rest > 0.1:
            middle = left + (1 - rest / 2) * width
            parts.append(text(middle, y + 18, word("rest"), "quiet"))
    parts += [
        text(0, 14, word("each"), "start", "quiet"),
        text(left, 158, word("file"), "start", "quiet"),
    ]
    return sheet("register-file", 174, parts)
