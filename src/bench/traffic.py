"""The jobs traffic and backward-traffic: the bytes of a call through device memory.

    python -m bench.traffic
    python -m bench.traffic --backward

Nsight Compute reads the memory controllers' counters while a child process,
bench.traffic_target, makes one call of the naive version, and another one call of
each rung of the ladder, or of each of our backwards; and what the tensor cores did,
as a share of their peak in the same time. How it is asked to:

- `--cache-control none`. By default it empties the caches before each kernel.
  For one kernel that is a fair start, but among several it hides what really
  happens: scores pass from one kernel to the next through L2 as far as they fit.
  So the target does it itself, once, before the call: both begin cold.
- What a kernel has written may still lie in L2 when it ends, and then no counter
  has seen it. All of our output would fit. So the target's sweep follows the
  call, and what the controllers write during it is counted as the call's.
- `--replay-mode application`. Should the counters need several passes, the whole
  program runs again. The other way, repeating each kernel, restores memory in
  between, which would pass through the very cache that we want left alone.
- `--clock-control none`: bytes do not depend on the clock, and the chip is not
  ours alone.
"""

import argparse
import csv
import glob
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch

from bench.cases import Case
from bench.measure import Unmeasured, Values
from bench.rows import Columns, Rows
from bench.traffic_target import BACKWARDS, CASE, SWEEP_KERNEL
from flashwalk.forward import Tile, tile_for
from flashwalk.ladder import RUNGS

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
# Products of fp16, in per cent of what the tensor cores could have done meanwhile.
TENSOR = "sm__ops_path_tensor_op_hgmma_src_fp16.avg.pct_of_peak_sustained_elapsed"
# Where NVIDIA's packages put it when it is not on the path.
PLACES = ("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda/bin/ncu")
SECONDS = 150  # for one run of the profiler; there are two

MIB = 2**20
_UNITS = {"byte": 1, "Kbyte": 10**3, "Mbyte": 10**6, "Gbyte": 10**9, "Tbyte": 10**12}
# How it says that this machine gives no counters.
_FORBIDDEN = re.compile(
    r"ERR_NVGPUCTRPERM|initialize the profiler|Profiling is not supported", re.I
)


class Kernel(NamedTuple):
    """One launch, the bytes that device memory moved, and the tensor cores' share.

    tensor: per cent of the peak of the tensor cores.
    """

    name: str
    read: float
    written: float
    tensor: float


class NoCounters(Exception):
    """This machine has no profiler, or lets no one read its counters."""


