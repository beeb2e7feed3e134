"""The cells that the forward benchmarks measure, and the work that each holds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

TOKENS = 16_384
SEQLENS = (1024, 4096, 16_384)
NHEADS = {64: 32, 128: 16, 256: 8}  # by head dim: nheads * head_dim = 2048


@dataclass(frozen=True)
class Case:
    """One problem: its sizes, its dtype ("bf16" or "fp16") and its mask."""

    batch: int
    nheads: int
    nheads_k: int
    seqlen_q: int
    seqlen_k: int
    head_dim: int
    dtype: str
    causal: bool

    @property
    def softmax_scale(self) -> float:
        return float(self.head_dim**-0.5)

    @property
    def flops(self) -> int:
        """Two matrix products, a multiplication and an addition an element.

        Causal counts half of them, as others do, whatever is really computed.
        """
        scores = self.batch * self.nheads * self.seqlen_q * self.seqlen_k
        return 4 * scores * self.head_dim // (2 if self.causal else 1)

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        return (
            f"B{self.batch} H{self.nheads} S{self.seqlen_q} D{self.head_dim} "
            f"{self.dtype} {mask}"
        )


# The sizes of the two texts that the book began with.
SEEDS = {
    64: Case(4, 16, 16, 4096, 4096, 64, "fp16", causal=False),
    128: Case(1, 32, 32, 8192, 8192, 128, "bf16", causal=False),
}


def forward_cases(head_dim: int) -> list[Case]:
    """Equal tokens at each length, then the seed's own size; full and causal."""
    return list(_with_and_without_mask(_sizes(head_dim)))


def _sizes(head_dim: int) -> Iterator[Case]:
    nheads = NHEADS[head_dim]
    for seqlen in SEQLENS:
        batch = TOKENS // seqlen
        yield Case(
            batch, nheads, nheads, seqlen, seqlen, head_dim, "bf16", causal=False
        )
    if head_dim in SEEDS:
        yield SEEDS[head_dim]


def _with_and_without_mask(sizes: Iterator[Case]) -> Iterator[Case]:
    for size in sizes:
        for causal in (False, True):
            yield replace(size, causal=causal)
