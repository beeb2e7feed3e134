"""A weight computed again beside a weight stored and loaded, to scale."""

from bench.claims_backward_kernels_cost import EXP_FLOP, RIDGE, WEIGHT_BYTES
from bench.figures.drawing import GAP, box, labelled, path, sheet, text, word

HEAD_DIMS = (64, 128, 256, 512)
LEFT, TOP, BAR, LANE = 144, 52, 28, 42
UNIT = (620 - LEFT) / 1320  # of a FLOP


def recompute() -> str:
    """Lengths are FLOP of products that the chip does in the time of each part."""
    parts = []
    y = float(TOP)
    for head_dim in HEAD_DIMS:
        product, exponential = 2 * head_dim * UNIT, EXP_FLOP * UNIT
        parts += [
            text(0, y + BAR / 2, f"{word('head-dim')} {head_dim}", "start"),
            box(LEFT, y, product - GAP, BAR, "nearer"),
            labelled(LEFT + product, y, exponential - GAP, BAR, "exp", "tile"),
        ]
        if product > 60:
            parts.append(text(LEFT + product / 2, y + BAR / 2, "S"))
        y += LANE
    edge = LEFT + RIDGE * WEIGHT_BYTES * UNIT
    parts += [
        path([(edge, TOP - 12), (edge, y - LANE + BAR + 12)], "now"),
        text(edge, TOP - 26, word("stored")),
    ]
    return sheet("backward-recompute", y + 6, parts)
