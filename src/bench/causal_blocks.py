"""Which blocks of scores a causal mask leaves, and how long their programs run.

Plain counting, without tensors: the claims compare it with the kernel, and the
figures draw it. Lengths and blocks are counted in queries and keys.
"""

import heapq
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

FULL, DIAGONAL, TAIL, SKIPPED = "full", "diagonal", "tail", "skipped"


class Blocks(NamedTuple):
    """The scores of one head, cut into blocks of block_m queries, block_n keys."""

    seqlen_q: int
    seqlen_k: int
    block_m: int
    block_n: int
    causal: bool = True

    @property
    def rows(self) -> int:
        """How many blocks of queries there are: programs of this head."""
        return math.ceil(self.seqlen_q / self.block_m)

    @property
    def cols(self) -> int:
        """How many blocks of keys there are."""
        return math.ceil(self.seqlen_k / self.block_n)

    @property
    def shift(self) -> int:
        """Query i sees key j when j <= i + shift."""
        return self.seqlen_k - self.seqlen_q if self.causal else self.seqlen_k

    def kind(self, m: int, n: int) -> str:
        """What the mask does to a block, by its corners.

        tail: hidden is nothing but what lies beyond the last key.
        """
        first_row = m * self.block_m
        last_row = min(first_row + self.block_m, self.seqlen_q) - 1
        first_key, last_key = n * self.block_n, (n + 1) * self.block_n - 1
        if first_key > last_row + self.shift:
            return SKIPPED
        if min(last_key, self.seqlen_k - 1) > first_row + self.shift:
            return DIAGONAL
        return FULL if last_key < self.seqlen_k else TAIL

    def count(self, *kinds: str) -> int:
        """How many blocks are of one of these kinds."""
        return sum(self.row(m).count(kind) for m in range(self.rows) for kind in kinds)

    def row(self, m: int) -> list[str]:
        """The kinds of one program's blocks, from left to right."""
        return [self.kind(m, n) for n in range(self.cols)]

    def bound(self, m: int) -> int:
        """The kernel's `hi`, in keys; not above 0: the loop does not run."""
        return min((m + 1) * self.block_m + self.shift, self.seqlen_k)

    def walked(self, m: int) -> int:
        """How many blocks the kernel's loop visits in program m."""
        return math.ceil(max(0, self.bound(m)) / self.block_n)

    def unmasked(self, m: int) -> int:
        """How many blocks, from the left, the first row of program m sees whole."""
        visible = m * self.block_m + self.shift + 1
        return max(0, min(visible, self.seqlen_k)) // self.block_n


class Span(NamedTuple):
    """One program on one slot: its index, when it starts and when it ends."""

    program: int
    slot: int
    start: int
    end: int


def schedule(lengths: Sequence[int], slots: int) -> list[Span]:
    """Programs in order, each on the slot that is free first; times in blocks."""
    free = [(0, slot) for slot in range(slots)]
    spans = []
    for program, length in enumerate(lengths):
        start, slot = heapq.heappop(free)
        heapq.heappush(free, (start + length, slot))
        spans.append(Span(program, slot, start, start + length))
    return spans


def makespan(spans: Iterable[Span]) -> int:
    """When the last program ends."""
    return max(span.end for span in spans)
