"""What is read off the compiler, how it can end, and a few kernels in earnest."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import bfloat16

from bench import compiling
from bench.compiling import Launch, Outcome, Report
from flashwalk import backward

ROOT = Path(__file__).parents[2]
LAUNCH = Launch("flashwalk.forward", "sm_90", 64, False)

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


def test_constants_count_however_they_are_passed():
    kernel = SimpleNamespace(
        params=[
            SimpleNamespace(name=name, is_constexpr=name.isupper())
            for name in ("x", "n", "GROUPS", "NAME", "STAGES")
        ]
    )
    options = {"GROUPS": 3, "NAME": "no number", "STAGES": 2, "num_warps": 4}
    named = compiling.compile_options(kernel, (0, 5), options)
    placed = compiling.compile_options(
        kernel, (0, 5, 3, "no number", 2), {"num_warps": 4}
    )
    assert named == placed == {"GROUPS": 3, "STAGES": 2, "num_warps": 4}


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

    def __init__(self, status, begun, reports):
        self.exitcode, self.begun, self.reports = status, begun, reports

    def __call__(self, target, args):
        folder = args[1]
        (folder / "errors").write_text("LLVM ERROR: x\n")
        for name in self.begun:
            compiling._note(folder / "begun", (name, {"BLOCK_N": 64}))
        for report in self.reports:
            compiling._note(folder / "reports", report._asdict())
        return self

    def start(self):
        pass

    def join(self, seconds=None):
        pass

    def kill(self):
        self.exitcode = -signal.SIGKILL


def compiled_as(monkeypatch, status, begun, reports=()):
    context = SimpleNamespace(
        Process=Ended(status, begun, reports), set_forkserver_preload=lambda names: None
    )
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(compiling, "_CONTEXT", context)
    (outcomes,) = compiling.compile_all([LAUNCH])
    return outcomes


STOPS = pytest.mark.parametrize(
    ("status", "why"),
    [
        (-signal.SIGABRT, ("LLVM ERROR: x", "unsupported")),
        (3, ("LLVM ERROR: x", "unsupported")),
        (None, ("not compiled in 100 s", "failed")),
    ],
)


@STOPS
def test_a_compiler_that_does_not_finish(monkeypatch, status, why):
    (outcome,) = compiled_as(monkeypatch, status, ["a"])
    assert outcome == Outcome("a", {"BLOCK_N": 64}, None, *why)


@STOPS
def test_what_was_compiled_before_it_stopped_counts(monkeypatch, status, why):
    report = compiling.read_report(kernel(), CLEAN)
    first, last = compiled_as(monkeypatch, status, ["a", "b"], [report])
    assert (first.kernel, first.report.registers) == ("a", 117)
    assert last == Outcome("b", {"BLOCK_N": 64}, None, *why)


@pytest.mark.parametrize(
    ("status", "begun", "reports"),
    [
        (3, [], 0),
        (1, ["a"], 0),
        (-signal.SIGKILL, ["a"], 0),
        (0, ["a"], 0),
        (0, [], 0),
        (3, ["a"], 1),
        (None, ["a"], 1),
    ],
)
def test_what_is_not_the_compilers_fault_stops_the_job(
    monkeypatch, status, begun, reports
):
    report = compiling.read_report(kernel(), CLEAN)
    with pytest.raises(RuntimeError, match=r"sm_90.* ended with status .*LLVM"):
        compiled_as(monkeypatch, status, begun, [report] * reports)


# --- Compiled in earnest ---

PROGRAM = """
import json
from bench.compiling import Launch, compile_all
if __name__ == "__main__":
    launches = [Launch("flashwalk.forward", "sm_80", 16, False),
                Launch("flashwalk.hopper.forward", "sm_80", 64, False),
                Launch("flashwalk.backward", "sm_80", 16, False, dropout=True)]
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
    [of_forward], [of_hopper], of_backward = json.loads(done.stdout)
    name, options, report, reason, status = of_forward
    assert name == "_attn_fwd"
    assert options["HEAD_DIM"] == 16
    registers, stores, *_ = report
    assert 32 < registers < 256
    assert stores == 0
    assert "mma.sync" in report
    assert reason == ""
    assert status == "unsupported"
    assert of_hopper[2] is None
    assert of_hopper[3].startswith("LLVM ERROR: Cannot select")
    # A launch of several kernels: each has its own options, and its own report.
    assert [name for name, *_ in of_backward] == [
        *("_attn_bwd_delta", "_attn_bwd_dkdv", "_attn_bwd_dq")
    ]
    tile = backward.tiles_for(16, bfloat16, dropout=True).dq
    assert of_backward[2][1]["BLOCK_M"] == tile.block_m
    in_delta, in_dkdv, in_dq = (report[7:] for _, _, report, *_ in of_backward)
    assert in_delta == ["", 0]
    assert in_dkdv[0] == in_dq[0] == "mma.sync"
    assert in_dkdv[1] > in_dq[1]
