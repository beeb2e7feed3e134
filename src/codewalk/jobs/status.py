"""What is recorded, whether it is still true, and so what to run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codewalk.config import Job, Project
from codewalk.errors import CodewalkError
from codewalk.jobs.machine import Machine
from codewalk.records import Change, Record, changes, read_record, record_files

FRESH = "fresh"
STALE = "stale"
NEVER_RUN = "never run"
ORPHAN = "orphan record"
BROKEN = "broken record"


@dataclass(frozen=True)
class JobState:
    """How a job stands on a device; device is empty where it has never run."""

    job: str
    device: str
    state: str
    record: Record | None = None
    changes: tuple[Change, ...] = ()
    error: str = ""

    def why(self) -> str:
        """The state, and for all but a fresh one the reason."""
        if self.state == STALE and self.record:
            what = _changed(self.changes)
            return f"{STALE}: {what} since {self.record.started[:10]}"
        if self.state == ORPHAN:
            return f"{ORPHAN}: there is no such job"
        return f"{self.state}: {self.error}" if self.error else self.state


@dataclass(frozen=True)
class Due:
    """A job to run, and why."""

    job: Job
    device: str
    why: str


def states(project: Project) -> list[JobState]:
    """One for each job and device with a record, and for each job without any.

    In the order of jobs.toml; records of jobs that are gone come last.
    """
    found: dict[str, list[JobState]] = {name: [] for name in project.jobs.jobs}
    for path in record_files(project):
        device, name = path.parent.name, path.stem
        job = project.jobs.jobs.get(name)
        try:
            state = _state(project, read_record(path), job)
        except CodewalkError as error:
            state = JobState(name, device, BROKEN, error=str(error))
        found.setdefault(name, []).append(state)
    return [
        state
        for name, group in found.items()
        for state in group or [JobState(name, "", NEVER_RUN)]
    ]


def lines(found: Sequence[JobState]) -> list[str]:
    """The states, one a line, in columns."""
    if not found:
        return []
    job = max(len(state.job) for state in found)
    device = max(len(state.device or "-") for state in found)
    return [
        f"{state.job:{job}}  {state.device or '-':{device}}  {state.why()}"
        for state in found
    ]


def due(project: Project, machine: Machine) -> list[Due]:
    """The jobs that can run on this machine and have no fresh record of it."""
    known = {(state.job, state.device): state for state in states(project)}
    found = []
    for job in project.jobs.jobs.values():
        device = machine.device_for(job)
        state = known.get((job.name, device)) or JobState(job.name, device, NEVER_RUN)
        if machine.provides_for(job) and state.state != FRESH:
            found.append(Due(job, device, state.why()))
    return found


def _state(project: Project, record: Record, job: Job | None) -> JobState:
    if job is None:
        return JobState(record.job, record.device, ORPHAN, record)
    changed = changes(project, record, job)
    state = STALE if changed else FRESH
    return JobState(record.job, record.device, state, record, changed)


def _changed(found: Iterable[Change]) -> str:
    """The first changes in words, and how many there are besides."""
    first, *others = found
    word = "gone" if first.gone else "added" if first.added else "changed"
    text = f"{first.path} {word} ({first.when or 'uncommitted'})"
    return f"{text} and {len(others)} more" if others else text
