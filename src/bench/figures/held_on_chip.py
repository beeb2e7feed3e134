"""What one program holds, and where, on a GPU of the generation sm_90, to scale."""

from bench.figures.drawing import box, sheet, text, word

ELEMENT, SCORE = 2, 4  # bytes: an element of Q, K and V; of a state
UNIT = 1  # of the view box, for a row and for a column
KIB = 2**10
TOP = 38


def held_on_chip(
    block_m: int = 128, block_n: int = 64, head_dim: int = 64, stages: int = 3
) -> str:
    """The tile that our kernel takes at head dim 64."""
    rows, dims, keys = block_m * UNIT, head_dim * UNIT, block_n * UNIT
    second = TOP + rows + 92
    state = [
        *_tile(150, TOP, UNIT, rows, "m"),
        *_tile(200, TOP, UNIT, rows, "ℓ"),
        *_tile(270, TOP, dims, rows, f"acc {_size(block_m * head_dim, SCORE)}"),
        *_passing(450, TOP, keys, rows, f"s, p {_size(block_m * block_n, SCORE)}"),
    ]
    staged = [
        part
        for stage in range(stages)
        for part in (
            box(300 + stage * (dims + 24), second, dims, keys, "past"),
            box(300 + stage * (dims + 24), second + keys + 4, dims, keys, "past"),
            text(300 + stage * (dims + 24) + dims / 2, second + keys / 2, "K", "quiet"),
            text(
                300 + stage * (dims + 24) + dims / 2,
                second + keys * 1.5 + 4,
                "V",
                "quiet",
            ),
        )
    ]
    middle = 300 + (stages * (dims + 24) - 24) / 2
    return sheet(
        "held-on-chip",
        second + rows + 50,
        [
            box(0, 0, 620, TOP + rows + 46, "nearer"),
            box(0, second - 36, 620, rows + 86, "near"),
            text(12, 17, word("registers"), "start"),
            text(12, second - 18, word("shared"), "start"),
            *state,
            *_tile(150, second, dims, rows, f"Q {_size(block_m * head_dim, ELEMENT)}"),
            *staged,
            text(
                middle,
                second + rows + 24,
                f"{stages} × {_size(2 * block_n * head_dim, ELEMENT)}",
                "quiet",
            ),
        ],
    )


def _tile(x: float, y: float, width: float, height: float, words: str) -> list[str]:
    return [
        box(x, y, width, height, "tile"),
        text(x + width / 2, y + height + 22, words),
    ]


def _passing(x: float, y: float, width: float, height: float, words: str) -> list[str]:
    """A tile that lives for one step of the loop."""
    return [
        box(x, y, width, height),
        text(x + width / 2, y + height + 22, words),
    ]


def _size(count: int, element: int) -> str:
    return f"{count * element / KIB:g}\u00a0KiB"
