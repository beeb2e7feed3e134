"""Runs one job, and wraps what it reports with where that came from."""

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from codewalk.config import Job, Project
from codewalk.errors import CodewalkError
from codewalk.jobs.inputs import Tree, digests, read_listings, read_lists
from codewalk.jobs.machine import Machine, job_environment
from codewalk.jobs.process import Program, Stop, run
from codewalk.record_format import parse_rows
from codewalk.records import (
    Record,
    Row,
    check_replaceable,
    record_path,
    write_executed,
    write_record,
)

# No job takes longer; a longer one is cut along a column.
LIMIT_SECONDS = 480.0

# One row a test, named from the root. A test file that cannot be imported is a
# failure like any other, and keeps no other test from running.
_PYTEST_WORDS = (
    "-p",
    "codewalk.jobs.pytest_rows",
    "--rootdir=.",
    "--continue-on-collection-errors",
)


class JobWatch(Protocol):
    """Who looks on while a job runs."""

    def output(self, data: bytes) -> None:
        """The job wrote this, to its standard output or error."""

    def progress(self, seconds: float, rows: int) -> None:
        """It has been running for so long and reported so many rows."""


@dataclass(frozen=True)
class Session:
    """What the runs of one `codewalk run` share.

    results: the folder that the records go to, the project's own or another.
    limit: the seconds that a job may take.
    """

    project: Project
    results: Path
    machine: Machine
    stop: Stop
    limit: float = LIMIT_SECONDS

    @property
    def target(self) -> Project:
        """The project as it would be if its records lay in `results`."""
        return replace(self.project, results=str(self.results))


@contextlib.contextmanager
def lock(results: Path) -> Iterator[None]:
    """Keeps other runs from writing records into this folder.

    The lock is on the folder itself: it leaves no file, and the system gives it
    back however we end. Raises a CodewalkError if another run has it.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
        folder = os.open(results, os.O_RDONLY)
    except OSError as error:
        raise CodewalkError(f"no records in {results}: {error.strerror}") from error
    try:
        _take(folder, results)
        for left in results.glob("*/.*.tmp"):  # by a run that was killed
            left.unlink()
        yield
    finally:
        os.close(folder)


def _take(folder: int, results: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CodewalkError(
            f"another codewalk run is writing records into {results.name}/: "
            "wait for its end"
        ) from None


def run_job(session: Session, job: Job, watch: JobWatch) -> Record:
    """Runs a job here and stores its record.

    Raises a CodewalkError that says why there is no record, and
    KeyboardInterrupt when asked to stop. The record that was there before then
    remains as it was.
    """
    device = session.machine.device_for(job)
    # Known now rather than after eight minutes.
    check_replaceable(record_path(session.target, device, job.name))
    tree = Tree(session.project, session.results)
    with tempfile.TemporaryDirectory(prefix="codewalk-") as name:
        folder = Path(name)
        before = tree.stamps()
        started, clock = datetime.now(UTC), time.monotonic()
        _run_command(session, job, watch, folder)
        seconds = time.monotonic() - clock
        record = Record(
            job=job.name,
            device=device,
            machine=session.machine.facts_for(job),
            software=session.machine.software,
            command=job.command,
            started=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seconds=round(seconds, 1),
            inputs=digests(tree, read_lists(folder / "inputs"), before),
            job_digest=job.digest,
            rows=_rows(folder / "rows"),
            listings=read_listings(folder / "inputs"),
        )
        if job.kind == "notebook":
            # First: a record never speaks of a copy that is not there.
            write_executed(session.target, record, folder / "executed")
    write_record(session.target, record)
    return record


def _run_command(session: Session, job: Job, watch: JobWatch, folder: Path) -> None:
    """Runs the command to its end; a bad one is a CodewalkError."""
    rows, inputs = folder / "rows", folder / "inputs"
    rows.touch()
    inputs.mkdir()
    environment = {
        **job_environment(session.project),
        "CODEWALK_ROOT": str(session.project.root),
        "CODEWALK_ROWS": str(rows),
        "CODEWALK_INPUTS": str(inputs),
        "CODEWALK_EXECUTED": str(folder / "executed"),
    }
    program = Program(_words(job), session.project.root, environment, session.limit)
    status = run(program, _RowCounter(watch, rows), session.stop)
    # Of pytest, 1 says that tests failed: that is what it found.
    if status and not (job.kind == "tests" and status == 1):
        end = f"signal {-status}" if status < 0 else f"exit status {status}"
        raise CodewalkError(f"it ended with {end}")


def _words(job: Job) -> list[str]:
    python, *words = job.command
    if python != "python" or not words or (words[0][0:1] == "-" and words[0] != "-m"):
        raise CodewalkError(
            "its command must begin with `python -m MODULE` or `python SCRIPT`: "
            "the files that it uses could not be listed"
        )
    added = _PYTEST_WORDS if job.kind == "tests" else ()
    return [sys.executable, "-m", "codewalk.jobs.tracer", *words, *added]


def _rows(path: Path) -> tuple[Row, ...]:
    try:
        rows = parse_rows(path.read_bytes().decode("utf-8"))
    except ValueError as error:
        raise CodewalkError(str(error)) from None
    if not rows:
        raise CodewalkError("it reported no rows")
    return rows


class _RowCounter:
    """Tells who looks on how many rows there are so far."""

    def __init__(self, watch: JobWatch, rows: Path):
        self.output: Callable[[bytes], None] = watch.output
        self._watch, self._path = watch, rows
        self._size, self._count = 0, 0

    def tick(self, seconds: float) -> None:
        size = self._path.stat().st_size
        if size != self._size:
            self._size, self._count = size, self._path.read_bytes().count(b"\n")
        self._watch.progress(seconds, self._count)
