"""What chapters 6 and 7 of the backward derive: operations, bytes, registers.

Rates are the published ones: a multiprocessor of Hopper does 4096 operations of
16-bit products in a clock and 16 exponentials, and its shared memory moves 128
bytes; peak and bandwidth are those of the data sheet, as in claims_traffic.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bench.claims_backward_kernels import NHEADS, SEQLEN, SUM
from bench.claims_tiles import SM_REGISTERS, WARP
from bench.claims_traffic import (
    BANDWIDTH_TBS,
    ELEMENT,
    GIB,
    KIB,
    PEAK_TFLOPS,
    whole,
)
from bench.claims_walk import Claim, agree, claim

FLOP_A_CLOCK, EXPS_A_CLOCK, SHARED_A_CLOCK = 4096, 16, 128
WEIGHT_BYTES = 2 * ELEMENT  # stored in 16 bits by the forward, loaded once
EXP_FLOP = FLOP_A_CLOCK // EXPS_A_CLOCK  # products of the time of an exponential
RIDGE = PEAK_TFLOPS / BANDWIDTH_TBS  # FLOP a byte


# --- Recompute or store ---


def recomputing() -> Iterator[Claim]:
    """A weight computed again, or written once and read once: at the peaks."""
    pairs = NHEADS * SEQLEN * SEQLEN
    for head_dim in (64, 128, 256):
        flop = 2 * head_dim
        found = {
            "flop_a_weight": flop,
            "bytes_a_weight": WEIGHT_BYTES,
            "flop_per_byte": flop / WEIGHT_BYTES,
            "with_exponential": (flop + EXP_FLOP) / WEIGHT_BYTES,
            "recompute_ms": pairs * (flop + EXP_FLOP) / (PEAK_TFLOPS * 1e9),
            "store_ms": pairs * WEIGHT_BYTES / (BANDWIDTH_TBS * 1e9),
            "stored_gib": whole(pairs * ELEMENT / GIB),
        }
        case = {"head_dim": head_dim, "nheads": NHEADS, "seqlen_k": SEQLEN}
        yield claim("recompute", found, **case)


def break_even() -> Iterator[Claim]:
    """The head dim at which the two take equally long."""
    alone = RIDGE * WEIGHT_BYTES / 2
    with_exponential = (RIDGE * WEIGHT_BYTES - EXP_FLOP) / 2
    agree(2 * with_exponential + EXP_FLOP, 2 * alone, "the two ways to break even")
    found = {
        "even_alone": round(alone),
        "even_with_exponential": round(with_exponential),
        "exp_flop": EXP_FLOP,
    }
    yield claim("break-even", found)


# --- Accumulators ---


def accumulators() -> Iterator[Claim]:
    """dK and dV of a program that owns block_n keys: the share of an SM's registers."""
    for head_dim in (64, 128, 256):
        for block_n in (64, 128):
            size = 2 * block_n * head_dim * SUM
            found = {
                "dkdv_kib": whole(size / KIB),
                "of_registers": 100 * size / (SM_REGISTERS * 4),
                "by_4_warps": size // 4 // (4 * WARP),
                "by_8_warps": size // 4 // (8 * WARP),
            }
            yield claim("dk-dv-registers", found, head_dim=head_dim, block_n=block_n)


# --- Who reads what from shared memory ---

# One block of 64 queries and a tile of 128 keys, of which two warpgroups own half
# each; a product of a warpgroup reads its second factor from shared memory whole.
QUERIES, KEYS, TILE = 64, 64, 128


class Product(NamedTuple):
    """One of the five, for all keys of the tile.

    first, second: bytes read from shared memory for its factors; 0 where they
    come from registers.
    """

    first: int
    second: int

    @property
    def read(self) -> int:
        return self.first + self.second


def shared_reads(head_dim: int, *, helper: bool) -> Mapping[str, Product]:
    """helper: K and V from registers for the scores, and dQ by a third warpgroup."""
    keys = KEYS * head_dim * ELEMENT  # K or V of a warpgroup
    queries = QUERIES * head_dim * ELEMENT  # Q or dO
    ds = KEYS * QUERIES * ELEMENT
    scores = Product(0 if helper else 2 * keys, 2 * queries)
    # dQ needs dS and K of all keys: read once by one warpgroup, or by two that
    # each take all of dS and half of K's columns.
    readers = 1 if helper else 2
    return {
        "S": scores,
        "dP": scores,
        "dV": Product(0, 2 * queries),
        "dK": Product(2 * ds, 2 * queries),
        "dQ": Product(readers * 2 * ds, 2 * keys),
    }


def shared_memory() -> Iterator[Claim]:
    """Clocks of the products and of shared memory, for a block; they overlap."""
    for head_dim, helper in ((64, True), (128, False)):
        flop = 2 * QUERIES * TILE * head_dim
        reads = shared_reads(head_dim, helper=helper)
        for name, each in reads.items():
            found = {
                "read_kib": whole(each.read / KIB),
                "product_clocks": flop // FLOP_A_CLOCK,
                "shared_clocks": each.read // SHARED_A_CLOCK,
            }
            yield claim("shared-read", found, head_dim=head_dim, one_product=name)
        loaded = 2 * QUERIES * head_dim * ELEMENT  # Q and dO arrive
        exchanged = TILE * QUERIES * ELEMENT  # dS is written
        sent = 2 * QUERIES * head_dim * SUM  # dQ is staged, and read by the TMA
        read = sum(each.read for each in reads.values())
        total = read + loaded + exchanged + sent
        found = {
            "read_kib": whole(read / KIB),
            "other_kib": whole((loaded + exchanged + sent) / KIB),
            "total_kib": whole(total / KIB),
            "product_clocks": len(reads) * flop // FLOP_A_CLOCK,
            "shared_clocks": total // SHARED_A_CLOCK,
        }
        yield claim("shared-block", found, head_dim=head_dim)


def cost_claims() -> Iterator[Claim]:
    yield from recomputing()
    yield from break_even()
    yield from accumulators()
    yield from shared_memory()
