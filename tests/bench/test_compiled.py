"""The job compiled: what is read off the compiler, and what follows for an SM."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from importlib import import_module
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import bfloat16

from bench import compiled, compiling
from bench.compiled import Case
from bench.compiling import Launch, Outcome, Report
from bench.occupancy import (
    CHIPS,
    by_registers,
    by_shared,
    by_tensor_memory,
    by_threads,
)
from bench.rows import Rows
from flashwalk import backward, delta, forward, ladder
from flashwalk.hopper import backward as hopper_backward

ROOT = Path(__file__).parents[2]
KIB = 1024
TILE = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3, "CAUSAL": False}
CASE = Case("rungs", "forward", Launch("flashwalk.forward", "sm_90", 64, False))

CLEAN = """\
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function '_attn_fwd' for 'sm_90a'
ptxas info    : Function properties for _attn_fwd
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 117 registers, used 1 barriers
ptxas info    : Compile time = 166.152 ms
"""
SPILLED = """\
ptxas info    : 11 bytes gmem
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are \
serialized due to insufficient register resources for the wgmma pipeline in the \
function '_attn_fwd'
ptxas info    : Compiling entry function '_attn_fwd' for 'sm_90a'
ptxas info    : Function properties for _attn_fwd
    736 bytes stack frame, 1420 bytes spill stores, 2304 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 736 bytes cumulative stack size
"""
PTX = """\
.visible .entry _attn_fwd(
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 0, 1, 1;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 1, 1, 1;
	wgmma.commit_group.sync.aligned;
"""


def kernel(ptx=PTX, tmem_size=None):
    metadata = SimpleNamespace(shared=65536, num_warps=8, tmem_size=tmem_size)
    return SimpleNamespace(asm={"ptx": ptx}, metadata=metadata)


REPORT = compiling.read_report(kernel(), CLEAN)


# --- What the compiler says ---


def test_a_clean_log():
    assert Report(
        registers=117,
        spill_stores=0,
        spill_loads=0,
        warnings=(),
        shared_bytes=65536,
        threads=256,
        tensor_columns=0,
        matmul="wgmma.mma_async",
        matmuls=2,
    ) == compiling.read_report(kernel(), CLEAN)


def test_a_log_of_spills_and_warnings():
    report = compiling.read_report(kernel(tmem_size=256), SPILLED)
    assert (report.registers, report.spill_stores, report.spill_loads) == (
        255,
        1420,
        2304,
    )
    assert report.warnings == ("C7511",)
    assert report.tensor_columns == 256


@pytest.mark.parametrize("log", ["", CLEAN + CLEAN])
def test_a_log_of_no_kernel_or_of_two_is_refused(log):
    with pytest.raises(ValueError, match="registers' once in what ptxas says"):
        compiling.read_report(kernel(), log)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1};", "mma.sync"),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1;", "tcgen05.mma"),
        ("wgmma.mma_async.sync.aligned.m64n8k16 {%r1};", "wgmma.mma_async"),
        ("fma.rn.f32 %r1, %r2, %r3;", ""),
    ],
)
def test_the_instruction_that_multiplies(line, name):
    count = 2 if name else 0
    assert compiling.count_matmuls(f"\t{line}\n\t{line}\n") == (name, count)


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (
            "warning: x\nLLVM ERROR: Cannot select: intrinsic %llvm.nvvm.setmaxnreg\n",
            "LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.setmaxnreg",
        ),
        (
            "/tmp/a1/x.py:10:4: error: no such\n  thing\nRuntimeError: y",
            "x.py:10:4: error: no such",
        ),
        (
            "=====\n`ptxas` failed with error code 255\n`ptxas` stderr:\n"
            "ptxas /tmp/b2/y.ptx, line 3; error   : Feature\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\nPTXASError: z",
            "ptxas y.ptx, line 3; error : Feature",
        ),
        ("one\nCompilationError: at 3:7\n", "CompilationError: at 3:7"),
        ("", ""),
    ],
)
def test_one_line_says_why(errors, reason):
    assert compiling.one_reason(errors) == reason


class Ended:
    """Takes a process's place: has left some files, and ends, or never does."""

    def __init__(self, status, options):
        self.exitcode, self.options = status, options

    def __call__(self, target, args):
        (args[1] / "errors").write_text("LLVM ERROR: x\n")
        if self.options:
            (args[1] / "options.json").write_text('{"BLOCK_N": 64}')
        return self

    def start(self):
        pass

    def join(self, seconds=None):
        pass

    def kill(self):
        self.exitcode = -signal.SIGKILL


def compiled_as(monkeypatch, status, options):
    context = SimpleNamespace(
        Process=Ended(status, options), set_forkserver_preload=lambda names: None
    )
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(compiling, "_CONTEXT", context)
    (outcome,) = compiling.compile_all([CASE.launch])
    return outcome


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (-signal.SIGABRT, ("LLVM ERROR: x", "unsupported")),
        (3, ("LLVM ERROR: x", "unsupported")),
        (None, ("not compiled in 100 s", "failed")),
    ],
)
def test_a_compiler_that_does_not_finish(monkeypatch, status, found):
    outcome = compiled_as(monkeypatch, status, options=True)
    assert outcome == Outcome({"BLOCK_N": 64}, None, *found)


