"""What the compiler makes of the kernel that owns keys, tile by tile, for sm_90.

`python -m bench.claims_backward_kernels_tiles` compiles without a GPU and prints
JSON lines of [case, values], beside the interpreting process, as
bench.claims_compiled does.
"""

import contextlib
import io
import re
from collections.abc import Iterator

import torch

from bench.claims_compiled import Warmup
from bench.claims_process import claims_of
from bench.claims_tiles import WARP, number, print_compiled
from bench.claims_walk import Claim, claim
from bench.rows import Columns
from flashwalk import backward, delta
from flashwalk.forward import Tile

HEAD_DIM, SEQLEN, STAGES = 128, 4096, 2
# Four shapes around the one in use, and that one with half of the warps.
TILES = (
    Tile(32, 128, 8, STAGES),
    Tile(64, 128, 8, STAGES),
    Tile(64, 128, 4, STAGES),
    Tile(128, 64, 8, STAGES),
    Tile(128, 128, 8, STAGES),
)


def compile_tile(tile: Tile) -> str:
    """What ptxas says when the kernel is compiled with this tile, not causal."""
    x = torch.empty(1, 1, SEQLEN, HEAD_DIM, dtype=torch.bfloat16, device="meta")
    lse = torch.empty(x.shape[:-1], device="meta")
    log = io.StringIO()
    kernels = (delta, "_attn_bwd_delta"), (backward, "_attn_bwd_dkdv")
    real = [getattr(module, name) for module, name in kernels]
    for (module, name), kernel in zip(kernels, real, strict=True):
        setattr(module, name, Warmup(kernel))
    try:
        with contextlib.redirect_stdout(log):
            backward.launch(
                x, x, x, x, lse, x, None, None, x, x,
                causal=False, softmax_scale=0.1,
                tiles=backward.Tiles(dkdv=tile, dq=tile),
            )  # fmt: skip
    finally:
        for (module, name), kernel in zip(kernels, real, strict=True):
            setattr(module, name, kernel)
    return log.getvalue()


def of_dkdv(log: str) -> str:
    """The part of the log that is about the large kernel, which comes last."""
    return log[log.rindex("Compiling entry function") :]


def tiles() -> Iterator[Claim]:
    """Registers and spills of each tile; how much of a thread two sums would take."""
    used = backward.tiles_for(HEAD_DIM, torch.bfloat16).dkdv
    if used not in TILES:
        raise ValueError(f"the tile in use, {used}, is not among the tiles compiled")
    for tile in TILES:
        log = compile_tile(tile)
        said = of_dkdv(log)
        spilled = (number(rf"(\d+) bytes spill {x}", said) for x in ("stores", "loads"))
        found: Columns = {
            "held": 2 * tile.block_n * HEAD_DIM // (tile.num_warps * WARP),
            "registers": number(r"Used (\d+) registers", said),
            "spills": sum(spilled),
            "codes": ", ".join(sorted(set(re.findall(r"C75\d\d", log)))) or "none",
        }
        case = {"block_m": tile.block_m, "block_n": tile.block_n}
        yield claim("dkdv-tile", found, **case, num_warps=tile.num_warps)


def compiled_claims() -> list[Claim]:
    """The claims of this file, from a process of its own."""
    return claims_of("bench.claims_backward_kernels_tiles")


def main() -> None:
    print_compiled(tiles)


if __name__ == "__main__":
    main()
