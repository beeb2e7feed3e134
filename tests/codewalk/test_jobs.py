"""Running jobs: what is recorded, what voids it, and what survives."""

import sys
from pathlib import Path

import pytest
from tiny_project import job, make, write

from codewalk.cli import main
from codewalk.config import Project, read_project
from codewalk.errors import CodewalkError
from codewalk.jobs.inputs import Tree
from codewalk.jobs.machine import Machine
from codewalk.jobs.process import Stop
from codewalk.jobs.run import Session, run_job
from codewalk.jobs.status import lines, states
from codewalk.records import Record, read_record

FILES = {
    "src/a.py": "from rows import report\nimport shared\nreport({'n': 1}, ms=1.5)\n",
    "src/b.py": "from rows import report\nimport shared, only_b\nreport({'n': 1})\n",
    "src/shared.py": "X = 1\n",
    "src/only_b.py": "Y = 1\n",
}
JOBS = [job("a", "python", "-m", "a"), job("b", "python", "src/b.py")]


class Silent:
    """Looks on and says nothing."""

    def output(self, data: bytes) -> None: ...

    def progress(self, seconds: float, rows: int) -> None: ...


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a project of two jobs, and the folder that we are in."""
    folder = tmp_path / "root"
    make(folder, JOBS, FILES)
    monkeypatch.chdir(folder)
    # Where a run keeps its own files, so that a test can see that none stay.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return folder


def recorded(root: Path, name: str, device: str = "cpu") -> Record:
    return read_record(root / "docs/results" / device / f"{name}.json")


def status(root: Path) -> list[str]:
    return lines(states(read_project(root)))


def run(root: Path, name: str, source: str, **more: str) -> str:
    """Runs a job of this source alone; why there is no record, empty if there is."""
    write(root, f"src/{name}.py", source)
    write(root, "docs/jobs.toml", job(name, "python", f"src/{name}.py", **more))
    machine = Machine("cpu", {}, {}, frozenset({"cpu"}))
    session = Session(read_project(root), root / "docs/results", machine, Stop())
    try:
        run_job(session, session.project.jobs.job(name), Silent())
    except CodewalkError as error:
        assert list((root.parent / "temporary").iterdir()) == []
        return str(error)
    return ""


# --- what is recorded ---------------------------------------------------------


def test_a_run_is_recorded_with_its_provenance(root: Path) -> None:
    assert main(["run"]) == 0
    record = recorded(root, "a")
    assert [(row.case, row.values) for row in record.rows] == [({"n": 1}, {"ms": 1.5})]
    assert list(record.inputs) == ["src/a.py", "src/rows.py", "src/shared.py"]
    assert "src/only_b.py" in recorded(root, "b").inputs
    assert record.command == ("python", "-m", "a")
    assert record.software["python"].startswith("3.")
    assert record.machine["name"]
    assert str(root) not in (root / "docs/results/cpu/a.json").read_text()
    assert list((root.parent / "temporary").iterdir()) == []
    assert status(root) == ["a  cpu  fresh", "b  cpu  fresh"]


def test_only_what_is_not_fresh_runs(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "a"])
    assert recorded(root, "a").rows
    assert status(root) == ["a  cpu  fresh", "b  -    never run"]
    capsys.readouterr()
    main(["run"])
    assert capsys.readouterr().out.split()[:2] == ["b", "cpu"]
    main(["run"])
    assert capsys.readouterr().out == "nothing to run: all that can run here is fresh\n"


def test_a_comment_leaves_fresh_and_an_expression_makes_its_jobs_stale(
    root: Path,
) -> None:
    main(["run"])
    day = recorded(root, "a").started[:10]
    write(root, "src/shared.py", '"""What it holds."""\n\nX = (1)  # one\n')
    write(root, "src/only_b.py", "# moved down\n\nY = 1\n")
    assert status(root) == ["a  cpu  fresh", "b  cpu  fresh"]
    write(root, "src/only_b.py", "Y = 1 + 1\n")
    because = f"src/only_b.py changed (unknown) since {day}"
    assert status(root) == ["a  cpu  fresh", f"b  cpu  stale: {because}"]
    write(root, "src/shared.py", "X = 1 + 1\n")
    assert status(root) == [
        f"a  cpu  stale: src/shared.py changed (unknown) since {day}",
        f"b  cpu  stale: src/only_b.py changed (unknown) and 1 more since {day}",
    ]
    (root / "src/only_b.py").unlink()
    write(root, "src/shared.py", "X = 1\n")
    because = f"src/only_b.py gone (unknown) since {day}"
    assert status(root) == ["a  cpu  fresh", f"b  cpu  stale: {because}"]


def test_a_record_without_its_job_is_told(root: Path) -> None:
    main(["run"])
    write(root, "docs/jobs.toml", JOBS[1])
    assert status(root) == [
        "b  cpu  fresh",
        "a  cpu  orphan record: there is no such job",
    ]


def test_a_broken_record_is_told_and_not_run_over(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run"])
    path = write(root, "docs/results/cpu/a.json", "{")
    assert status(root)[0].startswith("a  cpu  broken record: cpu/a.json: not JSON")
    write(root, "src/a.py", "raise SystemExit('it ran')\n")
    assert main(["run", "a"]) == 1
    shown = capsys.readouterr()
    assert "NO RECORD: cpu/a.json: not JSON" in shown.out
    assert "it ran" not in shown.err
    assert path.read_text() == "{"


def test_what_a_job_reads_counts_and_what_is_no_source_does_not(root: Path) -> None:
    counted = ("data/d.txt", "tests/site/t.txt", "pytest.ini", "docs/en/page.md")
    left_out = (
        "pyproject.toml",
        "docs/results/cpu/old.txt",
        ".venv/lib/site-packages/x.py",
        "site/en/index.html",
        "build/x.txt",
        "src/a.egg-info/PKG-INFO",
        "src/__pycache__/x.txt",
        ".pytest_cache/x.txt",
        "lib/site-packages/x.py",
    )
    for path in (*counted, *left_out):
        if path != "pyproject.toml":
            write(root, path, "")
    names = repr([*counted, *left_out])
    source = (
        f"from rows import report\nreport({{}})\n[open(n).close() for n in {names}]"
    )
    assert run(root, "reader", source) == ""
    assert set(recorded(root, "reader").inputs) == {
        *counted,
        "src/reader.py",
        "src/rows.py",
    }


def test_the_machinery_is_no_input(root: Path) -> None:
    # A project that holds codewalk itself, as ours does.
    tree = Tree(read_project(root), root / "elsewhere")
    assert tree.counts("src/shared.py")
    assert not tree.counts("elsewhere/cpu/a.json")
    ours = read_project(root)
    home = Path(sys.modules["codewalk"].__file__ or "").parents[2]
    tree = Tree(Project(**{**vars(ours), "root": home}), root)
    assert not tree.counts("src/codewalk/errors.py")
    assert not tree.counts("src/codewalk/jobs/run.py")
    assert tree.counts("src/codewalk_like/a.py")


# --- what leaves no record ----------------------------------------------------

HEAD = "import os, sys\nfrom rows import report\nreport({'n': 1}, ms=1.0)\n"
TAIL = "open(os.environ['CODEWALK_ROWS'], 'a').write({!r})"

UNRECORDED = {
    "status": ("sys.exit(3)", "it ended with exit status 3"),
    "exception": ("raise ValueError", "it ended with exit status 1"),
    "signal": ("os.kill(os.getpid(), 9)", "it ended with signal 9"),
    "no list": ("os._exit(0)", "it left no list of its inputs"),
    "no rows": ("os.truncate(os.environ['CODEWALK_ROWS'], 0)", "it reported no rows"),
    "no JSON": (TAIL.format("ms=1\n"), "line 2 of its rows: not JSON"),
    "cut short": (TAIL.format('{"case": {"n'), "line 2 of its rows: not JSON"),
    "NaN": (
        TAIL.format('{"case": {"n": 2}, "values": {"ms": NaN}}\n'),
        "line 2 of its rows: NaN is not a value",
    ),
    "same case": ("report({'n': 1})", "line 2 of its rows: rows 0 and 1 are of one"),
    "bad status": ("report({'n': 2}, 'ok')", "line 2 of its rows: row 1: status 'ok'"),
    "no reason": ("report({'n': 2}, 'skipped')", "skipped without a reason"),
    "latin-1": (
        "open(os.environ['CODEWALK_ROWS'], 'ab').write(b'\\xe9\\n')",
        "utf-8",
    ),
    "own source": (
        "open(__file__, 'a').write('# more\\n')",
        "changed while it ran: src/bad.py",
    ),
    "its import": (
        "import shared; os.system('echo Z = 1 >> src/shared.py')",
        "changed while it ran: src/shared.py",
    ),
    "read again": (
        "open('src/only_b.py').read(); os.utime('src/only_b.py', (1, 1))",
        "changed while it ran: src/only_b.py",
    ),
    "gone": (
        "import shared; os.remove('src/shared.py')",
        "changed while it ran: src/shared.py",
    ),
    "new": (
        "os.system('echo x > new.txt'); open('new.txt').read()",
        "changed while it ran: new.txt",
    ),
}


@pytest.mark.parametrize(
    ("source", "message"), UNRECORDED.values(), ids=list(UNRECORDED)
)
def test_a_bad_run_leaves_the_record_as_it_was(
    source: str, message: str, root: Path
) -> None:
    assert run(root, "bad", HEAD) == ""
    before = (root / "docs/results/cpu/bad.json").read_bytes()
    assert message in run(root, "bad", HEAD + source)
    assert (root / "docs/results/cpu/bad.json").read_bytes() == before


def test_what_changes_elsewhere_voids_nothing(root: Path) -> None:
    source = HEAD + "os.system('echo Z = 1 >> src/shared.py; echo x > new.txt')"
    assert run(root, "good", source) == ""


@pytest.mark.parametrize(
    "words", [("true",), ("python",), ("python", "-c", "pass"), ("python", "-V")]
)
def test_a_command_that_cannot_be_traced_is_refused(
    words: tuple[str, ...], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "docs/jobs.toml", job("odd", *words))
    assert main(["run"]) == 1
    assert "must begin with `python -m MODULE`" in capsys.readouterr().out


def test_a_program_that_is_not_there(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "docs/jobs.toml", job("odd", "python", "src/nothing.py"))
    assert main(["run"]) == 1
    assert "it ended with exit status 2" in capsys.readouterr().out


def test_one_bad_job_keeps_no_other_from_running(root: Path) -> None:
    write(root, "src/a.py", "raise ValueError\n")
    assert main(["run"]) == 1
    assert status(root) == ["a  -    never run", "b  cpu  fresh"]


# --- tests --------------------------------------------------------------------


def test_tests_that_fail_are_a_record(root: Path) -> None:
    text = "import shared\ndef test_a(): assert shared.X == 2\ndef test_b(): pass\n"
    write(root, "tests/test_x.py", text)
    write(root, "tests/test_y.py", "import nothing_of_that_name\n")
    definition = job("t", "python", "-m", "pytest", "-q", "tests", kind="tests")
    write(root, "docs/jobs.toml", definition)
    assert main(["run"]) == 0
    record = recorded(root, "t")
    found = {row.case.get("test"): (row.status, row.reason) for row in record.rows}
    assert found == {
        "tests/test_y.py": (
            "failed",
            "ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        "tests/test_x.py::test_a": ("failed", "assert 1 == 2"),
        "tests/test_x.py::test_b": ("measured", ""),
        None: ("measured", ""),
    }
    assert record.rows[-1].values == {"passed": 1, "failed": 2, "skipped": 0}
    assert set(record.inputs) == {
        "src/shared.py",
        "tests/test_x.py",
        "tests/test_y.py",
    }
    assert record.command == ("python", "-m", "pytest", "-q", "tests")


def test_tests_that_did_not_run_are_none(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "tests").mkdir()
    definition = job("t", "python", "-m", "pytest", "-q", "tests", kind="tests")
    write(root, "docs/jobs.toml", definition)
    assert main(["run"]) == 1
    assert "it ended with exit status 5" in capsys.readouterr().out
