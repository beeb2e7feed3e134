"""The cells that the benchmarks measure, and the work that each holds."""

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

    @property
    def backward_flops(self) -> int:
        """Of the backward: five products where the forward has two."""
        return self.flops * 5 // 2

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        keys = "" if self.seqlen_k == self.seqlen_q else f" on {self.seqlen_k}"
        return (
            f"B{self.batch} H{self.nheads} S{self.seqlen_q}{keys} D{self.head_dim} "
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


def other_cases() -> list[Case]:
    """Sizes that no tile was chosen on, and grouped heads; full and causal.

    Lengths that no tile divides, a head dim between two powers of two, fewer
    queries than keys, and 32 query heads on 8 key heads.
    """
    grouped = Case(4, 32, 8, 4096, 4096, 128, "bf16", causal=False)
    square = replace(SEEDS[128], nheads=16, nheads_k=16)
    sizes = [
        grouped,
        *(
            replace(square, batch=TOKENS // n, seqlen_q=n, seqlen_k=n)
            for n in (1000, 3072, 5000)
        ),
        replace(square, batch=4, seqlen_q=4096, seqlen_k=4096, head_dim=96),
        replace(square, batch=4, seqlen_q=2048),
    ]
    return list(_with_and_without_mask(iter(sizes)))


def ladder_cases() -> list[Case]:
    """Where every rung of the ladder is measured: a size for each head dim."""
    wide = Case(4, 8, 8, 4096, 4096, 256, "bf16", causal=False)
    return list(_with_and_without_mask(iter((SEEDS[64], SEEDS[128], wide))))


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
