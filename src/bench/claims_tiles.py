"""What a launch costs on an SM of sm_90: registers, shared memory, kernels.

`python -m bench.claims_tiles` compiles without a GPU and prints JSON lines of
[case, values], beside the interpreting process, as bench.claims_compiled does.
"""

import contextlib
import io
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from types import ModuleType
from typing import Any

import torch
import triton

from bench.claims_compiled import (
    DTYPES,
    SM_KIB,
    HostDriver,
    Warmup,
    instructions,
)
from bench.claims_kernel import kernel_with
from bench.claims_process import claims_of, print_claims
from bench.claims_walk import Claim, agree, claim
from flashwalk import forward
from flashwalk.forward import Tile

SM_REGISTERS = 65_536  # of 32 bits, shared by all threads of an SM
WARP = 32
ALLOCATED = 8  # registers of a thread come in eights

HEAD_DIMS = {"fp16": (64, 128, 256), "fp32": (32, 64, 128, 256)}
LENGTHS = (1, 16, 17, 100, 4096)
_SPECIALISED = """\
@triton.jit(do_not_specialize=[
    "nheads", "group_size", "seqlen_q", "seqlen_k",
])
"""


def compile_kernel(
    module: ModuleType,
    head_dim: int,
    dtype: str,
    *,
    causal: bool,
    seqlen: int = 4096,
    tile: Tile | None = None,
) -> tuple[Any, str]:
    """What `module.launch` would launch, and what ptxas says; tensors are meta."""
    q, k, v, out = (
        torch.empty(2, 16, seqlen, head_dim, dtype=DTYPES[dtype], device="meta")
        for _ in range(4)
    )
    lse = torch.empty(q.shape[:-1], device="meta")
    warmup, log = Warmup(module._attn_fwd), io.StringIO()
    module._attn_fwd = warmup  # type: ignore[attr-defined]
    try:
        with contextlib.redirect_stdout(log):
            module.launch(
                q, k, v, out, lse, causal=causal, softmax_scale=0.125, tile=tile
            )
    finally:
        module._attn_fwd = warmup.kernel  # type: ignore[attr-defined]
    return warmup.compiled, log.getvalue()


@cache
def in_use(head_dim: int, dtype: str, causal: bool) -> tuple[Any, str]:
    """Our kernel with its own tile: ptxas speaks of each kernel once."""
    return compile_kernel(forward, head_dim, dtype, causal=causal)


def number(pattern: str, log: str) -> int:
    """The one number that `pattern` finds in what ptxas says."""
    (found,) = re.findall(pattern, log)
    return int(found)


def tiles() -> Iterator[Claim]:
    """The tiles in use, causal, and how many programs an SM has room for."""
    for dtype, head_dims in HEAD_DIMS.items():
        for head_dim in head_dims:
            tile = forward.tile_for(head_dim, DTYPES[dtype])
            yield _tile(dtype, head_dim, tile)


def _tile(dtype: str, head_dim: int, tile: Tile) -> Claim:
    compiled, log = in_use(head_dim, dtype, True)
    registers = number(r"Used (\d+) registers", log)
    spills = number(r"(\d+) bytes spill stores", log)
    agree(spills, 0, f"the spills of {tile} and none")
    shared = compiled.metadata.shared / 1024
    threads = tile.num_warps * WARP
    a_thread = -(-registers // ALLOCATED) * ALLOCATED
    by_registers = SM_REGISTERS // (a_thread * threads)
    by_shared = int(SM_KIB // (shared + 1))
    found = {
        "block_m": tile.block_m,
        "block_n": tile.block_n,
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
        "registers": registers,
        "shared_kib": shared,
        "programs": min(by_registers, by_shared),
        "by_registers": by_registers,
        "by_shared": by_shared,
    }
    return claim("tile", found, dtype=dtype, head_dim=head_dim)


def two_kernels() -> Iterator[Claim]:
    """The same source, compiled with CAUSAL true and false."""
    for head_dim, causal in product((64, 128), (False, True)):
        compiled, log = in_use(head_dim, "fp16", causal)
        found = {
            "instructions": len(instructions(compiled)),
            "registers": number(r"Used (\d+) registers", log),
        }
        yield claim("compiled", found, dtype="fp16", head_dim=head_dim, causal=causal)


def one_division_a_row() -> Iterator[Claim]:
    """Divisions in a thread's code: the accumulator is divided number by number."""
    for head_dim in (64, 128):
        tile = forward.tile_for(head_dim, torch.float16)
        compiled, _ = in_use(head_dim, "fp16", False)
        threads = tile.num_warps * WARP
        numbers = tile.block_m * head_dim // threads
        lines = [x for x in instructions(compiled) if x.startswith("div.full.f32")]
        agree(len(lines), numbers, "divisions and accumulators")
        found = {"divisions": numbers, "threads": threads}
        yield claim("division", found, head_dim=head_dim, block_m=tile.block_m)


def kernels_for_lengths() -> Iterator[Claim]:
    """How many kernels Triton compiles for five lengths, keys and queries alike."""
    plain = kernel_with((_SPECIALISED, "@triton.jit\n"))
    for name, module in (("not", forward), ("specialised", plain)):
        hashes = {
            compile_kernel(module, 64, "fp16", causal=False, seqlen=seqlen)[0].hash
            for seqlen in LENGTHS
        }
        yield claim(
            "kernels",
            {"kernels": len(hashes)},
            sizes=name,
            lengths=", ".join(str(seqlen) for seqlen in LENGTHS),
        )


def compiled_claims() -> list[Claim]:
    """The claims of this file, from a process of its own."""
    return claims_of("bench.claims_tiles")


def print_compiled(*sources: Callable[[], Iterable[Claim]]) -> None:
    """Prints the claims of a program that compiles, and reads what ptxas says."""
    triton.runtime.driver.set_active(HostDriver())
    triton.knobs.nvidia.dump_ptxas_log = True
    with tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = folder  # ptxas speaks when it compiles, not later
        print_claims(sources)


def main() -> None:
    print_compiled(tiles, two_kernels, one_division_a_row, kernels_for_lengths)


if __name__ == "__main__":
    main()
