"""The jobs standing and backward-standing: ours against the fastest other.

    python -m bench.standing
    python -m bench.standing --backward

Reads the records of the speed jobs, so it is old as soon as they are. A cell's
ratio is our speed over that of the best of FlashAttention 2, 3, 4 and cuDNN in
the same run; their geometric mean weighs a cell at twice the speed as much as
one at half of it. Tuned: a size that tiles were chosen on.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.implementations import RIVALS
from bench.rows import Rows

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "nvidia-h200"
TUNED = ("d64", "d128", "d256")
UNTUNED = ("other",)
OURS = "flashwalk"
VALUES = (
    *("ours", "best", "rival", "against_best", "spread"),
    *("count", "worst", "ahead"),
)


class Cell(NamedTuple):
    """Our speed in one case, and the fastest other's, in TFLOP/s."""

    case: dict[str, Any]
    tuned: bool
    ours: float
    best: float
    rival: str
    spread: float  # of the ratio, by the slowest and fastest rounds of both

    @property
    def ratio(self) -> float:
        return self.ours / self.best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backward", action="store_true")
    write(RESULTS, "backward" if parser.parse_args().backward else "forward")


def write(results: Path, mode: str) -> None:
    """The rows of a mode, from the records of its speed in `results`."""
    cells = [
        cell
        for names, tuned in ((TUNED, True), (UNTUNED, False))
        for name in names
        for cell in cells_of(results / f"{mode}-{name}.json", tuned)
    ]
    with Rows.open() as rows:
        for cell in cells:
            rows.measured(
                {**cell.case, "tuned": cell.tuned},
                {
                    "ours": cell.ours,
                    "best": cell.best,
                    "rival": cell.rival,
                    "against_best": short(cell.ratio),
                    "spread": short(cell.spread),
                },
            )
        tuned = [cell for cell in cells if cell.tuned]
        for name, group in (("all", cells), ("tuned", tuned)):
            rows.measured({"scope": name}, summary(group))


def cells_of(path: Path, tuned: bool) -> Iterator[Cell]:
    """The cells of one record in which we and a rival were measured."""
    by_case: dict[str, dict[str, Any]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        if "tflops" in row.get("values", {}):
            case = {k: v for k, v in row["case"].items() if k != "impl"}
            speeds = by_case.setdefault(json.dumps(case, sort_keys=True), {})
            speeds[row["case"]["impl"]] = row["values"]
    for text, speeds in by_case.items():
        rivals = {name: speeds[name] for name in RIVALS if name in speeds}
        if OURS not in speeds or not rivals:
            continue
        rival = max(rivals, key=lambda name: rivals[name]["tflops"])
        ours, best = speeds[OURS], rivals[rival]
        high = ours["tflops_high"] / best["tflops_low"]
        low = ours["tflops_low"] / best["tflops_high"]
        yield Cell(
            json.loads(text), tuned, ours["tflops"], best["tflops"], rival, high - low
        )


def summary(cells: Sequence[Cell]) -> dict[str, int | float]:
    ratios = [cell.ratio for cell in cells]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return {
        "count": len(ratios),
        "against_best": short(mean),
        "worst": short(min(ratios)),
        "ahead": sum(ratio > 1 for ratio in ratios),
    }


def short(number: float) -> float:
    return float(f"{number:.4g}")


if __name__ == "__main__":
    main()
