"""The pitfalls and the self-test: broken kernels are broken, and seen to be."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")

# Triton's interpreter reads the bound of a loop in a way that NumPy is leaving.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)

KERNEL_TESTS = Path(__file__).parents[1] / "flashwalk"


def test_faults_are_the_mutants_of_the_kernel_s_tests(pitfalls, monkeypatch):
    monkeypatch.syspath_prepend(str(KERNEL_TESTS))
    from kernel_mutants import MUTANTS

    shared = set(MUTANTS) & set(pitfalls.FAULTS)
    assert len(shared) == 8
    for name in shared:
        before, after, _ = MUTANTS[name]
        # A longer piece of the same line is the same edit.
        mine = pitfalls.FAULTS[name]
        assert before in mine[0] or mine[0] in before, name
        assert after in mine[1] or mine[1] in after, name


def test_standing_example_shows_every_fault(pitfalls):
    for case, values in pitfalls.on_the_standing_example():
        assert values["out"] == "NaN" or values["out"] != pytest.approx(values["right"])
        assert case["input"] in ("standing", "soaring")


def test_short_bound_leaves_the_first_rows_right(pitfalls):
    rows = [v for c, v in pitfalls.short_bound() if c["claim"] == "short-bound"]
    right = [v["out"] == pytest.approx(v["right"], rel=1e-5) for v in rows]
    assert right == [True, True, False, False]


def test_two_of_three_checks_lose_a_nan(pitfalls):
    verdicts = [values["verdict"] for _, values in pitfalls.lost_nan()]
    assert verdicts == ["passes", "passes", "rejected"]


def test_whole_empty_programs_hide_the_missing_guard(pitfalls):
    edit = pitfalls.FAULTS["infinity-minus-infinity"]
    many = pitfalls.INPUTS["many_queries"]
    hidden = replace(many, seqlen_q=53, seqlen_k=5)
    assert pitfalls.largest_error(edit, many) == math.inf
    assert pitfalls.largest_error(edit, hidden) <= pitfalls.RIGHT


def test_each_kernel_of_the_self_test_has_its_answer(pitfalls):
    for _, values in pitfalls.self_test():
        assert values["easy_error"] < 1e-6
        assert values["hard_error"] == "NaN" or values["hard_error"] > 0.1


def test_answers_that_do_not_break_stop_the_job(pitfalls, monkeypatch):
    monkeypatch.setitem(pitfalls.ANSWERS, "A", {"batch": 1})
    with pytest.raises(ValueError, match="A: off by"):
        list(pitfalls.self_test())


def test_command_says_whether_the_kernel_broke():
    options = {"still right": [], "broken": ["--batch", "2"]}
    for verdict, given in options.items():
        command = [sys.executable, "-W", "ignore", "-m", "bench.self_test", "A", *given]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert verdict in run.stdout


@pytest.fixture
def pitfalls():
    """bench.claims_pitfalls, where this process interprets kernels."""
    from triton import knobs

    if not knobs.runtime.interpret:
        pytest.skip("this process compiles kernels")
    from bench import claims_pitfalls

    return claims_pitfalls
