"""What ptxas makes of the kernels of backward and dropout for sm_90."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import compile_backward
import compile_sm90
import pytest

PROGRAM = Path(compile_backward.__file__)
KERNEL = pytest.mark.parametrize("name", compile_backward.KERNELS)


def compiled(name: str) -> list[dict]:
    """Every case of a kernel."""
    return [case for case in compiled_together() if case["kernel"] == name]


@cache
def compiled_together() -> list[dict]:
    """Every case, compiled once: a process without the interpreter."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, str(PROGRAM), *compile_backward.KERNELS],
        env=env,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@KERNEL
def test_no_spills_and_no_warnings(name):
    cases = compiled(name)
    masks = {False} if name in compile_backward.KNOWS_NO_MASK else {False, True}
    for dtype in compile_sm90.DTYPES:
        for head_dim in compile_sm90.HEAD_DIMS:
            mine = [
                c for c in cases if (c["dtype"], c["head_dim"]) == (dtype, head_dim)
            ]
            assert {c["causal"] for c in mine} == masks
    assert not [c for c in cases if c["spill_bytes"] or c["warnings"]]


@KERNEL
def test_layouts_were_compiled(name):
    for dtype in ("fp16", "fp32"):
        layouts = {c["layout"] for c in compiled(name) if c["dtype"] == dtype}
        assert layouts == set().union(*compile_backward.layouts_of(name))


@pytest.mark.parametrize("name", ["dkdv", "dq"])
def test_16_bit_products_use_the_tensor_cores_of_hopper(name):
    cases = compiled(name)
    aligned = [c for c in cases if c["layout"] == "aligned" and c["dtype"] != "fp32"]
    assert aligned
    assert all(c["wgmma"] for c in aligned)


@KERNEL
def test_shared_memory_fits(name):
    assert max(c["shared_bytes"] for c in compiled(name)) <= 227 * 1024


@KERNEL
def test_kernel_fits_one_screen(name):
    module, function_name = compile_backward.KERNELS[name]
    source = Path(module.__file__).read_text(encoding="utf-8")
    function = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == function_name
    )
    lines = source.splitlines()
    body = range(function.body[0].lineno, function.end_lineno + 1)
    statements = [
        n for n in body if lines[n - 1].strip() and lines[n - 1].lstrip()[0] != "#"
    ]
    assert len(statements) <= 80
    first = function.decorator_list[0].lineno
    too_wide = [
        n for n in range(first, function.end_lineno + 1) if len(lines[n - 1]) > 76
    ]
    assert not too_wide
