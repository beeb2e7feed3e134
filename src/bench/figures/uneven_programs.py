"""Four causal programs on two places, short ones first and long ones first."""

from collections.abc import Sequence

from bench.causal_blocks import Blocks, makespan, schedule
from bench.figures.drawing import GAP, arrow, box, labelled, sheet, text, word

LEFT, UNIT, BAR = 132, 76, 34
SLOTS = 2


def uneven_programs(seqlen: int = 256, block: int = 64) -> str:
    """The square of the page: programs of 1, 2, 3 and 4 blocks."""
    blocks = Blocks(seqlen, seqlen, block, block)
    lengths = [blocks.walked(m) for m in range(blocks.rows)]
    short = list(range(blocks.rows))
    parts = [
        *_chart("short-first", short, lengths, 28),
        *_chart("long-first", short[::-1], lengths, 160),
        text(LEFT, 268, word("time"), "start", "quiet"),
        arrow(LEFT + 110, 268, LEFT + 6 * UNIT - GAP, 268),
    ]
    return sheet("uneven-programs", 284, parts)


def _chart(
    name: str, order: Sequence[int], lengths: Sequence[int], top: float
) -> list[str]:
    """One order of programs: a bar each, on the place that is free first."""
    spans = schedule([lengths[m] for m in order], SLOTS)
    last = makespan(spans)
    parts = [text(0, top - 16, word(name), "start")]
    for slot in range(SLOTS):
        y = top + 6 + slot * (BAR + 8)
        parts.append(text(0, y + BAR / 2, f"{word('place')} {slot}", "start", "quiet"))
        mine = [span for span in spans if span.slot == slot]
        for span in mine:
            x, width = LEFT + span.start * UNIT, (span.end - span.start) * UNIT
            parts.append(
                labelled(x, y, width - GAP, BAR, str(order[span.program]), "full")
            )
        end = max(span.end for span in mine)
        if end < last:
            x, width = LEFT + end * UNIT, (last - end) * UNIT
            parts.append(box(x, y, width - GAP, BAR, "skipped"))
            middle = x + width / 2
            parts.append(text(middle, y + BAR / 2, word("idle"), "quiet"))
    return parts
