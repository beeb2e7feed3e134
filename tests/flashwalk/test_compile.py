"""What ptxas makes of the kernels for sm_90, and what a page can show of them."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import compile_sm90
import pytest

from flashwalk import forward

PROGRAM = Path(compile_sm90.__file__)
KERNEL = pytest.mark.parametrize("kernel", compile_sm90.KERNELS)


def compiled(kernel: str) -> list[dict]:
    """Every case of a kernel. The forward is compiled alone, the rest together."""
    others = tuple(name for name in compile_sm90.KERNELS if name != "forward")
    names = (kernel,) if kernel == "forward" else others
    return [case for case in compiled_together(names) if case["kernel"] == kernel]


@cache
def compiled_together(names: tuple[str, ...]) -> list[dict]:
    """Every case of these kernels, in a process without the interpreter."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, str(PROGRAM), *names], env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@KERNEL
@pytest.mark.parametrize("head_dim", compile_sm90.HEAD_DIMS)
@pytest.mark.parametrize("name", compile_sm90.DTYPES)
def test_no_spills_and_no_warnings(kernel, name, head_dim, record_property):
    cases = compiled(kernel)
    mine = [c for c in cases if (c["dtype"], c["head_dim"]) == (name, head_dim)]
    masks = {False} if kernel in compile_sm90.KNOWS_NO_MASK else {False, True}
    assert {c["causal"] for c in mine} == masks
    record_property("registers", max(c["registers"] for c in mine))
    bad = [c for c in mine if c["spill_bytes"] or c["warnings"]]
    assert not bad


@KERNEL
def test_layouts_were_compiled(kernel):
    for name in ("fp16", "fp32"):
        layouts = {c["layout"] for c in compiled(kernel) if c["dtype"] == name}
        expected = set().union(*compile_sm90.layouts_of(kernel))
        assert layouts == (expected if kernel != "delta" else {"aligned", "ragged"})


@pytest.mark.parametrize("kernel", ["forward", "dkdv", "dq"])
def test_16_bit_products_use_the_tensor_cores_of_hopper(kernel):
    cases = compiled(kernel)
    aligned = [c for c in cases if c["layout"] == "aligned" and c["dtype"] != "fp32"]
    assert aligned
    assert all(c["wgmma"] for c in aligned)


@KERNEL
def test_shared_memory_fits(kernel):
    assert max(c["shared_bytes"] for c in compiled(kernel)) <= 227 * 1024


@pytest.mark.parametrize("layout", compile_sm90.LAYOUTS)
def test_alignment_is_what_triton_specialises_on(layout):
    case = compile_sm90.Case("forward", "fp16", 128, False, layout)
    whole = compile_sm90.make_tensor(case._replace(layout="aligned"), 4, 64)
    q = compile_sm90.make_tensor(case, 4, 64)
    aligned = layout in ("aligned", "far")
    assert forward.is_aligned(q) == aligned
    assert forward.is_aligned(whole, q) == aligned
    assert forward.is_aligned(q, whole) == aligned


@KERNEL
def test_kernel_fits_one_screen(kernel):
    module, name = compile_sm90.KERNELS[kernel]
    source = Path(module.__file__).read_text(encoding="utf-8")
    function = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == name
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
