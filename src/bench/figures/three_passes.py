"""The traffic of the naive version beside ours; all tensors are drawn to scale."""

from bench.figures.drawing import arrow, box, labelled, sheet, text, word

CHIP_Y, CHIP_HEIGHT = 28, 88
MEMORY_Y, MEMORY_HEIGHT = 184, 190
KERNEL_Y, KERNEL_HEIGHT = 62, 42
SIDE = 120  # of a matrix, whose rows and columns are all the positions
GIB, MIB = 2**30, 2**20


def three_passes(
    batch: int = 4,
    nheads: int = 16,
    seqlen: int = 4096,
    head_dim: int = 64,
    block_m: int = 128,
    element: int = 2,
) -> str:
    """Sizes of the case that the page counts; element in bytes."""
    matrix = batch * nheads * seqlen * seqlen * element
    strip = SIDE * head_dim / seqlen
    times = -(-seqlen // block_m)
    return sheet(
        "three-passes",
        MEMORY_Y + MEMORY_HEIGHT,
        [
            *_grounds(0, 418, "naive"),
            *_naive(_size(matrix), strip),
            *_grounds(436, 184, "ours"),
            *_ours(times, strip),
        ],
    )


def _grounds(x: float, width: float, title: str) -> list[str]:
    return [
        text(x + width / 2, 13, word(title), "strong"),
        box(x, CHIP_Y, width, CHIP_HEIGHT, "near"),
        box(x, MEMORY_Y, width, MEMORY_HEIGHT, "far"),
        text(x + 10, CHIP_Y + 17, word("chip"), "start", "quiet"),
        text(x + 10, MEMORY_Y + MEMORY_HEIGHT - 16, word("memory"), "start", "quiet"),
    ]


def _naive(size: str, strip: float) -> list[str]:
    return [
        labelled(8, KERNEL_Y, 108, KERNEL_HEIGHT, "S = Q Kᵀ", "tile"),
        labelled(132, KERNEL_Y, 124, KERNEL_HEIGHT, word("softmax"), "tile"),
        labelled(272, KERNEL_Y, 138, KERNEL_HEIGHT, "O = P V", "tile"),
        *_tensor(16, strip, "Q"),
        *_tensor(38, strip, "K"),
        *_tensor(58, SIDE, "S"),
        *_tensor(200, SIDE, "P"),
        *_tensor(362, strip, "V"),
        *_tensor(396, strip, "O"),
        *map(_read, (17, 39, 150, 290, 363)),
        *map(_written, (84, 226, 397)),
        *(text(x + 6, 150, size, "start") for x in (84, 150, 226, 290)),
    ]


def _ours(times: int, strip: float) -> list[str]:
    return [
        labelled(444, KERNEL_Y, 168, KERNEL_HEIGHT, word("one"), "tile"),
        *_tensor(460, strip, "Q"),
        *_tensor(496, strip, "K"),
        *_tensor(546, strip, "V"),
        *_tensor(596, strip, "O"),
        *map(_read, (461, 497, 547)),
        _written(597),
        *(text(x + 5, 150, f"× {times}", "start") for x in (497, 547)),
    ]


def _tensor(x: float, width: float, name: str) -> list[str]:
    top = MEMORY_Y + 8
    return [
        box(x, top, width, SIDE, "data"),
        text(x + width / 2, top + SIDE + 16, name),
    ]


def _read(x: float) -> str:
    return arrow(x, MEMORY_Y + 4, x, KERNEL_Y + KERNEL_HEIGHT + 2)


def _written(x: float) -> str:
    return arrow(x, KERNEL_Y + KERNEL_HEIGHT + 1, x, MEMORY_Y + 5)


def _size(count: int) -> str:
    return f"{count / GIB:g}\u00a0GiB" if count >= GIB else f"{count / MIB:g}\u00a0MiB"