@pytest.mark.parametrize(
    ("status", "options"), [(3, False), (1, True), (-signal.SIGKILL, True)]
)
def test_what_is_not_the_compilers_fault_stops_the_job(monkeypatch, status, options):
    with pytest.raises(RuntimeError, match=r"sm_90.* ended with status .*LLVM"):
        compiled_as(monkeypatch, status, options)


# --- What fits on an SM ---


@pytest.mark.parametrize(
    ("registers", "threads", "programs"),
    [
        (32, 256, 8),
        (64, 1024, 1),
        (65, 1024, 0),
        (128, 256, 2),
        (81, 256, 2),
        (129, 256, 1),
        (255, 256, 1),
        (255, 128, 2),
        (168, 384, 1),
        (176, 384, 0),
        (96, 128, 5),
    ],
)
def test_registers_come_in_eights_a_thread(registers, threads, programs):
    assert by_registers(registers, threads) == programs


@pytest.mark.parametrize(
    ("target", "shared_kib", "programs"),
    [
        ("sm_90", 227, 1),
        ("sm_90", 113, 2),
        ("sm_90", 113.5, 1),
        ("sm_90", 227.001, 0),
        ("sm_80", 163, 1),
        ("sm_80", 164, 0),
        ("sm_89", 99, 1),
        ("sm_89", 49, 2),
        ("sm_89", 0, 24),
    ],
)
def test_each_program_takes_a_kib_of_shared_memory_besides(
    target, shared_kib, programs
):
    assert by_shared(CHIPS[target], int(shared_kib * KIB + 0.5)) == programs


def test_threads_and_tensor_memory():
    assert by_threads(CHIPS["sm_90"], 256) == 8
    assert by_threads(CHIPS["sm_89"], 256) == 6
    assert by_threads(CHIPS["sm_80"], 32) == 32
    assert by_tensor_memory(CHIPS["sm_100"], 256) == 2
    assert by_tensor_memory(CHIPS["sm_90"], 0) == 32


def test_what_a_byte_of_k_and_v_serves_is_the_height_of_the_tile():
    for block_m in (32, 128, 192):
        assert compiled.reuse(block_m, 64, 128) == block_m


# --- The rows ---


def row_of(capsys, case, outcome):
    with Rows(sys.stdout) as rows:
        compiled.write(rows, case, outcome)
    return json.loads(capsys.readouterr().out)


