"""The job compiled: what the compiler says of every rung and of many tiles.

    python -m bench.compiled

No GPU is needed. The first part compiles every rung with the tile that it uses,
for the GPU that it is written for and for others. The second gives one kernel
tile after tile: as a tile grows, each byte of K and V that is read serves more
queries, until the tile no longer fits into the registers, and spills. The third
and the fourth are the kernels of the backward and of dropout, for Hopper.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from triton.runtime.jit import JITFunction

from bench.compiling import Launch, Options, Outcome, Report, compile_all
from bench.occupancy import (
    CHIPS,
    WARP,
    Chip,
    by_registers,
    by_shared,
    by_tensor_memory,
    by_threads,
)
from bench.rows import Columns, Rows
from flashwalk import backward, dropout, ladder
from flashwalk.forward import Tile
from flashwalk.hopper import backward as hopper_backward

HEAD_DIMS = (64, 128, 256)
ONE_HEAD_DIM = 128
HOME = "sm_90"  # the rungs' tiles are chosen for it
TARGETS = ("sm_80", "sm_89", HOME, "sm_100")

# The sweep: one kernel, always with two stages, so that the tile alone differs.
SWEPT = "forward"
BLOCKS_M = (32, 64, 128, 256)
BLOCKS_N = (32, 64, 128)
WARPS = (4, 8)
STAGES = 2

# The other parts: their launchers, as `flashwalk.explain` calls what they launch.
BACKWARD = {"portable": backward, "hopper": hopper_backward}
DROPOUT = {"dropout": dropout, "portable": backward}

SIZE = 2  # bytes of an element
GROUP_ROWS, GROUP_WARPS = 64, 4  # of a warpgroup that multiplies


class Case(NamedTuple):
    """A launch, in one part of the job: "rungs", "tiles", "backward", "dropout".

    rung: "" in the last two, where choice says whose kernels they are.
    """

    part: str
    rung: str
    launch: Launch
    choice: str = ""

    @property
    def chip(self) -> Chip:
        return CHIPS[self.launch.target]

    def columns(self, outcome: Outcome) -> Columns:
        """The case of a row: a rung with its tile, or a kernel by its name."""
        if self.rung:
            named: Columns = {"rung": self.rung}
            tile: Columns = tile_columns(outcome.options)
        else:
            named, tile = {"choice": self.choice, "kernel": outcome.kernel}, {}
        return {
            "part": self.part,
            **named,
            "target": self.launch.target,
            "head_dim": self.launch.head_dim,
            "dtype": "bf16",
            "causal": self.launch.causal,
            **tile,
        }


def rung_cases() -> Iterator[Case]:
    """Every rung with the tile that it chooses; causal as well at home."""
    for rung, target in product(ladder.RUNGS, TARGETS):
        at_home = target == HOME
        # One head dim tells that Gluon's words for Hopper are of Hopper alone.
        one = not at_home and names_hardware(rung)
        for head_dim in (ONE_HEAD_DIM,) if one else HEAD_DIMS:
            for causal in (False, True) if at_home else (False,):
                launch = Launch(ladder.RUNGS[rung], target, head_dim, causal)
                yield Case("rungs", rung, launch)


def names_hardware(rung: str) -> bool:
    """Whether a rung is written in Gluon, which names the parts of one chip."""
    kernels = vars(ladder.rung(rung)).values()
    return any(isinstance(x, JITFunction) and x.is_gluon() for x in kernels)


def tile_cases() -> Iterator[Case]:
    """One kernel with every tile of the sweep."""
    sizes = product(HEAD_DIMS, BLOCKS_M, BLOCKS_N, WARPS)
    for head_dim, block_m, block_n, num_warps in sizes:
        tile = Tile(block_m, block_n, num_warps, STAGES)
        launch = Launch(ladder.RUNGS[SWEPT], HOME, head_dim, False, tile)
        yield Case("tiles", SWEPT, launch)


def gradient_cases() -> Iterator[Case]:
    """The launches of the backward, each with its own tiles; then those of dropout,
    where one mask of the scores is enough."""
    for (choice, module), head_dim in product(BACKWARD.items(), HEAD_DIMS):
        for causal in (False, True):
            launch = Launch(module.__name__, HOME, head_dim, causal)
            yield Case("backward", "", launch, choice)
    for (choice, module), head_dim in product(DROPOUT.items(), HEAD_DIMS):
        launch = Launch(module.__name__, HOME, head_dim, False, dropout=True)
        yield Case("dropout", "", launch, choice)


# --- What a row says ---


def tile_columns(options: Options) -> dict[str, int]:
    """The tile, from what a kernel is given: of Gluon's roles one only loads."""
    groups = options.get("GROUPS")
    rows, warps = options.get("BLOCK_M"), options["num_warps"]
    if groups:
        rows, warps = groups * GROUP_ROWS, (groups + 1) * GROUP_WARPS
    found = {
        "block_m": rows,
        "block_n": options.get("BLOCK_N"),
        "num_warps": warps,
        "num_stages": options.get("STAGES") or options.get("num_stages"),
        "registers_asked": options.get("REGISTERS") or options.get("maxnreg"),
    }
    return {name: number for name, number in found.items() if number is not None}


