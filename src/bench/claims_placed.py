"""Where the compiler puts what a program holds, and how many programs run at once.

`python -m bench.claims_placed` compiles without a GPU and prints JSON lines of
[case, values]. The interpreter and the compiler cannot share a process:
claims.py, which interprets, starts this program beside itself.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from bench.cases import NHEADS, SEEDS
from bench.claims_compiled import SM_KIB, HostDriver, compile_launch
from bench.claims_kernel import kernel_with
from bench.claims_process import claims_of, print_claims
from bench.claims_walk import Claim, claim
from flashwalk import forward
from flashwalk.forward import tile_for

SM_COUNT = 132  # multiprocessors of an H200
REGISTERS = 65_536  # of one multiprocessor; a warp takes 256 at a time
UNIT = 8  # so a thread's share is a multiple of 8


class Target(HostDriver):
    """A driver for another generation: 80 is an A100, 90 an H100 or H200."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)


def operand_places() -> Iterator[Claim]:
    """Where the first operand of each product lies: Q of the first, P of the other."""
    for capability in (80, 90):
        triton.runtime.driver.set_active(Target(capability))
        # A copy of the kernel, since Triton keeps what it compiled before.
        text = compile_launch(kernel_with(), 64, "fp16").asm["ttgir"]
        scores, output = (_first_operand(line) for line in _products(text))
        found = {"q_operand": scores, "p_operand": output}
        yield claim("operands", found, capability=capability, head_dim=64, dtype="fp16")


def _products(text: str) -> list[str]:
    """The two products of the loop, in their order, in Triton's own notation."""
    lines = [line for line in text.splitlines() if re.search(r"= \S+dot %", line)]
    if len(lines) != 2:
        raise ValueError(f"expected the kernel's two products, got {lines}")
    return lines


def _first_operand(line: str) -> str:
    """A product names its operands' types: memory that it reads, or a tensor."""
    types = line.split(" : ")[1]
    if types.startswith("!ttg.memdesc"):
        return "shared memory"
    if types.startswith("tensor"):
        return "registers"
    raise ValueError(f"neither memory nor a tensor: {line}")


def at_once() -> Iterator[Claim]:
    """How many programs of our tile a chip holds, and so how often it is filled."""
    triton.runtime.driver.set_active(Target(90))
    for head_dim in (64, 128, 256):
        tile = tile_for(head_dim, torch.float16)
        compiled = compile_launch(forward, head_dim, "fp16")
        registers = used_registers(compiled)
        by_registers = by_register_file(registers, 32 * tile.num_warps)
        by_shared = SM_KIB * 1024 // (compiled.metadata.shared + 1024)
        per_sm = min(by_registers, by_shared)
        found = {
            "registers": registers,
            "by_registers": by_registers,
            "by_shared": by_shared,
            "per_sm": per_sm,
            "at_once": SM_COUNT * per_sm,
        }
        yield claim("at-once", found, head_dim=head_dim, sm_count=SM_COUNT)
        if head_dim in SEEDS:
            yield from _filled(head_dim, tile.block_m, SM_COUNT * per_sm)


def _filled(head_dim: int, block_m: int, places: int) -> Iterator[Claim]:
    """Three grids: by blocks of queries, by heads alone, and for one query each."""
    size = SEEDS[head_dim]
    one_long = (1, NHEADS[head_dim], 16_384)
    for batch, nheads, seqlen in ((size.batch, size.nheads, size.seqlen_q), one_long):
        blocks = -(-seqlen // block_m)
        grids = {"blocks": blocks * batch * nheads, "heads": batch * nheads}
        for cut, programs in grids.items():
            found = {
                "programs_all": programs,
                "times_filled": programs / places,
                "busy": 100 * min(1.0, programs / SM_COUNT),
                "heads_at_once": min(batch * nheads, places / blocks),
            }
            yield claim(
                "filled",
                found,
                cut=cut,
                batch=batch,
                nheads=nheads,
                seqlen_q=seqlen,
                head_dim=head_dim,
                sm_count=SM_COUNT,
            )


def by_register_file(registers: int, threads: int) -> int:
    """Programs whose registers fit into one multiprocessor."""
    return REGISTERS // (-(-registers // UNIT) * UNIT * threads)


def used_registers(compiled: Any) -> int:
    """Registers a thread, as the compiled program's own header says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(compiled.asm["cubin"])
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(path)]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    (found,) = re.findall(r"REG:(\d+)", told.stdout)
    return int(found)


def placed_claims() -> list[Claim]:
    """The claims of this file, from a process of its own."""
    return claims_of("bench.claims_placed")


def main() -> None:
    print_claims((operand_places, at_once))


if __name__ == "__main__":
    main()