# What runs under the profiler is not seen to load these: the job itself does.
LOADED = {
    "forward": tuple(RUNGS.values()),
    "backward": ("flashwalk.backward", "flashwalk.hopper.backward"),
}
OURS = {
    "forward": tuple(RUNGS),
    "backward": tuple(name for name in BACKWARDS if name != "naive"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backward", action="store_true")
    mode = "backward" if parser.parse_args().backward else "forward"
    if not torch.cuda.is_available():
        raise SystemExit("bench.traffic needs a CUDA device")
    for module in LOADED[mode]:
        import_module(module)
    with Rows.open() as rows:
        for names in (("naive",), OURS[mode]):
            for name, outcome in measured(mode, names).items():
                print(name, outcome, file=sys.stderr)
                if isinstance(outcome, Unmeasured):
                    rows.unmeasured(columns(mode, name), *outcome)
                else:
                    rows.measured(columns(mode, name), outcome)


def measured(mode: str, names: Sequence[str]) -> dict[str, Values | Unmeasured]:
    """What one run of the profiler found of each of these, or why it did not."""
    try:
        calls = by_call(read_report(profile(find_ncu(), mode, names)), len(names))
        return {
            name: values(mode, name, kernels)
            for name, kernels in zip(names, calls, strict=True)
        }
    except NoCounters as error:
        why = Unmeasured("unsupported", str(error))
    except subprocess.TimeoutExpired:
        why = Unmeasured("failed", f"ncu took longer than {SECONDS} s")
    except (RuntimeError, ValueError, OSError) as error:
        why = Unmeasured("failed", _one_line(f"{type(error).__name__}: {error}"))
    return dict.fromkeys(names, why)


def values(mode: str, name: str, kernels: Sequence[Kernel]) -> Values:
    if mode == "backward":
        return moved(kernels, backward_floor_bytes(CASE))
    return {**moved(kernels, floor_bytes(CASE)), **derived(name, CASE)}


def columns(mode: str, name: str) -> Columns:
    who = "rung" if mode == "forward" and name != "naive" else "impl"
    return {
        who: name,
        **({"mode": mode} if mode == "backward" else {}),
        "batch": CASE.batch,
        "nheads": CASE.nheads,
        "seqlen_q": CASE.seqlen_q,
        "head_dim": CASE.head_dim,
        "dtype": CASE.dtype,
        "causal": CASE.causal,
    }


# --- The profiler ---


def find_ncu() -> str:
    """Nsight Compute's program; the newest, where there are several."""
    found = shutil.which("ncu")
    if found:
        return found
    for place in PLACES:
        paths = sorted(glob.glob(place), key=_version)
        if paths:
            return paths[-1]
    raise NoCounters("Nsight Compute (ncu) is not installed")


def _version(path: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", path)]


def ncu_words(ncu: str, report: Path, mode: str, names: Sequence[str]) -> list[str]:
    """The command line; why so is said at the top of this file."""
    return [
        ncu,
        *("--metrics", f"{READ},{WRITTEN},{TENSOR}"),
        *("--profile-from-start", "off"),
        *("--target-processes", "application-only"),
        *("--cache-control", "none"),
        *("--clock-control", "none"),
        *("--replay-mode", "application"),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--log-file", str(report)),
        *(sys.executable, "-m", "bench.traffic_target", mode, *names),
    ]


def profile(ncu: str, mode: str, names: Sequence[str]) -> str:
    """The profiler's report. Raises NoCounters, or RuntimeError with its reason."""
    with tempfile.TemporaryDirectory(prefix="traffic-") as name:
        report, output = Path(name) / "report.csv", Path(name) / "output.txt"
        with output.open("wb") as file:
            # Into a file: a pipe would stay open in what a killed ncu leaves.
            done = subprocess.run(
                ncu_words(ncu, report, mode, names),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            )
        text = _text(report)
        _raise_if_broken(done.returncode, text, _text(output))
        return text


def _raise_if_broken(status: int, report: str, output: str) -> None:
    """It says what is wrong in its report, the target in its output."""
    found = re.findall(r"^==ERROR==\s*(.+)$", f"{report}\n{output}", re.MULTILINE)
    forbidden = [line for line in found if _FORBIDDEN.search(line)]
    if forbidden:
        raise NoCounters(f"ncu: {_one_line(forbidden[0])}")
    if status or found:
        last = output.strip().splitlines()[-1:]
        told = " ".join([*found[:1], *last]) or "it said nothing"
        raise RuntimeError(f"ncu ended with {status}: {_one_line(told)}")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _one_line(text: str) -> str:
    """Fit for a record: short, and without this machine's folders."""
    return re.sub(r"(?:/[\w.+-]+)+/", "", " ".join(text.split()))[:300]


# --- Its report ---


def read_report(text: str) -> list[Kernel]:
    """The launches in a report of `--csv --page raw`, in their order.

    It is a line of columns, a line of their units, and a line a launch, with
    other words around. Raises ValueError where that is not what came.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = [row for row in csv.reader(lines) if row]
    headers = [i for i, row in enumerate(table) if "Kernel Name" in row]
    if not headers or len(table) < headers[0] + 3:
        raise ValueError(f"no kernel in the profiler's report: {_one_line(text)}")
    columns, units, *launches = table[headers[0] :]
    for name in (READ, WRITTEN, TENSOR):
        if name not in columns:
            raise ValueError(f"the profiler's report has no column {name}: {columns}")
    return list(_kernels(columns, units, launches))


def _kernels(
    columns: Sequence[str], units: Sequence[str], launches: Sequence[Sequence[str]]
) -> Iterator[Kernel]:
    unit = dict(zip(columns, units, strict=True))
    for launch in launches:
        cell = dict(zip(columns, launch, strict=True))
        read, written = (
            _bytes(cell[name], unit[name], name) for name in (READ, WRITTEN)
        )
        tensor = _number(cell[TENSOR], TENSOR)
        yield Kernel(cell["Kernel Name"], read, written, tensor)


def _bytes(number: str, unit: str, column: str) -> float:
    """A cell in bytes: '100,663,296' of 'byte', '100.66' of 'Mbyte'."""
    if unit not in _UNITS:
        raise ValueError(f"{column}: expected bytes, got {number!r} {unit!r}")
    return _number(number, column) * _UNITS[unit]


def _number(text: str, column: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise ValueError(f"{column}: expected a number, got {text!r}") from None


# --- What it amounts to ---


def by_call(kernels: Sequence[Kernel], calls: int) -> list[list[Kernel]]:
    """The kernels of each call; a sweep ends each of them and belongs to it."""
    parts: list[list[Kernel]] = [[]]
    for kernel in kernels:
        parts[-1].append(kernel)
        if _is_sweep(kernel):
            parts.append([])
    if parts.pop() or len(parts) != calls:
        names = [kernel.name for kernel in kernels]
        raise ValueError(f"expected {calls} calls, each with a sweep, got {names}")
    return parts


def moved(kernels: Sequence[Kernel], floor: int) -> Values:
    """The call's own kernels summed, in MiB; the sweep's writes belong to them.

    floor: the least bytes that such a call can move.
    """
    *own, last = kernels
    if not own or not _is_sweep(last) or any(map(_is_sweep, own)):
        names = [kernel.name for kernel in kernels]
        raise ValueError(f"expected the call's kernels and one sweep, got {names}")
    read = sum(kernel.read for kernel in own)
    written = sum(kernel.written for kernel in own) + last.written
    shares = [kernel.tensor for kernel in own if kernel.tensor]
    return {
        "kernels": len(own),
        "read_mib": _mib(read),
        "written_mib": _mib(written),
        "written_late_mib": _mib(last.written),
        "moved_mib": _mib(read + written),
        "floor_mib": _mib(floor),
        "ratio": _short((read + written) / floor),
        # Where one kernel multiplies: in the naive version several do.
        **({"tensor_share": _short(shares[0])} if len(shares) == 1 else {}),
    }


def _is_sweep(kernel: Kernel) -> bool:
    return kernel.name.startswith(SWEEP_KERNEL)


def derived(name: str, case: Case) -> Values:
    """What arithmetic says beside the counters, in MiB."""
    if name == "naive":
        passes = score_bytes(case) * 4 + input_bytes(case) + output_bytes(case)
        return {
            "derived_mib": _mib(passes),
            "scaling_mib": _mib(2 * score_bytes(case)),
        }
    if name != "forward":
        return {}
    tile = tile_for(case.head_dim, torch.float16)
    return {"issued_mib": _mib(issued_bytes(case, tile))}


def input_bytes(case: Case) -> int:
    """Q, K and V, in 16 bits."""
    queries = case.nheads * case.seqlen_q
    keys = case.nheads_k * case.seqlen_k
    return case.batch * (queries + 2 * keys) * case.head_dim * 2


def output_bytes(case: Case) -> int:
    return case.batch * case.nheads * case.seqlen_q * case.head_dim * 2


def floor_bytes(case: Case) -> int:
    """The least: Q, K and V read once, O and lse (fp32) written once."""
    lse = case.batch * case.nheads * case.seqlen_q * 4
    return input_bytes(case) + output_bytes(case) + lse


def backward_floor_bytes(case: Case) -> int:
    """The least: Q, K, V, O, its gradient and lse read once, three gradients
    written once."""
    lse = case.batch * case.nheads * case.seqlen_q * 4
    return 2 * input_bytes(case) + 2 * output_bytes(case) + lse


def score_bytes(case: Case) -> int:
    """One matrix of all scores, or of all weights, in 16 bits.

    The textbook's three steps write and read the scores, then write and read the
    weights: four times this. PyTorch's `q @ k.T * scale` multiplies in a kernel of
    its own, which reads and writes them once more.
    """
    return case.batch * case.nheads * case.seqlen_q * case.seqlen_k * 2


def issued_bytes(case: Case, tile: Tile) -> int:
    """What our kernel asks for without a mask: each program its own block of Q,
    and all of its head's K and V. The caches answer most of it."""
    if case.causal or case.seqlen_q % tile.block_m or case.seqlen_k % tile.block_n:
        raise ValueError(f"only whole tiles without a mask are counted, got {case}")
    programs = case.batch * case.nheads * case.seqlen_q // tile.block_m
    return programs * (tile.block_m + 2 * case.seqlen_k) * case.head_dim * 2


def _mib(size: float) -> float:
    return _short(size / MIB)


def _short(number: float) -> float:
    """Six digits: more than a run can repeat."""
    return float(f"{number:.6g}")


if __name__ == "__main__":
    main()
