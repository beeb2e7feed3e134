"""The stored results, `<results>/<device>/<job>.json`: read, written, compared.

A record is written whole or not at all. `changes` says whether what it was made
from is still what is there.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from codewalk.config import Job, Project
from codewalk.digest import digest_bytes, digest_file, digest_source
from codewalk.errors import CodewalkError
from codewalk.history import UNKNOWN, DigestOf, when_changed
from codewalk.listing import matching
from codewalk.record_format import (
    MEASURED,
    STATUSES,
    Record,
    Row,
    Scalar,
    format_record,
    parse_record,
)
from codewalk.stored import replace

__all__ = [
    "MEASURED",
    "STATUSES",
    "UNKNOWN",
    "Change",
    "Record",
    "Row",
    "Scalar",
    "changes",
    "check_replaceable",
    "executed_copy",
    "read_all",
    "read_record",
    "record_files",
    "record_path",
    "write_executed",
    "write_record",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Change:
    """An input that is no longer what the run saw.

    when: the ISO date of the commit that changed it, "" where the change is in
    no commit, "unknown" where git cannot tell. gone: the input is no more. added:
    it was not there, and the run looked for it.
    """

    path: str
    when: str
    gone: bool
    added: bool = False


def record_path(project: Project, device: str, job: str) -> Path:
    """Where this record is stored; a name that could lead elsewhere is an error."""
    for name in (device, job):
        if not _NAME.fullmatch(name):
            raise CodewalkError(
                f"{name!r} names no record: letters, digits, '.', '_' and '-' do"
            )
    return project.root / project.results / device / f"{job}.json"


def record_files(project: Project) -> list[Path]:
    """The files that should hold records."""
    folder = project.root / project.results
    # The hidden ones are what a killed run left.
    return sorted(p for p in folder.glob("*/*.json") if not p.name.startswith("."))


def read_record(path: Path) -> Record:
    """The record in a file.

    Raises a CodewalkError that names the file: not JSON, written by a newer
    codewalk, NaN, two rows of one case, an unknown status, a wrong type, a
    record of another job or device than the file's name says.
    """
    try:
        return _checked(path.read_bytes().decode("utf-8"), path)
    except OSError as error:
        raise CodewalkError(f"{_name(path)}: not read ({error.strerror})") from error
    except ValueError as error:
        raise CodewalkError(f"{_name(path)}: {error}") from None


def read_all(project: Project) -> dict[tuple[str, str], Record]:
    """Every record, by (device, job); one CodewalkError names all bad files."""
    records, errors = {}, []
    for path in record_files(project):
        try:
            record = read_record(path)
        except CodewalkError as error:
            errors.append(str(error))
        else:
            records[record.device, record.job] = record
    if errors:
        raise CodewalkError("\n".join(errors))
    return records


def write_record(project: Project, record: Record) -> Path:
    """Stores a record, whole or not at all, and returns where.

    Raises a CodewalkError where it could not be read back, where the disk
    refuses, and where the file there is no record that we can read: it may be a
    newer codewalk's, and is left alone.
    """
    path = record_path(project, record.device, record.job)
    check_replaceable(path)
    try:
        text = format_record(record)
        _checked(text, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode("utf-8"))
    except OSError as error:
        raise CodewalkError(
            f"{_name(path)}: not written ({error.strerror}); what was there remains"
        ) from error
    except (TypeError, ValueError) as error:
        raise CodewalkError(f"{_name(path)}: {error}") from None
    return path


def write_executed(project: Project, record: Record, made: Path) -> None:
    """Stores the executed copy of a notebook beside the place of its record."""
    path = record_path(project, record.device, record.job).with_suffix(".ipynb")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, made.read_bytes())
    except OSError as error:
        raise CodewalkError(
            f"{_name(path)}: not written ({error.strerror}); what was there remains"
        ) from error


def executed_copy(project: Project, record: Record) -> bytes:
    """The executed copy that a notebook's record is about.

    Raises a CodewalkError where it is not there, or is of another run.
    """
    path = record_path(project, record.device, record.job).with_suffix(".ipynb")
    said = {row.values.get("executed") for row in record.rows}
    data = path.read_bytes() if path.is_file() else b""
    if digest_bytes(data) not in said:
        raise CodewalkError(
            f"{_name(path)}: not the copy that the record is about; "
            f"run: codewalk run {record.job}"
        )
    return data


def check_replaceable(path: Path) -> None:
    """Raises a CodewalkError unless nothing, or a readable record, is there."""
    if path.exists():
        read_record(path)


def changes(project: Project, record: Record, job: Job | None) -> tuple[Change, ...]:
    """The inputs that differ now, or are new, and the job's definition.

    None: the record is fresh.

    `job` is the job as it is defined now, None where it is gone.
    """
    found = []
    for path, recorded in record.inputs.items():
        now = _digest_now(project.root / path)
        if now != recorded:
            when = when_changed(project.root, path, recorded, now, _file_digest(path))
            found.append(Change(path, when, now is None))
    for path in _added(project, record):
        now, digest = _digest_now(project.root / path), _file_digest(path)
        when = when_changed(project.root, path, None, now, digest)
        found.append(Change(path, when, gone=False, added=True))
    definition = job.digest if job else None
    if definition != record.job_digest:
        path, digest = project.jobs_path, _definition_digest(record.job)
        when = when_changed(project.root, path, record.job_digest, definition, digest)
        found.append(Change(f"{path}#jobs.{record.job}", when, job is None))
    return tuple(found)


def _added(project: Project, record: Record) -> list[str]:
    """The files that a run would find now, and that were not there."""
    found = set()
    for pattern, names in record.listings.items():
        found |= set(matching(project.root, pattern)) - set(names)
    return sorted(found)


def _checked(text: str, path: Path) -> Record:
    record = parse_record(text)
    if (record.device, record.job) != (path.parent.name, path.stem):
        raise ValueError(
            f"a record of {record.job!r} on {record.device!r} does not belong here"
        )
    return record


def _name(path: Path) -> str:
    """The file as an author knows it."""
    return f"{path.parent.name}/{path.name}"


def _digest_now(path: Path) -> str | None:
    """The digest of a file as it is, None where there is none."""
    try:
        stat = path.stat()
        return _digest_known(path, stat.st_mtime_ns, stat.st_size)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _digest_known(path: Path, mtime_ns: int, size: int) -> str:
    return digest_file(path)


def _file_digest(path: str) -> DigestOf:
    return lambda data: None if data is None else digest_source(path, data)


def _definition_digest(name: str) -> DigestOf:
    """The digest of one job's definition in a jobs.toml of some time."""

    def digest(data: bytes | None) -> str | None:
        try:
            table = tomllib.loads((data or b"").decode())["jobs"][name]
            command, needs = tuple(table["command"]), table.get("needs", "cpu")
            return Job(name, table["kind"], needs, command, {}).digest
        except (ValueError, LookupError, TypeError):
            return None

    return digest
