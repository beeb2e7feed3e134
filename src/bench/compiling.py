"""Compiles launches for GPUs that need not be there, and says what came of it.

The real `launch` of a kernel's module chooses the tile and passes the arguments,
on tensors without memory; only Triton's last step is taken away. Every launch is
compiled in a process of its own, because a compiler that cannot go on may end the
process that it runs in.
"""

import contextlib
import inspect
import io
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from bench.occupancy import WARP

# Each compiles one kernel at a time, in a few hundred MiB.
WORKERS = min(8, max(2, len(os.sched_getaffinity(0))))
LIMIT_SECONDS = 100  # for one launch
MULTIPROCESSORS = 132  # of the GPU that is not there: the size of a grid, no more

# The constants and the options of a kernel that its launcher passes: the numbers.
Options = Mapping[str, int]

# The instructions that multiply matrices, the newest first.
_MATMULS = ("tcgen05.mma", "wgmma.mma_async", "mma.sync")
# The lines in which the parts of the compiler say why they stop.
_REASONS = re.compile(
    r"^.*(?:LLVM ERROR|ptxas fatal|\berror\s*:|Assertion).*$", re.MULTILINE
)
# How a process ends when the compiler has raised, and when it has aborted.
_REFUSED = 3
_REFUSALS = (_REFUSED, -signal.SIGABRT, -signal.SIGSEGV)

_CONTEXT = multiprocessing.get_context("forkserver")


class Launch(NamedTuple):
    """What to compile: the `launch` of a module, on bf16, for a target ("sm_90").

    tile: of the module's own kind; None for the one that it chooses. dropout: with
    a seed.
    """

    module: str
    target: str
    head_dim: int
    causal: bool
    tile: Any = None
    dropout: bool = False


class Report(NamedTuple):
    """What the compiler says of a kernel.

    registers, spill_stores, spill_loads (bytes): of a thread. warnings: the codes
    of ptxas. shared_bytes, threads, tensor_columns (of tensor memory): of a
    program. matmul: the instruction that multiplies matrices, "" without one;
    matmuls: how often it stands in the PTX.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    warnings: Sequence[str]
    shared_bytes: int
    threads: int
    tensor_columns: int
    matmul: str
    matmuls: int


class Outcome(NamedTuple):
    """A kernel, what its launch passes on, and the report, or why there is none."""

    kernel: str
    options: Options
    report: Report | None
    reason: str = ""
    status: str = "unsupported"  # without a report


class HostDriver:
    """Stands in for the CUDA driver, as far as compiling asks for one."""

    def __init__(self, target: str) -> None:
        self._target = GPUTarget("cuda", int(target.removeprefix("sm_")), WARP)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_all(launches: Iterable[Launch]) -> Iterator[list[Outcome]]:
    """Compiles launches, a few at a time; what came of each comes in their order.

    A launch can have several kernels. At the first that does not compile it ends.
    Raises RuntimeError where it is not the compiler that fails.
    """
    if os.environ.get("TRITON_INTERPRET"):
        raise SystemExit("unset TRITON_INTERPRET: nothing compiles under it")
    launches = list(launches)
    # What all processes need is imported once, in the one that they come from.
    modules = sorted({launch.module for launch in launches})
    _CONTEXT.set_forkserver_preload([__name__, *modules])
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(lambda launch: _compile_apart(launch, name), launches)


def _compile_apart(launch: Launch, above: str) -> list[Outcome]:
    folder = Path(tempfile.mkdtemp(dir=above))
    process = _CONTEXT.Process(target=_compile, args=(launch, folder))
    process.start()
    process.join(LIMIT_SECONDS)
    late = process.exitcode is None
    if late:
        process.kill()
        process.join()
    status = process.exitcode or 0
    errors = (folder / "errors").read_text(encoding="utf-8", errors="replace")
    begun, reports = _read(folder / _BEGUN), _read(folder / _REPORTS)
    unfinished = begun[len(reports) :]
    refused = unfinished and (late or status in _REFUSALS)
    if not (refused or (begun and not unfinished and status == 0 and not late)):
        raise RuntimeError(f"{launch} ended with status {status}: {errors}")
    found = [
        Outcome(kernel, options, Report(**report))
        for (kernel, options), report in zip(begun, reports, strict=False)
    ]
    for kernel, options in unfinished:
        if late:
            why = f"not compiled in {LIMIT_SECONDS} s"
            found.append(Outcome(kernel, options, None, why, "failed"))
        else:
            why = one_reason(errors) or f"ended with {status}"
            found.append(Outcome(kernel, options, None, why))
    return found


def _read(path: Path) -> list[Any]:
    """What `_note` has written so far."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _note(path: Path, entry: object) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def one_reason(errors: str) -> str:
    """The first line in which a compiler says why it stops, without folders."""
    found = _REASONS.search(errors)
    line = found[0] if found else errors.strip().rpartition("\n")[2]
    return re.sub(r"(?:/[\w.+-]+)+/", "", " ".join(line.split()))[:200]


