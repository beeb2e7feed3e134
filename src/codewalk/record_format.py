"""The JSON of a record: what is allowed in it, and how it is laid out.

Whatever is malformed is a ValueError that says what and where in the file; the
file itself is named by who reads it.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NoReturn

Scalar = str | int | float | bool

# Without listings a record is of schema 1: who reads no newer one reads it still.
SCHEMA = 2
MEASURED = "measured"
STATUSES = (MEASURED, "unsupported", "out-of-memory", "failed", "skipped")

_STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_KEYS = (
    "schema",
    "job",
    "device",
    "machine",
    "software",
    "command",
    "started",
    "seconds",
    "inputs",
    "job_digest",
    "rows",
)


@dataclass(frozen=True)
class Row:
    """One case, and its values or why it has none."""

    index: int
    case: Mapping[str, Scalar]
    values: Mapping[str, Scalar]
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Record:
    """What one run of a job found.

    device is a slug, the name of the folder; machine holds the facts about it.
    started is ISO 8601 in UTC, to the second. inputs maps each file that the
    run loaded or read, as a path from the root, to its digest. listings maps what
    it looked for, such as tests/**/test_*.py, to the files that there were.
    """

    job: str
    device: str
    machine: Mapping[str, Scalar]
    software: Mapping[str, str]
    command: tuple[str, ...]
    started: str
    seconds: float
    inputs: Mapping[str, str]
    job_digest: str
    rows: tuple[Row, ...]
    listings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def parse_record(text: str) -> Record:
    """The record that a file holds."""
    table = versioned_table(text, SCHEMA, "the record")
    optional = ("listings",) if table["schema"] > 1 else ()
    _check_keys(table, (*_KEYS, *optional), required=_KEYS)
    return _record(table)


def parse_rows(text: str) -> tuple[Row, ...]:
    """What a job reported, one JSON object a line; an error names the line."""
    rows: list[Row] = []
    seen = _Cases()
    # Not splitlines: it also cuts at form feeds and U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_row(strict_json(line), len(rows)))
            seen.add(rows[-1])
        except ValueError as error:
            raise ValueError(f"line {number} of its rows: {error}") from None
    return tuple(rows)


def format_record(record: Record) -> str:
    """The text of a record: one fact, input and row a line, always in one order."""
    listings = {key: list(names) for key, names in sorted(record.listings.items())}
    fields = {
        "schema": _dump(SCHEMA if listings else 1),
        "job": _dump(record.job),
        "device": _dump(record.device),
        "machine": _block(record.machine),
        "software": _block(record.software),
        "command": _dump(record.command),
        "started": _dump(record.started),
        "seconds": _dump(record.seconds),
        "inputs": _block(dict(sorted(record.inputs.items()))),
        **({"listings": _block(listings)} if listings else {}),
        "job_digest": _dump(record.job_digest),
        "rows": _list([_dump(_row_table(row)) for row in record.rows]),
    }
    lines = [f"  {_dump(name)}: {text}" for name, text in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _row_table(row: Row) -> dict[str, Any]:
    table = {"case": dict(row.case), "values": dict(row.values), "status": row.status}
    return {**table, "reason": row.reason} if row.reason else table


def _block(table: Mapping[str, Any]) -> str:
    lines = [f"    {_dump(key)}: {_dump(value)}" for key, value in table.items()]
    return "{\n" + ",\n".join(lines) + "\n  }" if lines else "{}"


def _list(items: Sequence[str]) -> str:
    return "[\n    " + ",\n    ".join(items) + "\n  ]" if items else "[]"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def versioned_table(text: str, newest: int, what: str) -> dict[str, Any]:
    """The object that a stored file holds, its schema no newer than `newest`."""
    table: dict[str, Any] = _expect(strict_json(text), dict, what)
    schema = table.get("schema")
    if type(schema) is not int or schema < 1:
        raise ValueError(f"no schema number, got {schema!r}")
    if schema > newest:
        raise ValueError(
            f"written by a newer codewalk (schema {schema}; this one reads {newest})"
        )
    return table


def strict_json(text: str) -> Any:
    """Strict JSON: no NaN, no name twice in one object. Raises a ValueError."""
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON, or cut short: {error}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value that can be recorded")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object")
    return found


def _record(table: Mapping[str, Any]) -> Record:
    command = _expect(table["command"], list, "command")
    rows = _expect(table["rows"], list, "rows")
    record = Record(
        job=_string(table["job"], "job"),
        device=_string(table["device"], "device"),
        machine=scalars(table["machine"], "machine"),
        software=strings(table["software"], "software"),
        command=tuple(_string(word, "command") for word in command),
        started=_string(table["started"], "started"),
        seconds=_seconds(table["seconds"]),
        inputs=strings(table["inputs"], "inputs"),
        job_digest=_string(table["job_digest"], "job_digest"),
        rows=tuple(_row(row, index) for index, row in enumerate(rows)),
        listings=_listings(table.get("listings", {})),
    )
    if not _STARTED.fullmatch(record.started):
        raise ValueError(f"started: expected a time in UTC, got {record.started!r}")
    names = (name for found in record.listings.values() for name in found)
    for path in (*record.inputs, *record.listings, *names):
        _check_input(path)
    seen = _Cases()
    for row in record.rows:
        seen.add(row)
    return record


def _listings(value: Any) -> dict[str, tuple[str, ...]]:
    where = "listings"
    return {
        _string(key, where): tuple(
            _string(name, where) for name in _expect(names, list, f"{where}.{key}")
        )
        for key, names in _expect(value, dict, where).items()
    }


def _row(data: Any, index: int) -> Row:
    where = f"row {index}"
    table = _expect(data, dict, where)
    _check_keys(table, ("case", "values", "status", "reason"), required=("case",))
    row = Row(
        index=index,
        case=scalars(table["case"], f"{where}: case"),
        values=scalars(table.get("values", {}), f"{where}: values"),
        status=_string(table.get("status", MEASURED), f"{where}: status"),
        reason=_string(table.get("reason", ""), f"{where}: reason"),
    )
    if row.status not in STATUSES:
        raise ValueError(
            f"{where}: status {row.status!r} is none of {', '.join(STATUSES)}"
        )
    if row.status != MEASURED and not row.reason:
        raise ValueError(f"{where}: {row.status} without a reason")
    return row


class _Cases:
    """The cases so far; 1, 1.0 and true count as one value."""

    def __init__(self) -> None:
        self._first: dict[frozenset[tuple[str, Scalar]], int] = {}

    def add(self, row: Row) -> None:
        """Raises a ValueError if another row is of this case."""
        first = self._first.setdefault(frozenset(row.case.items()), row.index)
        if first != row.index:
            case = _dump(dict(row.case))
            raise ValueError(f"rows {first} and {row.index} are of one case, {case}")


def _check_keys(
    table: Mapping[str, Any], known: Sequence[str], required: Sequence[str]
) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{key!r} is none of {', '.join(known)}")
    for key in required:
        if key not in table:
            raise ValueError(f"no {key!r}")


def _check_input(path: str) -> None:
    """An input lies under the root: nothing else is opened because a record says so."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError(f"inputs: {path!r} is no path from the root")


