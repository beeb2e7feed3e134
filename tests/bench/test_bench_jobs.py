"""docs/jobs.toml says all that a page needs of what the jobs write."""

import importlib.util
import tomllib
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path

import pytest

from bench import (
    attention_memory,
    backward_speed,
    implementations,
    k_transposed,
    ladder_speed,
    standing,
    training_step,
)
from bench.cases import SEEDS, Case
from bench.implementations_backward import BACKWARDS
from bench.measure import Timing
from bench.training import PARTS
from flashwalk.ladder import RUNGS

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "docs" / "jobs.toml").read_text(encoding="utf-8"))


def columns_written():
    """By the jobs of forward and k-transposed; test_bench_measure.py holds the set."""
    yield from ("impl", "mode", *(field.name for field in fields(Case)))
    yield from Timing(1.0, 1.0, 1.0, 5).values(flops=1)
    yield from ("error", "budget", "peak_mib")
    yield from backward_speed.columns("portable", SEEDS[64])
    yield from training_step.columns("naive", "step", SEEDS[64])
    yield "saved_mib"
    yield from k_transposed.columns("tl.trans", SEEDS[64])
    yield from ladder_speed.columns("hopper", SEEDS[64])
    yield from ("ceiling", "tbs", "gexps", "scope", "tuned", *standing.VALUES)
    yield from ("registers", "spills", "shared_bytes")
    yield from ("test", "outcome", "passed", "failed", "skipped")


@pytest.mark.parametrize("name", sorted(set(columns_written())))
def test_every_column_has_its_words_in_both_languages(name):
    column = TABLE["columns"][name]
    words = [column["label"], *column.get("values", {}).values()]
    assert all(entry["en"] and entry["zh"] for entry in words)


@pytest.mark.parametrize("name", ["tflops", "ms"])
def test_the_spread_of_a_measure_is_a_column_too(name):
    column = TABLE["columns"][name]
    assert {column["low"], column["high"]} <= set(TABLE["columns"])


@pytest.mark.parametrize("name", sorted(TABLE["jobs"]))
def test_every_job_can_be_found_and_has_a_title(name):
    job = TABLE["jobs"][name]
    assert job["title"]["en"]
    assert job["title"]["zh"]
    assert job["needs"] in ("cpu", "cuda", "sm_90")
    assert job["command"][:2] == ["python", "-m"]
    assert importlib.util.find_spec(job["command"][2])


def runs(command, path):
    """Whether pytest, called so, reaches a test file."""
    ignored = [word for word in command if word.startswith("--ignore")]
    for word in ignored:
        option, _, pattern = word.partition("=")
        if path == pattern or (option == "--ignore-glob" and fnmatch(path, pattern)):
            return False
    return path in command or str(Path(path).parent) in command


def test_each_file_of_the_kernels_tests_is_run_on_a_gpu_by_its_jobs():
    commands = {
        name: job["command"]
        for name, job in TABLE["jobs"].items()
        if name[:5] == "tests"
    }
    for path in (ROOT / "tests" / "flashwalk").glob("test_*.py"):
        found = [
            x for x in commands if runs(commands[x], f"tests/flashwalk/{path.name}")
        ]
        if path.name.endswith("compile.py"):
            assert found == []  # it needs no GPU
        elif path.name == "test_ladder.py":
            assert all(name.startswith("tests-rung") for name in found)
        else:
            assert len(found) == 1, path.name


def test_every_rung_and_rival_has_words():
    assert set(TABLE["columns"]["rung"]["values"]) == set(RUNGS)
    assert set(TABLE["columns"]["rival"]["values"]) == set(implementations.RIVALS)


def test_every_direction_and_every_part_has_words():
    modes = TABLE["columns"]["mode"]["values"]
    for columns in (ladder_speed.columns, backward_speed.columns):
        assert columns("hopper", SEEDS[64])["mode"] in modes
    parts = TABLE["columns"]["part"]["values"]
    assert {*PARTS, *attention_memory.PARTS} <= set(parts)


def test_every_series_has_a_look():
    timed = {*implementations.IMPLEMENTATIONS, *BACKWARDS}
    assert set(TABLE["series"]["impl"]) == timed
    assert set(TABLE["series"]["variant"]) == {"swapped indices", "tl.trans"}