# --- In a process of its own ---


# A line a kernel: its name and what its launch passes on; its report.
_BEGUN, _REPORTS = "begun", "reports"


def _compile(launch: Launch, folder: Path) -> None:
    """Leaves the kernels begun, their reports, and the errors in `folder`."""
    _redirect_errors(folder)
    _prepare_triton(launch.target, folder)
    log = io.StringIO()
    run = JITFunction.run

    def compile_only(
        kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any
    ) -> None:
        plain = compile_options(kernel, args, options)
        _note(folder / _BEGUN, (kernel.fn.__name__, plain))
        log.seek(0)
        log.truncate()
        compiled = run(kernel, *args, grid=grid, warmup=True, **options)
        _note(folder / _REPORTS, read_report(compiled, log.getvalue())._asdict())

    JITFunction.run = compile_only
    try:
        with contextlib.redirect_stdout(log):
            _call(launch)
    except Exception as error:
        # What ptxas says of an error is in what Triton prints.
        print(log.getvalue(), f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(_REFUSED)


def compile_options(
    kernel: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Options:
    """What fixes a kernel when it is compiled, however it was passed on."""
    fixed = {
        param.name: arg
        for param, arg in zip(kernel.params, args, strict=False)
        if param.is_constexpr
    }
    return {k: v for k, v in (fixed | options).items() if isinstance(v, int)}


def _redirect_errors(folder: Path) -> None:
    """A compiler that aborts writes to the descriptor, past Python's stream."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with (folder / "errors").open("wb") as file:
        os.dup2(file.fileno(), 2)


def _prepare_triton(target: str, folder: Path) -> None:
    """Makes Triton compile for the target, afresh, and show what ptxas says."""
    triton.runtime.driver.set_active(HostDriver(target))
    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.cache.dir = tempfile.tempdir = str(folder)
    # The key of an empty cache need not hold all of Triton: half a second each.
    triton.runtime.cache.triton_key = lambda: ""
    # What the launchers ask the GPU itself.
    gpu = SimpleNamespace(multi_processor_count=MULTIPROCESSORS)
    vars(torch.cuda).update(
        get_device_properties=lambda device=None: gpu,
        is_current_stream_capturing=lambda: False,
    )


def _call(launch: Launch) -> None:
    """Calls the launcher; the tensors are such that every rung takes them."""
    size = (2, 16, 4096, launch.head_dim)
    given: dict[str, Any] = {
        name: torch.empty(size, dtype=torch.bfloat16, device="meta")
        for name in ("q", "k", "v", "out", "do", "dq", "dk", "dv")
    }
    given |= {
        "lse": torch.empty(size[:-1], device="meta"),
        "dlse": None,
        "causal": launch.causal,
        "softmax_scale": 0.125,
        "tile": launch.tile,
    }
    if launch.dropout:
        seed = torch.empty(1, dtype=torch.int64, device="meta")
        given |= {"seed": seed, "dropout_p": 0.125}
    launcher = import_module(launch.module).launch
    taken = inspect.signature(launcher).parameters
    launcher(**{name: x for name, x in given.items() if name in taken})


def read_report(kernel: Any, log: str) -> Report:
    """What Triton's compiled kernel and the log of ptxas say."""
    matmul, matmuls = count_matmuls(kernel.asm["ptx"])
    return Report(
        registers=_number(r"Used (\d+) registers", log),
        spill_stores=_number(r"(\d+) bytes spill stores", log),
        spill_loads=_number(r"(\d+) bytes spill loads", log),
        warnings=tuple(re.findall(r"\bC75\d\d\b", log)),
        shared_bytes=kernel.metadata.shared,
        # Of all its warps: those of a Gluon kernel's roles are counted as well.
        threads=kernel.metadata.num_warps * WARP,
        tensor_columns=kernel.metadata.tmem_size or 0,
        matmul=matmul,
        matmuls=matmuls,
    )


def count_matmuls(ptx: str) -> tuple[str, int]:
    """The instruction that multiplies matrices, and how often it is written."""
    for name in _MATMULS:
        count = ptx.count(f"{name}.")
        if count:
            return name, count
    return "", 0


def _number(pattern: str, log: str) -> int:
    """The one number that `pattern` finds in the log of ptxas."""
    found = re.findall(pattern, log)
    if len(found) != 1:
        raise ValueError(f"expected {pattern!r} once in what ptxas says, got {log!r}")
    return int(found[0])
