"""The claims job: two ways to a number must agree, and must be seen to disagree."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

os.environ.setdefault("TRITON_INTERPRET", "1")

from bench import claims_compiled, claims_rounding, claims_walk
from bench.claims_walk import SCORES, VALUES, agree, softmax_average, walk

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"

# Triton's interpreter reads the bound of a loop in a way that NumPy is leaving.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)


def test_walk_gives_the_softmax_average_for_every_block_size():
    expected = softmax_average(SCORES, VALUES)
    for block_n in range(1, 6):
        assert walk(SCORES, VALUES, block_n)[-1].out == pytest.approx(expected)


def test_walk_of_forbidden_keys_gives_zero():
    states = walk([-math.inf] * 4, VALUES)
    assert [state.out for state in states] == [0.0, 0.0]


def test_faults_change_the_answer_when_the_maximum_rises():
    expected = softmax_average(SCORES, VALUES)
    for fault in claims_walk.FAULTS:
        found = walk(SCORES, VALUES, fault=fault)[-1].out
        assert abs(found - expected) > 1


def test_forgotten_alpha_hides_when_the_maximum_comes_first():
    scores, values = (3.0, 0.0, 1.0, 2.0), (30.0, 40.0, 10.0, 20.0)
    right = softmax_average(scores, values)
    assert walk(scores, values, fault="alpha-forgotten")[-1].out == pytest.approx(right)


def test_unknown_fault_is_refused():
    with pytest.raises(ValueError, match="fault is one of"):
        walk(SCORES, VALUES, fault="no-such")


@pytest.mark.parametrize("found", [1.0 + 1e-9, math.nan, math.inf])
def test_disagreement_stops_the_job(found):
    with pytest.raises(ValueError, match="disagree"):
        agree(found, 1.0, "two numbers")


def test_worked_example_holds_its_parameters_and_every_step():
    rows = [row for row in claims_walk.worked_example() if "block" in row[0]]
    assert [(case["scores"], case["v"]) for case, _ in rows] == [
        ("1, 2", "10, 20"),
        ("3, 0", "30, 40"),
    ]
    assert rows[0][1]["alpha"] == 0
    assert rows[1][1]["alpha"] == pytest.approx(math.exp(-1))


def test_round_mantissa_keeps_short_numbers_and_rounds_long_ones():
    short = torch.tensor([1.0, -1.5, 1 + 2.0**-10, 3e4])
    kept = claims_rounding.round_mantissa(short, 10)
    assert torch.equal(kept[:3], short[:3])
    x = torch.linspace(-4, 4, 4001)
    error = (claims_rounding.round_mantissa(x, 10) - x).abs()
    assert (error <= x.abs() * 2.0**-11).all()
    assert (error > 0).any()


def test_tail_leak_needs_no_leak_without_padding():
    ((_, values),) = claims_rounding.tail_leak(padded=0, seeds=3)
    assert values["leak"] == 0


def test_rounding_of_weights_is_half_the_distance_of_neighbours():
    parts = {
        case["dtype"]: values["one_part_in"]
        for case, values in claims_rounding.weights_in_16_bits(draws=1 << 16)
    }
    assert parts == {"fp16": 2**11, "bf16": 2**8}


def test_bars_of_the_figure_are_the_weights_that_they_stand_for():
    svg = ElementTree.parse(ROOT / "docs/figures/base-change.svg")
    bars = [
        (float(group.get("data-base")), bar)
        for group in svg.iter(SVG + "g")
        for bar in group.iter(SVG + "rect")
    ]
    assert len(bars) == 8
    for base, bar in bars:
        height = 120 * math.exp(float(bar.get("data-score")) - base)
        assert float(bar.get("height")) == pytest.approx(height, abs=0.001)
        assert float(bar.get("y")) == pytest.approx(166 - height, abs=0.001)


def test_differing_counts_lines_that_go_and_come():
    assert claims_compiled.differing(["a", "b"], ["a", "b"]) == 0
    assert claims_compiled.differing(["a", "b"], ["b", "a"]) == 2
    assert claims_compiled.differing(["a"], ["a", "c", "d"]) == 2


def test_broken_kernel_is_noticed(monkeypatch):
    kernel = interpreted()
    broken = kernel.kernel_with(kernel.EDITS["alpha-forgotten"])
    monkeypatch.setattr(kernel, "forward", broken)
    with pytest.raises(ValueError, match="the kernel and the walk disagree"):
        list(kernel.kernel_agrees())


def test_every_wrong_output_comes_from_the_kernel():
    kernel = interpreted()
    rows = [*kernel.broken_updates(), *kernel.tail_counted(), *kernel.empty_row()]
    hidden = {"fault": "alpha-forgotten", "maximum": "falling"}
    for case, values in rows:
        same = values["out"] == pytest.approx(values["right"])
        assert same == (hidden.items() <= case.items()), case


def test_edit_of_text_that_is_gone_is_refused():
    kernel = interpreted()
    with pytest.raises(ValueError, match="0 of them, not one"):
        kernel.kernel_with(("no such line", ""))


def test_compiler_is_refused_under_the_interpreter():
    command = [sys.executable, "-m", "bench.claims_compiled"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode != 0
    assert "unset TRITON_INTERPRET" in run.stderr


def test_job_writes_each_claim_once(tmp_path):
    path = tmp_path / "rows.jsonl"
    command = [sys.executable, "-m", "bench.claims"]
    environment = os.environ | {"CODEWALK_ROWS": str(path)}
    subprocess.run(command, env=environment, check=True)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    cases = [json.dumps(row["case"], sort_keys=True) for row in rows]
    assert len(set(cases)) == len(cases)
    assert {row["case"]["claim"] for row in rows} >= {
        "worked-example",
        "kernel-result",
        "fault",
        "tail-leak",
        "empty-row",
        "shared-memory",
        "same-instructions",
    }


def interpreted():
    """bench.claims_kernel, where this process interprets kernels."""
    from triton import knobs

    if not knobs.runtime.interpret:
        pytest.skip("this process compiles kernels")
    from bench import claims_kernel

    return claims_kernel
