"""What ptxas makes of the kernels for sm_90, and what a page can show of it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import compile_sm90
import pytest

from flashwalk import forward
from flashwalk.ladder import RUNGS

PROGRAM = Path(compile_sm90.__file__)
KERNEL_FILE = Path(forward.__file__)


@pytest.fixture(scope="session")
def kernels() -> list[dict]:
    """Every kernel in use, compiled once: a process without the interpreter."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("head_dim", compile_sm90.HEAD_DIMS)
@pytest.mark.parametrize("name", compile_sm90.DTYPES)
def test_no_spills_and_no_warnings(kernels, name, head_dim, record_property):
    mine = [k for k in kernels if k["rung"] == "forward"]
    mine = [k for k in mine if (k["dtype"], k["head_dim"]) == (name, head_dim)]
    assert {k["causal"] for k in mine} == {False, True}
    record_property("registers", max(k["registers"] for k in mine))
    bad = [k for k in mine if k["spill_bytes"] or k["warnings"]]
    assert not bad


@pytest.mark.parametrize("head_dim", compile_sm90.RUNG_HEAD_DIMS)
@pytest.mark.parametrize("rung", list(RUNGS)[1:])
def test_rungs_neither_spill_nor_warn(kernels, rung, head_dim, record_property):
    mine = [k for k in kernels if (k["rung"], k["head_dim"]) == (rung, head_dim)]
    assert {k["causal"] for k in mine} == {False, True}
    record_property("registers", max(k["registers"] for k in mine))
    bad = [k for k in mine if k["spill_bytes"] or k["warnings"]]
    assert not bad


def test_every_layout_was_compiled(kernels):
    for name in ("fp16", "fp32"):
        mine = [k for k in kernels if k["rung"] == "forward"]
        layouts = {k["layout"] for k in mine if k["dtype"] == name}
        assert layouts == set(compile_sm90.LAYOUTS)


def test_16_bit_products_use_the_tensor_cores_of_hopper(kernels):
    aligned = [k for k in kernels if k["layout"] == "aligned" and k["dtype"] != "fp32"]
    assert aligned
    assert all(k["wgmma"] for k in aligned)


def test_shared_memory_fits(kernels):
    assert max(k["shared_bytes"] for k in kernels) <= 227 * 1024


@pytest.mark.parametrize("layout", compile_sm90.LAYOUTS)
def test_alignment_is_what_triton_specialises_on(layout):
    case = compile_sm90.Case("fp16", 128, False, layout)
    whole = compile_sm90.make_tensor(case._replace(layout="aligned"), 4, 64)
    q = compile_sm90.make_tensor(case, 4, 64)
    aligned = layout in ("aligned", "far")
    assert forward.is_aligned(q) == aligned
    assert forward.is_aligned(whole, q) == aligned
    assert forward.is_aligned(q, whole) == aligned


@pytest.fixture(scope="module")
def kernel() -> ast.FunctionDef:
    """The syntax tree of the kernel."""
    tree = ast.parse(KERNEL_FILE.read_text(encoding="utf-8"))
    return next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "_attn_fwd"
    )


def test_kernel_fits_one_screen(kernel):
    lines = KERNEL_FILE.read_text(encoding="utf-8").splitlines()
    body = range(kernel.body[0].lineno, kernel.end_lineno + 1)
    statements = [
        n for n in body if lines[n - 1].strip() and lines[n - 1].lstrip()[0] != "#"
    ]
    assert len(statements) <= 80
    first = kernel.decorator_list[0].lineno
    too_wide = [
        n for n in range(first, kernel.end_lineno + 1) if len(lines[n - 1]) > 76
    ]
    assert not too_wide