def scalars(value: Any, where: str) -> dict[str, Scalar]:
    """`value` as a table of plain, finite values; `where` it stands, for errors."""
    table = _expect(value, dict, where)
    return {
        _string(key, where): _scalar(item, f"{where}.{key}")
        for key, item in table.items()
    }


def strings(value: Any, where: str) -> dict[str, str]:
    """`value` as a table of strings; `where` it stands, for errors."""
    table = _expect(value, dict, where)
    return {
        _string(key, where): _string(item, f"{where}.{key}")
        for key, item in table.items()
    }


def _scalar(value: Any, where: str) -> Scalar:
    if isinstance(value, str):
        return _string(value, where)
    if type(value) is float and not math.isfinite(value):
        raise ValueError(f"{where}: {value} is not a value that can be recorded")
    if type(value) not in (int, float, bool):
        raise ValueError(f"{where}: expected a string or a number, got {value!r}")
    return value  # type: ignore[no-any-return]


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(f"seconds: expected a number, got {value!r}")
    return float(value)


def _string(value: Any, where: str) -> str:
    text = _expect(value, str, where)
    # A lone surrogate is JSON, but no file can hold it.
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(f"{where}: {text!r} is not Unicode")
    return str(text)


def _expect(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{where}: expected {kind.__name__}, got {value!r:.80}")
    return value