def values(case: Case, options: Options, report: Report) -> Columns:
    """What the report says, and what follows from it for an SM."""
    tile = tile_columns(options)
    if not case.rung:
        # How many warps its roles have, a kernel says only when it is compiled.
        return {**tile, "num_warps": report.threads // WARP, **facts(case, report)}
    if tile["num_warps"] * WARP != report.threads:
        raise ValueError(f"{tile} expected, compiled for {report.threads} threads")
    return {
        **facts(case, report),
        "reuse": reuse(tile["block_m"], tile["block_n"], case.launch.head_dim),
        "acc_kib": tile["block_m"] * case.launch.head_dim * 4 / 1024,
    }


def facts(case: Case, report: Report) -> dict[str, int | float | str]:
    """What does not depend on how a kernel cuts its work."""
    fits = {
        "by_registers": by_registers(report.registers, report.threads),
        "by_shared": by_shared(case.chip, report.shared_bytes),
        "by_threads": by_threads(case.chip, report.threads),
    }
    if report.tensor_columns:
        fits["by_tensor_memory"] = by_tensor_memory(case.chip, report.tensor_columns)
    return {
        "registers": report.registers,
        "spills": report.spill_stores + report.spill_loads,
        "spill_stores": report.spill_stores,
        "spill_loads": report.spill_loads,
        "shared_kib": report.shared_bytes / 1024,
        "warnings": len(report.warnings),
        "codes": ", ".join(sorted(set(report.warnings))) or "none",
        "threads": report.threads,
        "ctas_per_sm": min(fits.values()),
        **fits,
        "matmul": report.matmul or "none",
        "matmuls": report.matmuls,
    }


def reuse(block_m: int, block_n: int, head_dim: int) -> int:
    """FLOP of a step of the loop for each byte of K and V that it loads."""
    flops = 2 * 2 * block_m * block_n * head_dim  # of two products
    return flops // (2 * block_n * head_dim * SIZE)


def misfit(shared_bytes: int, chip: Chip) -> str:
    """Why no program can have so much shared memory; empty where one can."""
    if by_shared(chip, shared_bytes):
        return ""
    return (
        f"it takes {shared_bytes / 1024:g} KiB of shared memory, "
        f"of which a program can have {chip.program_kib}"
    )


# --- The run ---


def outcomes(cases: Sequence[Case]) -> Iterator[tuple[Case, Outcome]]:
    """Each case and what came of it; what cannot fit is not compiled."""
    compiled = compile_all(case.launch for case in cases if not hopeless(case))
    for case in cases:
        reason = hopeless(case)
        if reason:
            yield case, Outcome("", as_options(case.launch.tile), None, reason)
            continue
        found = next(compiled)
        if case.rung and len(found) != 1:
            raise ValueError(f"a rung is one kernel, {case.launch} has {len(found)}")
        for outcome in found:
            yield case, outcome


def hopeless(case: Case) -> str:
    """Why a tile of the sweep cannot fit: its K and V alone are too much."""
    tile = case.launch.tile
    if tile is None:
        return ""
    stage = 2 * tile.block_n * case.launch.head_dim * SIZE
    return misfit(tile.num_stages * stage, case.chip)


def as_options(tile: Tile) -> Options:
    """What a launch would pass on."""
    return {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
    }


def write(rows: Rows, case: Case, outcome: Outcome) -> str:
    """Writes the row of a case; returns a line for someone who watches."""
    columns, report = case.columns(outcome), outcome.report
    reason = misfit(report.shared_bytes, case.chip) if report else outcome.reason
    if report is None or reason:
        rows.unmeasured(columns, outcome.status, reason)
        return reason
    rows.measured(columns, values(case, outcome.options, report))
    return f"{report.registers} registers, {report.spill_stores} B spilled"


def main() -> None:
    start = time.monotonic()
    with Rows.open() as rows:
        cases = [*rung_cases(), *tile_cases(), *gradient_cases()]
        for case, outcome in outcomes(cases):
            line = write(rows, case, outcome)
            seconds = time.monotonic() - start
            told = f"{case.launch} {outcome.kernel}: {line}"
            print(f"{seconds:4.0f} s  {told}", file=sys.stderr)


if __name__ == "__main__":
    main()
