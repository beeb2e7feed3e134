"""A run that is stopped, or meets another, leaves the records whole and no process."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_project import environment, job, make, write

from codewalk.cli import main
from codewalk.config import read_project
from codewalk.errors import CodewalkError
from codewalk.jobs.machine import Machine
from codewalk.jobs.process import Stop
from codewalk.jobs.run import Session, run_job
from codewalk.jobs.status import states
from codewalk.records import read_record


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a project with no job yet, and the folder that we are in."""
    folder = tmp_path / "root"
    make(folder, [], {})
    monkeypatch.chdir(folder)
    # Where a run keeps its own files, so that a test can see that none stay.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return folder


def test_a_job_that_takes_too_long_is_ended_with_all_it_started(root: Path) -> None:
    os.mkfifo(root / "held")
    held = os.open(root / "held", os.O_RDONLY | os.O_NONBLOCK)
    wait = "import signal; f = open('held', 'w'); print('x', file=f, flush=True)"
    start = f"[sys.executable, '-c', {wait + '; signal.pause()'!r}]"
    source = f"import subprocess, sys\nsubprocess.Popen({start})\n{wait}\n"
    write(root, "src/slow.py", source + "signal.pause()\n")
    write(root, "docs/jobs.toml", job("slow", "python", "src/slow.py"))
    machine = Machine("cpu", {}, {}, frozenset({"cpu"}))
    slow = read_project(root)
    session = Session(slow, root / "docs/results", machine, Stop(), limit=0.5)
    watch = Patient(held)
    with pytest.raises(CodewalkError, match=r"took longer than 0\.5 s and was ended"):
        run_job(session, slow.jobs.job("slow"), watch)
    assert watch.heard == b"x\nx\n"
    assert_closed(held)


class Patient:
    """Lets no time pass, for the run, until both processes have said something."""

    def __init__(self, pipe: int):
        self.pipe = pipe
        self.heard = b""

    def output(self, data: bytes) -> None: ...

    def progress(self, seconds: float, rows: int) -> None:
        while len(self.heard) < 4 and select.select([self.pipe], [], [], 60)[0]:
            self.heard += os.read(self.pipe, 100)


def test_a_process_that_a_job_leaves_behind_is_ended(root: Path) -> None:
    os.mkfifo(root / "held")
    held = os.open(root / "held", os.O_RDONLY | os.O_NONBLOCK)
    child = "import signal; print(1, flush=True); f = open('held', 'w'); signal.pause()"
    # The job waits until the child has begun, and the child keeps its pipe open.
    source = f"""
import subprocess, sys
from rows import report
report({{"n": 1}}, ms=1.0)
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE)
child.stdout.readline()
"""
    write(root, "src/leaves.py", source)
    write(root, "docs/jobs.toml", job("leaves", "python", "src/leaves.py"))
    assert main(["run"]) == 0
    assert_closed(held)


def assert_closed(pipe: int) -> None:
    """Nobody has the other end, once who was killed is gone: reading meets the end."""
    try:
        data = b"more"
        while data:
            assert select.select([pipe], [], [], 60)[0], "a process still has it"
            data = os.read(pipe, 4096)
    finally:
        os.close(pipe)


SLOW = """
import os
from rows import report
report({"n": 1}, ms=1.0)
if os.path.exists("wait"):
    with open("ready", "w") as ready:
        ready.write(str(os.getpid()))
    open("go").read()
report({"n": 2}, ms=os.path.getsize("src/slow.py"))
"""

# The signals that a background process may have inherited as ignored.
LAUNCH = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from codewalk.cli import main
sys.exit(main(["run", "slow"]))
"""


@dataclass
class Blocked:
    """A run of the job `slow` by another process, in the middle of it."""

    root: Path
    process: subprocess.Popen[str]
    job: int  # the process of the job

    def end(self, number: int) -> str:
        """Sends a signal to the run and returns what it said."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[1]

    def go_on(self) -> None:
        write(self.root, "go", "go")
        self.process.communicate(timeout=60)


@pytest.fixture
def blocked(root: Path) -> Iterator[Blocked]:
    write(root, "src/slow.py", SLOW)
    write(root, "docs/jobs.toml", job("slow", "python", "src/slow.py"))
    assert main(["run", "slow"]) == 0
    write(root, "wait", "")
    os.mkfifo(root / "ready")
    os.mkfifo(root / "go")
    ready = os.open(root / "ready", os.O_RDONLY | os.O_NONBLOCK)
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH],
        cwd=root,
        env=environment(TMPDIR=str(root.parent / "temporary")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert select.select([ready], [], [], 60)[0], process.poll()
            job_process = int(os.read(ready, 100))
            yield Blocked(root, process, job_process)
        finally:
            process.kill()
            os.close(ready)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_but_the_old_record(
    number: int, blocked: Blocked, root: Path
) -> None:
    before = (root / "docs/results/cpu/slow.json").read_bytes()
    said = blocked.end(number)
    assert blocked.process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not is_running(blocked.job)
    assert (root / "docs/results/cpu/slow.json").read_bytes() == before
    assert [p.name for p in (root / "docs/results/cpu").iterdir()] == ["slow.json"]
    assert list((root.parent / "temporary").iterdir()) == []


def test_a_killed_run_leaves_the_old_record_and_no_lock(
    blocked: Blocked, root: Path
) -> None:
    path = root / "docs/results/cpu/slow.json"
    before = path.read_bytes()
    try:
        blocked.end(signal.SIGKILL)
        assert path.read_bytes() == before
        # As if it had been killed while it was writing.
        write(root, "docs/results/cpu/.slow.json.1.tmp", "{")
        assert len(states(read_project(root))) == 1
        (root / "wait").unlink()
        assert main(["run", "slow"]) == 0
        assert [p.name for p in path.parent.iterdir()] == ["slow.json"]
        assert len(read_record(path).rows) == 2
    finally:
        os.kill(blocked.job, signal.SIGKILL)


def test_a_second_run_is_refused_while_the_first_goes_on(
    blocked: Blocked, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (root / "docs/results/cpu/slow.json").read_bytes()
    (root / "wait").unlink()  # the first is past it; no other would wait
    capsys.readouterr()
    assert main(["run", "slow"]) == 2
    assert "another codewalk run is writing" in capsys.readouterr().err
    assert (root / "docs/results/cpu/slow.json").read_bytes() == before
    assert main(["status"]) == 0
    assert main(["run", "slow", "--results", str(root.parent / "other")]) == 0
    blocked.go_on()
    assert blocked.process.returncode == 0
    assert json.loads((root / "docs/results/cpu/slow.json").read_bytes())
    assert main(["run", "slow"]) == 0
