"""What Triton makes of the kernel for sm_90: shared memory and instructions.

`python -m bench.claims_compiled` compiles without a GPU and prints JSON lines
of [case, values]. The interpreter and the compiler cannot share a process:
claims.py, which interprets, starts this program beside itself.
"""

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import product
from types import ModuleType
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from bench.claims_kernel import Edit, kernel_with
from bench.claims_process import claims_of, print_claims
from bench.claims_walk import Claim, claim
from flashwalk import forward

SM_90 = GPUTarget("cuda", 90, 32)
LIMIT_KIB = 227  # the shared memory that one program can have on sm_90
SM_KIB = 228  # and that all programs of an SM share; each costs 1 KiB more
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
SIZE_OF_16_BIT = 2

_K_SWAPPED = """\
        k_cols = cols[None, :].to(tl.int64)
        k_at = k_base + k_cols * stride_kn + offs_d[:, None]
        k_mask = in_head[:, None] & in_keys[None, :]
        k = tl.load(k_at, mask=k_mask, other=0.0)  # [HEAD_DIM, BLOCK_N]
"""
_K_TRANSPOSED = """\
        k_rows = cols[:, None].to(tl.int64)
        k_at = k_base + k_rows * stride_kn + offs_d[None, :]
        k_mask = in_keys[:, None] & in_head[None, :]
        k = tl.trans(tl.load(k_at, mask=k_mask, other=0.0))
"""
_DOT = 'tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")'

_NO_INSTRUCTION = (".", "$L", "{", "}")

CHANGES: dict[str, tuple[Edit, ...]] = {
    "tl.trans": ((_K_SWAPPED, _K_TRANSPOSED),),
    "acc-plus-dot": ((_DOT, 'acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")'),),
    "exp2": (
        ("p = tl.exp(", "p = tl.exp2("),
        ("alpha = tl.exp(", "alpha = tl.exp2("),
    ),
}


class HostDriver:
    """Stands in for the CUDA driver, as far as compiling asks for one."""

    def get_current_target(self) -> GPUTarget:
        return SM_90

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Warmup:
    """Takes the kernel's place in its module: compiles, does not launch."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.compiled: Any = None

    def __getitem__(self, grid: Any) -> Any:
        def compile_only(*args: Any, **kwargs: Any) -> None:
            self.compiled = self.kernel.warmup(*args, grid=grid, **kwargs)

        return compile_only


def compile_launch(
    module: ModuleType, head_dim: int, dtype: str, tile: forward.Tile | None = None
) -> Any:
    """Compiles what `module.launch` would launch, not causal; tensors are meta."""
    q, k, v, out = (
        torch.empty(2, 16, 4096, head_dim, dtype=DTYPES[dtype], device="meta")
        for _ in range(4)
    )
    lse = torch.empty(q.shape[:-1], device="meta")
    warmup = Warmup(module._attn_fwd)
    module._attn_fwd = warmup  # type: ignore[attr-defined]
    try:
        module.launch(q, k, v, out, lse, causal=False, softmax_scale=0.125, tile=tile)
    finally:
        module._attn_fwd = warmup.kernel  # type: ignore[attr-defined]
    return warmup.compiled


def instructions(compiled: Any) -> list[str]:
    """The lines of its PTX that do something, without places and comments."""
    lines = (line.split("//")[0] for line in compiled.asm["ptx"].splitlines())
    words = (" ".join(line.split()) for line in lines)
    return [line for line in words if line and not line.startswith(_NO_INSTRUCTION)]


def shared_memory() -> Iterator[Claim]:
    """One program's shared memory: Q, and K and V once for each stage."""
    for head_dim in (64, 128, 256):
        tile = forward.tile_for(head_dim, torch.float16)
        several = range(2, 7) if head_dim == 128 else (tile.num_stages,)
        for stages in several:
            yield _stages(tile._replace(num_stages=stages), head_dim)


def _stages(tile: forward.Tile, head_dim: int) -> Claim:
    row = head_dim * SIZE_OF_16_BIT
    q_kib = tile.block_m * row // 1024
    stage_kib = tile.block_n * row * len("kv") // 1024
    total = q_kib + tile.num_stages * stage_kib
    compiled = compile_launch(forward, head_dim, "fp16", tile).metadata.shared / 1024
    if compiled != total:
        raise ValueError(f"{tile}: {total} KiB expected, Triton takes {compiled}")
    found = {"q_kib": q_kib, "stage_kib": stage_kib, "total_kib": total}
    fitting = {"limit_kib": LIMIT_KIB, "programs": SM_KIB // (total + 1)}
    return claim(
        "shared-memory",
        found | fitting,
        head_dim=head_dim,
        stages=tile.num_stages,
        block_m=tile.block_m,
        block_n=tile.block_n,
    )


def same_instructions() -> Iterator[Claim]:
    """Two other ways to write a line, and how much of the PTX they change."""
    for head_dim, dtype in product((64, 128), DTYPES):
        ours = instructions(compile_launch(forward, head_dim, dtype))
        for change in ("tl.trans", "acc-plus-dot"):
            other = kernel_with(*CHANGES[change])
            theirs = instructions(compile_launch(other, head_dim, dtype))
            found = {"instructions": len(ours), "differing": differing(ours, theirs)}
            yield claim(
                "same-instructions",
                found,
                change=change,
                head_dim=head_dim,
                dtype=dtype,
            )


def differing(ours: list[str], theirs: list[str]) -> int:
    """How many lines would have to go or come to make one of the other."""
    blocks = SequenceMatcher(a=ours, b=theirs, autojunk=False).get_matching_blocks()
    return len(ours) + len(theirs) - 2 * sum(block.size for block in blocks)


def multiplications_for_exp() -> Iterator[Claim]:
    """What exp costs beside exp2: both end in the same instruction."""
    other = kernel_with(*CHANGES["exp2"])
    for head_dim in (64, 128):
        ours = operations(compile_launch(forward, head_dim, "fp16"))
        theirs = operations(compile_launch(other, head_dim, "fp16"))
        if ours["ex2"] != theirs["ex2"]:
            raise ValueError(f"{ours['ex2']} and {theirs['ex2']} exponentials")
        saved = ours["mul"] - theirs["mul"]
        found = {"exponentials": ours["ex2"], "multiplications_saved": saved}
        yield claim("exp2", found, head_dim=head_dim)


def operations(compiled: Any) -> Counter[str]:
    """How often each kind of instruction occurs: the word before its first dot."""
    return Counter(line.split()[0].split(".")[0] for line in instructions(compiled))


def compiled_claims() -> list[Claim]:
    """The claims of this file, from a process of its own."""
    return claims_of("bench.claims_compiled")


def main() -> None:
    triton.runtime.driver.set_active(HostDriver())
    print_claims((shared_memory, same_instructions, multiplications_for_exp))


if __name__ == "__main__":
    main()
