"""The job compiled: what is compiled, and what a row says of it."""

import json
import sys
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from bench import compiled
from bench.compiled import Case
from bench.compiling import Launch, Outcome, Report
from bench.occupancy import CHIPS
from bench.rows import Rows
from flashwalk import forward, ladder
from flashwalk.hopper import backward as hopper_backward

ROOT = Path(__file__).parents[2]
KIB = 1024
TILE = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3, "CAUSAL": False}
CASE = Case("rungs", "forward", Launch("flashwalk.forward", "sm_90", 64, False))

REPORT = Report(
    registers=117,
    spill_stores=0,
    spill_loads=0,
    warnings=(),
    shared_bytes=65536,
    threads=256,
    tensor_columns=0,
    matmul="wgmma.mma_async",
    matmuls=2,
)


def test_what_a_byte_of_k_and_v_serves_is_the_height_of_the_tile():
    for block_m in (32, 128, 192):
        assert compiled.reuse(block_m, 64, 128) == block_m


# --- The rows ---


def row_of(capsys, case, outcome):
    with Rows(sys.stdout) as rows:
        compiled.write(rows, case, outcome)
    return json.loads(capsys.readouterr().out)


def test_the_row_of_a_kernel(capsys):
    row = row_of(capsys, CASE, Outcome("_attn_fwd", TILE, REPORT))
    assert row["case"] == {
        "part": "rungs",
        "rung": "forward",
        "target": "sm_90",
        "head_dim": 64,
        "dtype": "bf16",
        "causal": False,
        "block_m": 128,
        "block_n": 64,
        "num_warps": 8,
        "num_stages": 3,
    }
    values = row["values"]
    assert (values["by_registers"], values["by_shared"]) == (2, 3)
    assert values["ctas_per_sm"] == 2
    assert values["acc_kib"] == 32
    assert values["codes"] == "none"


def test_the_row_of_a_kernel_of_the_backward(capsys):
    case = Case("backward", "", Launch("m", "sm_90", 64, False), "hopper")
    roles = {"STAGES": 3, "num_warps": 4}
    row = row_of(capsys, case, Outcome("_attn_bwd", roles, REPORT))
    assert row["case"] == {
        "part": "backward",
        "choice": "hopper",
        "kernel": "_attn_bwd",
        "target": "sm_90",
        "head_dim": 64,
        "dtype": "bf16",
        "causal": False,
    }
    values = row["values"]
    assert (values["num_warps"], values["threads"]) == (8, 256)
    assert (values["num_stages"], values["registers"]) == (3, 117)
    assert "reuse" not in values


def test_the_tile_of_a_kernel_with_roles():
    options = {"GROUPS": 3, "BLOCK_N": 128, "STAGES": 2, "REGISTERS": 160}
    assert compiled.tile_columns({**options, "num_warps": 4}) == {
        "block_m": 192,
        "block_n": 128,
        "num_warps": 16,
        "num_stages": 2,
        "registers_asked": 160,
    }


def test_other_threads_than_the_tiles_are_an_error():
    with pytest.raises(ValueError, match="compiled for 256 threads"):
        compiled.values(CASE, {**TILE, "num_warps": 4}, REPORT)


def test_what_cannot_be_launched_has_no_values(capsys):
    too_much = REPORT._replace(shared_bytes=CHIPS["sm_90"].program_kib * KIB + 1)
    row = row_of(capsys, CASE, Outcome("_attn_fwd", TILE, too_much))
    assert row["status"] == "unsupported"
    assert "of which a program can have 227" in row["reason"]
    row = row_of(capsys, CASE, Outcome("_attn_fwd", TILE, None, "LLVM ERROR: x"))
    assert (row["status"], row["reason"]) == ("unsupported", "LLVM ERROR: x")


