"""The job k-transposed: does it matter how K becomes its transpose?

    python -m bench.k_transposed

The kernel reads K as [HEAD_DIM, BLOCK_N] by swapping the indices of its
pointers. The other way is to load [BLOCK_N, HEAD_DIM] and to call tl.trans. The
two kernels differ in that step alone, since one text is made from the other.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import flashwalk.forward
from bench import job
from bench.accuracy import Inputs, Judge, make_inputs
from bench.cases import SEEDS, Case
from bench.measure import (
    Call,
    Contender,
    Machine,
    Unmeasured,
    Values,
    cuda_machine,
    measure,
)
from bench.rows import Columns, Rows

SWAPPED = """\
        k_cols = cols[None, :].to(tl.int64)
        k_at = k_base + k_cols * stride_kn + offs_d[:, None]
        k_mask = in_head[:, None] & in_keys[None, :]
        k = tl.load(k_at, mask=k_mask, other=0.0)  # [HEAD_DIM, BLOCK_N]
"""
TRANSPOSED = """\
        k_rows = cols[:, None].to(tl.int64)
        k_at = k_base + k_rows * stride_kn + offs_d[None, :]
        k_mask = in_keys[:, None] & in_head[None, :]
        k = tl.load(k_at, mask=k_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]
        k = tl.trans(k)  # [HEAD_DIM, BLOCK_N]
"""


def cases() -> list[Case]:
    """The seeds' two sizes and one of head dim 256, in both dtypes."""
    wide = Case(4, 8, 8, 4096, 4096, 256, "bf16", causal=False)
    return [
        replace(size, dtype=dtype, causal=causal)
        for size in (SEEDS[64], SEEDS[128], wide)
        for dtype in ("fp16", "bf16")
        for causal in (False, True)
    ]


def transposed_source(source: str) -> str:
    """The text of forward.py with the one step exchanged."""
    if source.count(SWAPPED) != 1:
        raise SystemExit(
            "bench.k_transposed: expected the step [load-k] of forward.py once, as\n"
            f"{SWAPPED}found {source.count(SWAPPED)} of it; mend SWAPPED and TRANSPOSED"
        )
    return source.replace(SWAPPED, TRANSPOSED)


def load_transposed(folder: Path) -> ModuleType:
    """The other kernel's module. `folder` must outlive it: Triton reads its text."""
    source = Path(flashwalk.forward.__file__).read_text(encoding="utf-8")
    path = folder / "forward_tl_trans.py"
    path.write_text(transposed_source(source), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("bench.k_transposed needs a CUDA device")
    with tempfile.TemporaryDirectory() as folder, Rows.open() as rows:
        other = load_transposed(Path(folder))
        variants = {"swapped indices": flashwalk.forward, "tl.trans": other}
        machine = cuda_machine()
        measure_one = partial(
            measure_case, variants=variants, machine=machine, device="cuda"
        )
        job.run(rows, cases(), measure_one, columns, machine)


def measure_case(
    case: Case, variants: Mapping[str, ModuleType], machine: Machine, device: str
) -> Iterator[job.Outcome]:
    inputs = make_inputs(case, device)
    reports: dict[str, Values] = {}
    contenders = [
        Contender(name, partial(_prepare, name, module, case, inputs, reports))
        for name, module in variants.items()
    ]
    judge = Judge.of(case, inputs)
    for name, outcome in measure(contenders, judge, case.flops, machine):
        if isinstance(outcome, Unmeasured):
            yield name, outcome
        else:
            values = {**outcome, **reports[name]}
            # The output was made beforehand, so the launch's own memory is none.
            del values["peak_mib"]
            yield name, values


def _prepare(
    name: str,
    module: ModuleType,
    case: Case,
    inputs: Inputs,
    reports: dict[str, Values],
) -> Call:
    """A bare launch, the same for both: outputs are made beforehand."""
    out = torch.full_like(inputs.q, float("nan"))
    lse = torch.empty(out.shape[:3], dtype=torch.float32, device=out.device)

    def run() -> torch.Tensor:
        module.launch(
            *inputs, out, lse, causal=case.causal, softmax_scale=case.softmax_scale
        )
        return out

    reports[name] = compiled_report(module, run)
    return Call(run)


def compiled_report(module: ModuleType, run: Callable[[], object]) -> Values:
    """What the compiler says of the kernel that `run` launches.

    registers: 32-bit, a thread. spills: bytes a thread. shared_bytes: a block.
    """
    kernel = module._attn_fwd
    recorder = _Recorder(kernel)
    module._attn_fwd = recorder  # type: ignore[attr-defined]
    try:
        run()
    finally:
        module._attn_fwd = kernel  # type: ignore[attr-defined]
    compiled = recorder.compiled
    return {
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
        "shared_bytes": compiled.metadata.shared,
    }


class _Recorder:
    """Stands for a kernel during one launch, and keeps what Triton compiled."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.compiled: Any = None

    def __getitem__(self, grid: object) -> Callable[..., None]:
        def launch(*args: object, **options: object) -> None:
            self.compiled = self._kernel[grid](*args, **options)

        return launch


def columns(variant: str, case: Case) -> Columns:
    return {
        "variant": variant,
        "batch": case.batch,
        "nheads": case.nheads,
        "seqlen_q": case.seqlen_q,
        "head_dim": case.head_dim,
        "dtype": case.dtype,
        "causal": case.causal,
    }


if __name__ == "__main__":
    main()
