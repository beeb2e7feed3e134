"""The checks can fail: a kernel with one fault is rejected by one of them."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import row_problems
import torch
from row_problems import Rejected, judge

from rmsnorm import kernel

SOURCE = Path(kernel.__file__).read_text(encoding="utf-8")
# What is there, what it is turned into, and the rows that tell.
FAULTS = {
    "tail-columns-read": (
        "mask=in_row, other=0.0)\n    x =",
        "mask=cols < BLOCK_N, other=0.0)\n    x =",
        row_problems.tail_columns,
    ),
    "tail-columns-counted": ("/ n_cols", "/ BLOCK_N", row_problems.normal),
    "rows-side-by-side": ("row * stride_x", "row * n_cols", row_problems.far_apart),
    "offsets-in-int32": (
        "tl.program_id(0).to(tl.int64)",
        "tl.program_id(0)",
        row_problems.beyond_int32,
    ),
    "no-eps": ("(mean_square + eps)", "(mean_square)", row_problems.zero_row),
    "eps-after-the-root": (
        "tl.sqrt(mean_square + eps)",
        "(tl.sqrt(mean_square) + eps)",
        row_problems.small_values,
    ),
    "squares-in-fp16": (
        "x = x.to(tl.float32)",
        "x = x",
        row_problems.large_values,
    ),
    "mean-taken-away": (
        "normal = x * rstd",
        "normal = (x - tl.sum(x, axis=0) / n_cols) * rstd",
        row_problems.normal,
    ),
    "no-weight": ("out = normal * weight", "out = normal", row_problems.normal),
}


def load(source: str, path: Path) -> ModuleType:
    """Writes `source` to `path`, where Triton reads it again, and imports it."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# NumPy, under the interpreter, says where it divides by 0 and where it overflows.
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_rejected(name, tmp_path):
    before, after, rows = FAULTS[name]
    assert SOURCE.count(before) == 1
    faulty = load(SOURCE.replace(before, after), tmp_path / "faulty.py")
    problem = rows(torch.float16)
    judge(kernel.rms_norm, problem)
    with pytest.raises(Rejected):
        judge(faulty.rms_norm, problem)
