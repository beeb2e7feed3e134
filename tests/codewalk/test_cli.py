"""The command line: what it says, and its exit status."""

import io
import json
from pathlib import Path

import pytest
from tiny_project import commit, job, make, python, write

from codewalk.cli import main
from codewalk.errors import Problem
from codewalk.jobs.progress import Progress
from codewalk.records import read_record

GPU = {
    "device": {"id": "gpu-9", "name": "GPU 9", "memory_mib": 1024},
    "software": {"torch": "2"},
    "provides": ["cpu", "cuda", "sm_90"],
}
JOBS = [
    job("fast", "python", "src/fast.py"),
    job("on-gpu", "python", "src/fast.py", needs="cuda"),
    job("newer", "python", "src/fast.py", needs="sm_100"),
]
FAST = "from rows import report\nreport({'n': 1}, ms=1.5)\nprint('said é')\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose probe finds a GPU, and the folder that we are in."""
    make(tmp_path, [], {"src/fast.py": FAST})
    probe_says(tmp_path, f"print({json.dumps(GPU)!r})")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def probe_says(root: Path, source: str) -> None:
    write(root, "src/probe.py", source)
    probe = 'probe = ["python", "-m", "probe"]\n'
    write(root, "docs/jobs.toml", "\n".join([probe, *JOBS]))


# --- run ----------------------------------------------------------------------


def test_what_can_run_here_runs_and_is_told(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run"]) == 0
    shown = capsys.readouterr()
    out = shown.out.splitlines()
    assert [line.split()[:4] for line in out] == [
        ["fast", "cpu", "recorded", "1"],
        ["on-gpu", "gpu-9", "recorded", "1"],
    ]
    assert "fast: started\n" in shown.err
    assert shown.err.count("said é\n") == 2
    assert "fast: recorded 1 row in " in shown.err


def test_a_record_says_what_it_was_measured_on(root: Path) -> None:
    main(["run"])
    gpu = read_record(root / "docs/results/gpu-9/on-gpu.json")
    assert gpu.machine == {"name": "GPU 9", "memory_mib": 1024}
    assert gpu.software["torch"] == "2"
    cpu = read_record(root / "docs/results/cpu/fast.json")
    assert cpu.machine.keys() == {"name"}
    assert cpu.machine["name"] != "GPU 9"


def test_a_dry_run_runs_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, "src/fast.py", "open('ran', 'w')")
    assert main(["run", "--dry-run"]) == 0
    assert main(["run", "--dry-run", "fast"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "would run fast on cpu (never run)",
        "would run on-gpu on gpu-9 (never run)",
        "would run fast on cpu (named)",
    ]
    assert not (root / "ran").exists()
    assert not (root / "docs/results").exists()


def test_a_named_job_runs_fresh_or_not(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["run", "fast", "fast"]) == 0
        assert capsys.readouterr().out.count("recorded") == 1


def test_a_named_job_that_cannot_run_here_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "fast", "newer"]) == 2
    assert "newer needs sm_100; this machine has cpu, cuda, sm_90" in (
        capsys.readouterr().err
    )
    assert not (root / "docs/results").exists()


def test_records_may_go_elsewhere(root: Path, tmp_path: Path) -> None:
    assert main(["run", "fast", "--results", "out/here"]) == 0
    assert read_record(root / "out/here/cpu/fast.json").job == "fast"
    assert not (root / "docs/results").exists()