def test_a_tile_that_cannot_fit_is_not_compiled(monkeypatch):
    cases = [c for c in compiled.tile_cases() if c.launch.head_dim == 256]
    heard = []

    def compile_all(launches):
        for launch in launches:
            heard.append(launch.tile)
            yield [Outcome("_attn_fwd", TILE, REPORT)]

    monkeypatch.setattr(compiled, "compile_all", compile_all)
    found = list(compiled.outcomes(cases))
    assert [case for case, _ in found] == cases
    assert {tile.block_n for tile in heard} == {32, 64}
    left_out = [outcome for _, outcome in found if outcome.reason]
    assert {outcome.options["BLOCK_N"] for outcome in left_out} == {128}


def test_every_rung_is_compiled_at_home_and_elsewhere():
    cases = list(compiled.rung_cases())
    assert list(dict.fromkeys(case.rung for case in cases)) == list(ladder.RUNGS)
    for rung in ladder.RUNGS:
        mine = [case.launch for case in cases if case.rung == rung]
        assert {launch.target for launch in mine} == set(CHIPS)
        at_home = [x for x in mine if x.target == compiled.HOME]
        assert len(at_home) == 2 * len(compiled.HEAD_DIMS)
    # Gluon's words for Hopper compile nowhere else: one head dim tells.
    elsewhere = Counter(c.rung for c in cases if c.launch.target != compiled.HOME)
    assert elsewhere["forward"] == elsewhere["descriptors"] == 9
    assert elsewhere["specialised"] == elsewhere["hopper"] == 3


def test_every_backward_is_compiled_at_home_and_dropout_with_a_seed():
    cases = list(compiled.gradient_cases())
    assert len(cases) == len(set(cases))
    assert {case.launch.target for case in cases} == {compiled.HOME}
    for case in cases:
        assert case.launch.dropout == (case.part == "dropout")
    for choice, head_dims in (
        ("portable", compiled.HEAD_DIMS),
        ("hopper", hopper_backward.TILES),
    ):
        found = {
            (case.launch.head_dim, case.launch.causal)
            for case in cases
            if (case.part, case.choice) == ("backward", choice)
        }
        assert found == set(product(head_dims, (False, True)))


def two_kernels(monkeypatch):
    def compile_all(launches):
        for _ in launches:
            yield [Outcome("_before", TILE, REPORT), Outcome("_attn_bwd", TILE, REPORT)]

    monkeypatch.setattr(compiled, "compile_all", compile_all)


def test_each_kernel_of_a_launch_has_a_row_of_its_own(monkeypatch):
    two_kernels(monkeypatch)
    case = Case("backward", "", Launch("m", "sm_90", 64, False), "hopper")
    found = [outcome.kernel for _, outcome in compiled.outcomes([case, case])]
    assert found == ["_before", "_attn_bwd"] * 2


def test_a_rung_of_two_kernels_is_an_error(monkeypatch):
    two_kernels(monkeypatch)
    with pytest.raises(ValueError, match=r"one kernel.*flashwalk.forward.*has 2"):
        list(compiled.outcomes([CASE]))


def test_the_sweep_takes_tiles_of_the_kernel():
    launches = [case.launch for case in compiled.tile_cases()]
    assert len(set(launches)) == len(launches)
    assert all(isinstance(launch.tile, forward.Tile) for launch in launches)


def test_every_column_has_its_words_in_both_languages():
    table = tomllib.loads((ROOT / "docs" / "jobs.toml").read_text(encoding="utf-8"))
    blackwell = REPORT._replace(tensor_columns=256)
    options = {**TILE, "maxnreg": 128}
    outcome = Outcome("_attn_bwd", options, blackwell)
    names = {
        name
        for case in (CASE, Case("backward", "", CASE.launch, "hopper"))
        for name in (*case.columns(outcome), *compiled.values(case, options, blackwell))
    }
    for name in names:
        assert {"en", "zh"} <= set(table["columns"][name]["label"])
    parts = {case.part for case in (CASE, *compiled.gradient_cases())} | {"tiles"}
    assert parts <= set(table["columns"]["part"]["values"])
    choices = {case.choice for case in compiled.gradient_cases()}
    assert choices == set(table["columns"]["choice"]["values"])
