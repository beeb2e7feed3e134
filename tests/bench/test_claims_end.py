"""The claims on the end and the host, and what is compiled for them."""

import math
import os
import subprocess
import sys

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")

from bench import claims_tiles

# Triton's interpreter reads the bound of a loop in a way that NumPy is leaving.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)


def test_only_the_natural_lse_merges_rightly(end):
    rows = [row for row in end.merged_halves() if row[0]["claim"] == "merge"]
    right = {c["statistic"]: v["out"] == pytest.approx(v["right"]) for c, v in rows}
    assert right == {"natural": True, "base 2": False, "log l": False, "none": False}


def test_merge_of_an_empty_part_is_the_other(end):
    assert end.merge([17.0, 0.0], [2.0, -math.inf]) == 17.0


def test_wrong_lse_stops_the_job(end, monkeypatch):
    monkeypatch.setattr(end, "SCORES", (1.0, 2.0, 3.0, 0.5))
    monkeypatch.setattr(end, "softmax_average", lambda scores, values: 26.2)
    with pytest.raises(ValueError, match="the halves and the whole"):
        list(end.merged_halves())


def test_head_dims_are_padded_as_the_launch_pads_them(end):
    import triton

    for case, values in end.padded_head_dims():
        padded = max(16, triton.next_power_of_2(case["head_dim"]))
        assert values["padded_dim"] == padded


def test_memory_of_the_outputs_is_what_the_benchmark_measures(end):
    ((_, values),) = end.work()
    assert (values["out_mib"], values["lse_mib"]) == (32, 1)


def test_compiler_is_refused_under_the_interpreter():
    command = [sys.executable, "-m", "bench.claims_tiles"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode != 0
    assert "unset TRITON_INTERPRET" in run.stderr


def test_a_log_without_its_number_is_refused():
    assert claims_tiles.number(r"Used (\d+) registers", "Used 124 registers") == 124
    with pytest.raises(ValueError, match="unpack"):
        claims_tiles.number(r"Used (\d+) registers", "ptxas said nothing")


def test_compiled_claims():
    rows = claims_tiles.compiled_claims()
    tiles = {(c["dtype"], c["head_dim"]): v for c, v in rows if c["claim"] == "tile"}
    assert tiles["fp16", 64]["programs"] == tiles["fp16", 128]["programs"] == 2
    kernels = {c["sizes"]: v["kernels"] for c, v in rows if c["claim"] == "kernels"}
    assert kernels["not"] == 1 < kernels["specialised"]


@pytest.fixture
def end():
    """bench.claims_end, where this process interprets kernels."""
    from triton import knobs

    if not knobs.runtime.interpret:
        pytest.skip("this process compiles kernels")
    from bench import claims_end

    return claims_end