def test_a_project_without_a_probe_is_of_a_cpu(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "docs/jobs.toml", "\n".join(JOBS))
    assert main(["run", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would run fast on cpu (never run)\n"


BAD_PROBES = {
    "fails": ("raise SystemExit(3)", "ended with status 3"),
    "nothing": ("", "answered in another form"),
    "no JSON": ("print('{')", "answered in another form"),
    "a list": ("print([])", "answered in another form"),
    "no device": ("print('{}')", "KeyError: 'device'"),
    "no slug": (
        f"print({json.dumps(GPU | {'device': {'id': '../x'}})!r})",
        "'../x' is no slug",
    ),
    "one need": (
        f"print({json.dumps(GPU | {'provides': 'cuda'})!r})",
        "provides is no list",
    ),
    "NaN": (
        f"print({json.dumps(GPU | {'device': {'id': 'x', 'mhz': float('nan')}})!r})",
        "nan is not a value",
    ),
}


@pytest.mark.parametrize(("source", "message"), BAD_PROBES.values(), ids=BAD_PROBES)
def test_a_bad_probe_is_told(
    source: str, message: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probe_says(root, source)
    assert main(["run"]) == 2
    said = capsys.readouterr().err
    assert "codewalk: the probe `python -m probe`" in said
    assert message in said


# --- status -------------------------------------------------------------------


def test_status_says_why_in_one_line_a_job(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run"])
    day = read_record(root / "docs/results/cpu/fast.json").started[:10]
    commit(root, "2026-03-02")
    capsys.readouterr()
    write(root, "src/fast.py", FAST.replace("1.5", "2.5"))
    assert main(["status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"fast    cpu    stale: src/fast.py changed (uncommitted) since {day}",
        f"on-gpu  gpu-9  stale: src/fast.py changed (uncommitted) since {day}",
        "newer   -      never run",
    ]
    commit(root, "2026-03-05")
    assert main(["status", "fast"]) == 0
    assert capsys.readouterr().out == (
        f"fast  cpu  stale: src/fast.py changed (2026-03-05) since {day}\n"
    )


def test_status_needs_no_job(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, "docs/jobs.toml", "")
    assert main(["status"]) == 0
    assert capsys.readouterr().out == ""


# --- check --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "status", "out"),
    [
        ([], 0, "nothing to mend\n"),
        (
            [Problem("docs/en/a.md", 3, "no such step")],
            1,
            "1 problem:\n  docs/en/a.md:3: no such step\n",
        ),
    ],
    ids=["none", "one"],
)
def test_check_lists_the_problems(
    found: list[Problem],
    status: int,
    out: str,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codewalk.cli.problems", lambda project: found)
    assert main(["check"]) == status
    assert capsys.readouterr().out == out


# --- what cannot be done ------------------------------------------------------


@pytest.mark.parametrize("verb", ["run", "status"])
def test_an_unknown_job_names_the_nearest(
    verb: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "fats"]) == 2
    assert "no job 'fats': nearest: fast" in capsys.readouterr().err


def test_no_project_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 2
    assert "codewalk: no pyproject.toml" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["rerun"], ["run", "--all"]], ids=str)
def test_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2


def test_an_interrupt_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(project: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("codewalk.cli.states", interrupted)
    assert main(["status"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_it_runs_uninstalled_from_below_the_root(root: Path) -> None:
    (root / "docs/en").mkdir()
    done = python(root / "docs/en", "-m", "codewalk", "status", "newer")
    assert (done.returncode, done.stdout) == (0, "newer  -  never run\n")


def test_it_needs_the_standard_library_alone(root: Path) -> None:
    # Without site-packages, as on a machine that reaches no registry.
    done = python(root, "-S", "-m", "codewalk", "run", "fast")
    assert done.returncode == 0, done.stderr


# --- progress -----------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_lives() -> None:
    stream = Terminal()
    progress = Progress(stream)
    progress.started("fast")
    progress.tick(0.2)
    progress.progress(61.4, 1)
    progress.output(b"half a")
    progress.progress(62.0, 2)  # not into the job's own line
    progress.output(" é\n".encode()[:2])
    progress.output(" é\n".encode()[2:])
    progress.progress(63.0, 2)
    progress.ended("recorded")
    assert stream.getvalue() == (
        "\r\x1b[Kfast: 0 s\r\x1b[Kfast: 61 s, 1 row\r\x1b[Khalf a é\n"
        "\r\x1b[Kfast: 63 s, 2 rows\r\x1b[Kfast: recorded\n"
    )


def test_elsewhere_lines_are_plain_and_few() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.started("fast")
    for seconds in range(130):
        progress.progress(seconds, 3)
    progress.output(b"no end of line")
    progress.ended("recorded")
    assert stream.getvalue() == (
        "fast: started\nfast: 60 s, 3 rows\nfast: 120 s, 3 rows\n"
        "no end of line\nfast: recorded\n"
    )
