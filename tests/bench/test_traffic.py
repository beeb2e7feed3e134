"""The traffic job: Nsight Compute is asked, believed and contradicted on a CPU."""

import json
import re
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench import traffic, traffic_target
from bench.measure import Unmeasured
from flashwalk.forward import Tile
from flashwalk.ladder import RUNGS

# NumPy warns of what Triton's interpreter does with numbers.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
    '"Block Size","Grid Size","Device","CC",'
    '"dram__bytes_read.sum","dram__bytes_write.sum",'
    '"sm__ops_path_tensor_op_hgmma_src_fp16.avg.pct_of_peak_sustained_elapsed"\n'
)


def units(unit):
    return f'"","","","","","","","","","","","{unit}","{unit}","%"\n'


def launch(name, read, written, tensor="12.5"):
    return (
        f'"0","4711","python3.12","127.0.0.1","{name}","1","7","(256, 1, 1)",'
        f'"(2048, 1, 1)","0","9.0","{read}","{written}","{tensor}"\n'
    )


SWEEP = launch("_sweep", "536,870,912", "20,971,520")
OURS = (
    "==PROF== Connected to process 4711 (python3.12)\n"
    '==PROF== Profiling "_attn_fwd": Application replay pass 1\n'
    "==PROF== Disconnected from process 4711\n"
    + HEAD
    + units("byte")
    + launch("_attn_fwd", "104,857,600", "14,680,064")
    + SWEEP
)
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop<(int)64, ''x'', \"\"a\"\">>(T1::P)"


def test_the_report_is_read_past_what_stands_around_it():
    kernels = traffic.read_report(OURS)
    assert kernels == [
        traffic.Kernel("_attn_fwd", 104857600.0, 14680064.0, 12.5),
        traffic.Kernel("_sweep", 536870912.0, 20971520.0, 12.5),
    ]


def test_names_with_commas_and_quotes_are_one_cell():
    text = HEAD + units("byte") + launch(GEMM, "1", "2")
    (kernel,) = traffic.read_report(text)
    assert kernel.name.startswith("void cutlass::Kernel2<")
    assert (kernel.read, kernel.written) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("unit", "factor"), [("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9)]
)
def test_units_are_decimal(unit, factor):
    text = HEAD + units(unit) + launch("k", "1,234.5", "0")
    (kernel,) = traffic.read_report(text)
    assert kernel.read == pytest.approx(1234.5 * factor)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        ("", "no kernel"),
        (HEAD + units("byte"), "no kernel"),
        (HEAD.replace("write", "other") + units("byte") + SWEEP, "dram__bytes_write"),
        (HEAD + units("byte") + launch("k", "n/a", "1"), "n/a"),
        (HEAD + units("%") + launch("k", "1", "1"), "'%'"),
    ],
)
def test_what_is_no_report_is_an_error(text, told):
    with pytest.raises(ValueError, match=told):
        traffic.read_report(text)


def test_what_was_still_in_the_cache_counts_as_written():
    floor = traffic.floor_bytes(traffic_target.CASE)
    values = traffic.moved(traffic.read_report(OURS), floor)
    assert values["kernels"] == 1
    assert values["read_mib"] == 100
    assert values["written_late_mib"] == 20
    assert values["written_mib"] == 34
    assert values["moved_mib"] == 134
    # Q, K, V and O take 32 MiB each, lse 1 MiB.
    assert values["floor_mib"] == 129
    assert values["ratio"] == pytest.approx(134 / 129, rel=1e-5)


def test_a_report_of_several_calls_is_cut_at_the_sweeps():
    kernels = [
        traffic.Kernel(name, 1.0, 2.0, 3.0)
        for name in ("_attn_fwd", "_sweep", "a", "b", "_sweep")
    ]
    parts = traffic.by_call(kernels, 2)
    assert [[k.name for k in part] for part in parts] == [
        ["_attn_fwd", "_sweep"],
        ["a", "b", "_sweep"],
    ]
    assert traffic.moved(parts[0], 1)["tensor_share"] == 3.0
    assert "tensor_share" not in traffic.moved(parts[1], 1)
    # A kernel that multiplies, among those that do not.
    parts[1][0] = parts[1][0]._replace(tensor=0.0)
    assert traffic.moved(parts[1], 1)["tensor_share"] == 3.0
    for calls, upto in ((1, 5), (3, 5), (2, 4)):
        with pytest.raises(ValueError, match=f"expected {calls} calls"):
            traffic.by_call(kernels[:upto], calls)


@pytest.mark.parametrize("names", [["a", "b"], ["_sweep"], ["_sweep", "a", "_sweep"]])
def test_the_sweep_must_be_last_and_alone(names):
    with pytest.raises(ValueError, match="one sweep"):
        traffic.moved([traffic.Kernel(name, 1.0, 1.0, 0.0) for name in names], 1)


def test_arithmetic_at_the_seeds_size():
    case = traffic_target.CASE
    # The textbook's four passes over 2 GiB, and the inputs and the output.
    assert traffic.derived("naive", case) == {"derived_mib": 8320, "scaling_mib": 4096}
    # 32 blocks of queries a head, each with all of a head's K and V: 2 GiB.
    tile = Tile(128, 64, 8, 3)
    assert traffic.issued_bytes(case, tile) == (32 * 64 * 2**20) + 32 * 2**20
    assert traffic.derived("forward", case)["issued_mib"] > 32 * 2


def test_what_is_not_counted_is_refused():
    tile = Tile(128, 64, 8, 3)
    for other in ({"causal": True}, {"seqlen_q": 4000}, {"seqlen_k": 4001}):
        with pytest.raises(ValueError, match="whole tiles"):
            traffic.issued_bytes(replace(traffic_target.CASE, **other), tile)