def test_the_row_of_a_kernel(capsys):
    row = row_of(capsys, CASE, Outcome(TILE, REPORT))
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
    launch = Launch("m", "sm_90", 64, False, kernel="_attn_bwd")
    roles = {"STAGES": 3, "num_warps": 4}
    row = row_of(capsys, Case("backward", "", launch), Outcome(roles, REPORT))
    assert row["case"] == {
        "part": "backward",
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
    row = row_of(capsys, CASE, Outcome(TILE, too_much))
    assert row["status"] == "unsupported"
    assert "of which a program can have 227" in row["reason"]
    row = row_of(capsys, CASE, Outcome(TILE, None, "LLVM ERROR: x"))
    assert (row["status"], row["reason"]) == ("unsupported", "LLVM ERROR: x")


def test_a_tile_that_cannot_fit_is_not_compiled(monkeypatch):
    cases = [c for c in compiled.tile_cases() if c.launch.head_dim == 256]
    heard = []

    def compile_all(launches):
        for launch in launches:
            heard.append(launch.tile)
            yield Outcome(TILE, REPORT)

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


def test_the_kernels_of_the_backward_are_there_and_go_by_their_names():
    cases = list(compiled.gradient_cases())
    assert len(cases) == len(set(cases))
    for case in cases:
        module, name = import_module(case.launch.module), case.launch.kernel
        assert callable(getattr(module, name, None) or getattr(delta, name, None))
        assert case.launch.dropout == (case.part == "dropout")
    on_hopper = {
        (case.launch.head_dim, case.launch.causal)
        for case in cases
        if case.launch.kernel == "_attn_bwd"
    }
    assert on_hopper == set(product(hopper_backward.TILES, (False, True)))


def test_the_sweep_takes_tiles_of_the_kernel():
    launches = [case.launch for case in compiled.tile_cases()]
    assert len(set(launches)) == len(launches)
    assert all(isinstance(launch.tile, forward.Tile) for launch in launches)


def test_every_column_has_its_words_in_both_languages():
    table = tomllib.loads((ROOT / "docs" / "jobs.toml").read_text(encoding="utf-8"))
    blackwell = REPORT._replace(tensor_columns=256)
    options = {**TILE, "maxnreg": 128}
    named = Case("backward", "", CASE.launch._replace(kernel="_attn_bwd"))
    names = {
        *CASE.columns(options),
        *compiled.values(CASE, options, blackwell),
        *named.columns(options),
        *compiled.values(named, options, blackwell),
    }
    for name in names:
        assert {"en", "zh"} <= set(table["columns"][name]["label"])
    parts = {case.part for case in (CASE, *compiled.gradient_cases())} | {"tiles"}
    assert parts <= set(table["columns"]["part"]["values"])


# --- Compiled in earnest ---

PROGRAM = """
import json
from bench.compiling import Launch, compile_all
if __name__ == "__main__":
    launches = [Launch("flashwalk.forward", "sm_80", 16, False),
                Launch("flashwalk.hopper.forward", "sm_80", 64, False),
                Launch("flashwalk.backward", "sm_80", 16, False,
                       kernel="_attn_bwd_dq", dropout=True)]
    print(json.dumps(list(compile_all(launches))))
"""


def test_a_kernel_is_compiled_and_an_abort_is_survived(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, stdout=subprocess.PIPE
    )
    assert done.returncode == 0
    (options, report, reason, status), (_, no_report, abort, _), of_dq = json.loads(
        done.stdout
    )
    assert options["HEAD_DIM"] == 16
    registers, stores, *_ = report
    assert 32 < registers < 256
    assert stores == 0
    assert "mma.sync" in report
    assert reason == ""
    assert status == "unsupported"
    assert no_report is None
    assert abort.startswith("LLVM ERROR: Cannot select")
    # Of the kernels of one launcher, the one that was asked for.
    assert of_dq[0]["BLOCK_M"] == backward.tiles_for(16, bfloat16, dropout=True).dq[0]
    assert "mma.sync" in of_dq[1]
