"""What rounding does to the weights, the scores and their sums, on the CPU."""

import math
from collections.abc import Iterator

import torch

from bench.claims_walk import Claim, claim

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
TF32_BITS = 10  # explicit mantissa bits of TF32; fp32 has 23
FP32_BITS = 23


def weights_in_16_bits(draws: int = 1 << 20, seed: int = 0) -> Iterator[Claim]:
    """By how much a weight in (0, 1] moves when it is rounded to 16 bits."""
    generator = torch.Generator().manual_seed(seed)
    p = 1.0 - torch.rand(draws, generator=generator)
    p = p[p > 2.0**-10]  # normal numbers in both dtypes
    for name, dtype in DTYPES.items():
        bound = torch.finfo(dtype).eps / 2  # half the distance of two neighbours
        found = float(((p.to(dtype).float() - p) / p).abs().max())
        if not 0.9 * bound < found <= bound:
            raise ValueError(f"{name}: rounds by {found}, expected nearly {bound}")
        values = {"one_part_in": round(1 / bound), "relative": found}
        yield claim("rounding", values, dtype=name, draws=draws, seed=seed)


def smallest_weight() -> Iterator[Claim]:
    """How far under the maximum a score may lie before its weight is 0 in fp16."""
    low, high = 0.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        alive = torch.tensor(-middle, dtype=torch.float64).exp().half().item() > 0
        low, high = (middle, high) if alive else (low, middle)
    coarser = math.log(torch.finfo(torch.float16).smallest_normal)
    found = {"vanishes_at": -high, "coarser_from": coarser}
    yield claim("smallest-weight", found, dtype="fp16")


def overflow_of_exp() -> Iterator[Claim]:
    """The largest x whose exp is finite, without a maximum to subtract."""
    for name, dtype in {"fp32": torch.float32, "fp16": torch.float16}.items():
        largest = torch.finfo(dtype).max
        x = math.log(largest)
        beyond = torch.tensor(x + 0.01, dtype=torch.float64).exp().to(dtype)
        if not math.isinf(beyond.item()):
            raise ValueError(f"{name}: exp({x + 0.01}) is still finite")
        yield claim("overflow", {"overflows_at": x, "largest": largest}, dtype=name)


def base_two() -> Iterator[Claim]:
    """The constant that turns exp into exp2."""
    yield claim("log2e", {"log2e": math.log2(math.e)})


def sums_of_rounded_weights(
    keys: int = 4096, rows: int = 1024, seed: int = 0
) -> Iterator[Claim]:
    """How far Σ round(p) is from Σ p: the denominator sums unrounded weights."""
    generator = torch.Generator().manual_seed(seed)
    s = torch.randn(rows, keys, generator=generator, dtype=torch.float64)
    p = (s - s.amax(1, keepdim=True)).exp()
    for name, dtype in DTYPES.items():
        error = (p.to(dtype).double().sum(1) / p.sum(1) - 1).abs()
        found = {"relative": float(error.mean())}
        yield claim("rounded-sum", found, dtype=name, keys=keys, rows=rows, seed=seed)


def tail_leak(
    keys: int = 100, padded: int = 28, head_dim: int = 64, seeds: int = 1000
) -> Iterator[Claim]:
    """The weight that padded keys take when their scores stay 0, for random keys."""
    shares = []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        q = torch.randn(head_dim, generator=generator, dtype=torch.float64)
        k = torch.randn(keys, head_dim, generator=generator, dtype=torch.float64)
        weights = (k @ q * head_dim**-0.5).exp()
        shares.append(padded / (padded + float(weights.sum())))
    share = torch.tensor(shares, dtype=torch.float64) * 100
    found = {"leak": float(share.mean()), "leak_se": float(share.std() / seeds**0.5)}
    sizes = {"keys": keys, "padded": padded, "head_dim": head_dim, "seeds": seeds}
    yield claim("tail-leak", found, **sizes)


def round_mantissa(x: torch.Tensor, bits: int) -> torch.Tensor:
    """fp32 numbers rounded to `bits` explicit mantissa bits, halves away from 0."""
    dropped = FP32_BITS - bits
    raw = x.view(torch.int32)
    return ((raw + (1 << (dropped - 1))) & -(1 << dropped)).view(torch.float32)


def scores_in_tf32(
    head_dim: int = 128, rows: int = 1024, seed: int = 0
) -> Iterator[Claim]:
    """The error of scaled scores when q and k are first rounded to TF32."""
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(rows, head_dim, generator=generator) for _ in "qk")
    exact = q.double() @ k.double().T * head_dim**-0.5
    rounded = [round_mantissa(x, TF32_BITS).double() for x in (q, k)]
    errors = {
        "tf32": (rounded[0] @ rounded[1].T * head_dim**-0.5 - exact).abs(),
        "ieee": ((q @ k.T * head_dim**-0.5).double() - exact).abs(),
    }
    for precision, error in errors.items():
        found = {"error_mean": float(error.mean()), "error_max": float(error.max())}
        sizes = {"head_dim": head_dim, "rows": rows, "seed": seed}
        yield claim("fp32-product", found, precision=precision, **sizes)


def scale_on_q(rows: int = 1024, seed: int = 0) -> Iterator[Claim]:
    """The error of scores when fp16 queries are scaled before the product."""
    generator = torch.Generator().manual_seed(seed)
    for head_dim in (64, 128):
        q, k = (torch.randn(rows, head_dim, generator=generator).half() for _ in "qk")
        exact = q.double() @ k.double().T * head_dim**-0.5
        early = (q.float() * head_dim**-0.5).half().double() @ k.double().T
        found = {"error_max": float((early - exact).abs().max())}
        yield claim(
            "scale-on-q", found, dtype="fp16", head_dim=head_dim, rows=rows, seed=seed
        )