def fake_ncu(folder, body):
    """A program that takes ncu's place; `body` may use `log`, the report's path."""
    path = Path(folder) / "ncu"
    path.write_text(
        f"#!{sys.executable}\nimport sys, pathlib\n"
        "log = pathlib.Path(sys.argv[sys.argv.index('--log-file') + 1])\n" + body
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def measured_with(monkeypatch, tmp_path, body):
    ncu = fake_ncu(tmp_path, body)
    monkeypatch.setattr(traffic, "find_ncu", lambda: ncu)
    return traffic.measured("forward", ["forward"])["forward"]


def test_a_report_becomes_values(monkeypatch, tmp_path):
    values = measured_with(monkeypatch, tmp_path, f"log.write_text({OURS!r})")
    assert values["moved_mib"] == 134
    assert values["issued_mib"] > values["moved_mib"]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (
            "log.write_text('==ERROR== ERR_NVGPUCTRPERM - The user does not have "
            "permission to access counters')\nsys.exit(1)",
            "unsupported",
            "ERR_NVGPUCTRPERM",
        ),
        (
            "print('==ERROR== Failed to initialize the profiler: LibraryNotLoaded')\n"
            "sys.exit(9)",
            "unsupported",
            "LibraryNotLoaded",
        ),
        (
            "print('Traceback\\nTypeError: in /opt/x/y.py')\nlog.write_text("
            "'==ERROR== The application returned an error code (1).')\nsys.exit(1)",
            "failed",
            "error code .1.. TypeError: in y.py",
        ),
        ("log.write_text('==WARNING== No kernels were profiled.')", "failed", "No ker"),
        ("sys.exit(3)", "failed", "ended with 3: it said nothing"),
        ("import time; time.sleep(60)", "failed", "longer than 2 s"),
    ],
)
def test_what_goes_wrong_is_told(monkeypatch, tmp_path, body, status, told):
    monkeypatch.setattr(traffic, "SECONDS", 2)
    outcome = measured_with(monkeypatch, tmp_path, body)
    assert isinstance(outcome, Unmeasured)
    assert outcome.status == status
    assert re.search(told, outcome.reason)


def test_without_a_profiler_it_is_unsupported(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(traffic, "PLACES", (str(tmp_path / "*" / "ncu"),))
    assert traffic.measured("backward", ["naive"])["naive"] == Unmeasured(
        "unsupported", "Nsight Compute (ncu) is not installed"
    )


@pytest.mark.parametrize(
    ("option", "modules", "names"),
    [
        ([], list(RUNGS.values()), ["naive", *RUNGS]),
        (
            ["--backward"],
            ["flashwalk.backward", "flashwalk.hopper.backward"],
            ["naive", "flashwalk", "portable"],
        ),
    ],
)
def test_what_is_profiled_is_loaded_by_the_job_itself(
    monkeypatch, capsys, option, modules, names
):
    loaded = []
    monkeypatch.delenv("CODEWALK_ROWS", raising=False)
    monkeypatch.setattr("sys.argv", ["traffic", *option])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(traffic, "import_module", loaded.append)
    why = Unmeasured("failed", "made up")
    monkeypatch.setattr(
        traffic, "measured", lambda mode, names: dict.fromkeys(names, why)
    )
    traffic.main()
    assert loaded == modules
    cases = [json.loads(line)["case"] for line in capsys.readouterr().out.splitlines()]
    assert [case.get("rung") or case["impl"] for case in cases] == names
    assert {case.get("mode", "forward") for case in cases} == {
        "backward" if option else "forward"
    }


def test_the_newest_profiler_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in ("2024.3.2", "2025.3.1", "2025.10.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch()
    monkeypatch.setattr(traffic, "PLACES", (str(tmp_path / "*" / "ncu"),))
    assert traffic.find_ncu() == str(tmp_path / "2025.10.0" / "ncu")


def test_the_caches_are_left_alone_and_the_interpreter_is_ours(tmp_path):
    words = traffic.ncu_words(
        "ncu", tmp_path / "report", "forward", ["naive", "hopper"]
    )
    assert words[words.index("--cache-control") + 1] == "none"
    assert words[words.index("--clock-control") + 1] == "none"
    module = ["-m", "bench.traffic_target"]
    assert words[-6:] == [sys.executable, *module, "forward", "naive", "hopper"]


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("forward", ("naive", "forward", "two_loops")),
        ("backward", tuple(traffic_target.BACKWARDS)),
    ],
)
def test_all_calls_answer_alike(mode, names):
    random = torch.Generator().manual_seed(0)
    shape = (1, 2, 32, traffic_target.CASE.head_dim)
    inputs = traffic_target.Inputs(
        *(torch.randn(shape, generator=random, dtype=torch.float16) for _ in range(3))
    )
    answers = [traffic_target.call_of(mode, name, inputs)() for name in names]
    for answer in answers[1:]:
        torch.testing.assert_close(answers[0], answer, atol=3e-3, rtol=0)


def test_the_least_that_a_backward_moves():
    # Q, K, V, O and dO come in and dQ, dK, dV go out, 32 MiB each; lse has 1 MiB.
    case = traffic_target.CASE
    assert traffic.backward_floor_bytes(case) == (8 * 32 + 1) * 2**20
    one = [traffic.Kernel("k", 2**20, 0.0, 0.0), traffic.Kernel("_sweep", 0, 0, 0)]
    assert traffic.values("backward", "naive", one)["floor_mib"] == 257


def test_the_sweep_reads_without_writing():
    if torch.cuda.is_available():
        pytest.skip("the sweep is compiled for the GPU here")
    sweep = traffic_target.Sweep("cpu", size=2 * 4096 * 4)
    sweep()
    assert not sweep._x.any()
