"""Records are read strictly, written whole, and known to be fresh or stale."""

import contextlib
import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_project import job, make, write

from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.record_format import format_record, parse_record, parse_rows
from codewalk.records import (
    Record,
    Row,
    read_all,
    read_record,
    record_path,
    write_record,
)

ROWS = (
    Row(0, {"impl": "a", "size": 1024, "causal": True}, {"ms": 0.25}, "measured"),
    Row(1, {"impl": "b", "size": 1024, "causal": True}, {}, "failed", "因为 wrong"),
)


@pytest.fixture
def tiny(tmp_path: Path) -> Project:
    return make(tmp_path, [job("speed", "python", "src/a.py")], {})


PARTS: dict[str, Any] = {
    "job": "speed",
    "device": "cpu",
    "machine": {"name": "A processor", "cores": 4},
    "software": {"python": "3.11.7"},
    "command": ("python", "src/a.py"),
    "started": "2026-03-01T12:00:00Z",
    "seconds": 1.5,
    "inputs": {"src/a.py": "ast:0", "src/b.py": "ast:0"},
    "job_digest": "job:0",
    "rows": ROWS,
}


@pytest.fixture
def record() -> Record:
    return Record(**PARTS)


# --- written and read ---------------------------------------------------------


def test_a_record_comes_back_as_it_was(tiny: Project, record: Record) -> None:
    path = write_record(tiny, record)
    assert path == tiny.root / "docs/results/cpu/speed.json"
    assert read_record(path) == record
    assert read_all(tiny) == {("cpu", "speed"): record}


def test_each_row_and_input_has_a_line(tiny: Project, record: Record) -> None:
    text = write_record(tiny, record).read_text(encoding="utf-8")
    lines = text.splitlines()
    assert sum('"case"' in line for line in lines) == len(record.rows)
    assert sum('"src/' in line and "ast:" in line for line in lines) == 2
    assert "因为" in text
    assert text.endswith("}\n")
    assert json.loads(text)["schema"] == 1


def test_writing_again_changes_no_byte(tiny: Project, record: Record) -> None:
    before = write_record(tiny, record).read_bytes()
    inputs = dict(reversed(record.inputs.items()))
    assert write_record(tiny, replace(record, inputs=inputs)).read_bytes() == before


def test_a_record_may_have_no_rows_and_no_inputs(tiny: Project, record: Record) -> None:
    bare = replace(record, rows=(), inputs={})
    assert read_record(write_record(tiny, bare)) == bare


def test_no_folder_is_no_records(tiny: Project) -> None:
    assert read_all(tiny) == {}


def test_other_files_beside_records_are_passed_by(
    tiny: Project, record: Record
) -> None:
    write_record(tiny, record)
    write(tiny.root, "docs/results/cpu/speed.ipynb", "{}")
    write(tiny.root, "docs/results/cpu/.speed.json.1.tmp", "{")
    assert list(read_all(tiny)) == [("cpu", "speed")]


@pytest.mark.parametrize("name", ["", "..", "a/b", "../a", ".a", "a b", "a\n"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tiny: Project) -> None:
    with pytest.raises(CodewalkError, match="names no record"):
        record_path(tiny, "cpu", name)
    with pytest.raises(CodewalkError, match="names no record"):
        record_path(tiny, name, "speed")


# --- malformed ----------------------------------------------------------------

Change_ = Callable[[dict[str, Any]], object]
CASE = {"case": {"impl": "a"}, "values": {"ms": 1.0}, "status": "measured"}


def put(key: str, value: object) -> Change_:
    return lambda data: data.__setitem__(key, value)


MALFORMED: dict[str, tuple[Change_, str]] = {
    "newer": (put("schema", 3), r"written by a newer codewalk \(schema 3"),
    "no schema": (lambda data: data.pop("schema"), "no schema number"),
    "schema true": (put("schema", True), "no schema number, got True"),
    "missing": (lambda data: data.pop("inputs"), "no 'inputs'"),
    "unknown key": (put("host", "x"), "'host' is none of schema, job"),
    "job number": (put("job", 1), "job: expected str, got 1"),
    "other job": (put("job", "other"), "does not belong here"),
    "other device": (put("device", "gpu"), "does not belong here"),
    "machine list": (put("machine", []), "machine: expected dict"),
    "machine nested": (put("machine", {"a": {}}), "machine.a: expected a string or"),
    "software number": (put("software", {"a": 1}), "software.a: expected str"),
    "command text": (put("command", "python"), "command: expected list"),
    "started local": (put("started", "2026-03-01 12:00"), "expected a time in UTC"),
    "seconds text": (put("seconds", "1"), "seconds: expected a number"),
    "seconds true": (put("seconds", True), "seconds: expected a number"),
    "input above": (put("inputs", {"../x": "sha256:0"}), "no path from the root"),
    "input absolute": (put("inputs", {"/etc/x": "sha256:0"}), "no path from the root"),
    "input null": (put("inputs", {"a\0": "sha256:0"}), "no path from the root"),
    "rows table": (put("rows", {}), "rows: expected list"),
    "row text": (put("rows", ["x"]), "row 0: expected dict"),
    "row key": (put("rows", [CASE | {"note": ""}]), "'note' is none of case"),
    "no case": (put("rows", [{"values": {}}]), "no 'case'"),
    "null": (put("rows", [CASE | {"values": {"ms": None}}]), "values.ms: expected a"),
    "status": (put("rows", [CASE | {"status": "ok"}]), "'ok' is none of measured, "),
    "reasonless": (put("rows", [CASE | {"status": "failed"}]), "without a reason"),
    "duplicate": (put("rows", [CASE, CASE]), "rows 0 and 1 are of one case"),
    "surrogate": (put("machine", {"a": "\ud800"}), "is not Unicode"),
}


@pytest.mark.parametrize(("change", "message"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_record_is_named(
    change: Change_, message: str, tiny: Project, record: Record
) -> None:
    path = write_record(tiny, record)
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(CodewalkError, match=rf"^cpu/speed\.json: .*{message}"):
        read_record(path)


NO_JSON = {
    "nothing": (b"", "not JSON, or cut short"),
    "list": (b"[]", "expected dict"),
    "nan": (b'{"schema": NaN}', "NaN is not a value"),
    "infinity": (b'{"schema": -Infinity}', "-Infinity is not a value"),
    "twice": (b'{"schema": 1, "schema": 1}', "'schema' stands twice"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "latin-1": (b'{"job": "\xe9"}', "utf-8"),
    "utf-16": ("{}".encode("utf-16"), "utf-8"),
    "long number": (b'{"schema": ' + b"9" * 5000 + b"}", "digits"),
}


@given(st.integers(0, 2000), st.integers(0, 40), st.binary(max_size=8))
@settings(deadline=None)
def test_a_damaged_record_is_refused_or_read(at: int, gone: int, new: bytes) -> None:
    whole = format_record(Record(**PARTS)).encode()
    text = (whole[:at] + new + whole[at + gone :]).decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        assert parse_record(text)


@pytest.mark.parametrize(("data", "message"), NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_record_at_all_is_named(
    data: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "cpu" / "speed.json"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(CodewalkError, match=rf"^cpu/speed\.json: .*{message}"):
        read_record(path)


def test_a_truncated_record_is_named_wherever_it_ends(
    tiny: Project, record: Record
) -> None:
    path = write_record(tiny, record)
    whole = path.read_bytes()
    for length in range(0, len(whole.rstrip()), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(CodewalkError, match=r"^cpu/speed\.json: "):
            read_record(path)


def test_a_number_beyond_all_numbers_is_refused(tiny: Project, record: Record) -> None:
    path = write_record(tiny, record)
    path.write_text(path.read_text(encoding="utf-8").replace("0.25", "1e999"))
    with pytest.raises(CodewalkError, match=r"row 0: values\.ms: inf is not a value"):
        read_record(path)


def test_numbers_that_are_equal_are_one_case() -> None:
    lines = ['{"case": {"n": 1}}', '{"case": {"n": 1.0}}']
    with pytest.raises(ValueError, match="line 2 of its rows: rows 0 and 1"):
        parse_rows("\n".join(lines))


def test_every_bad_file_is_named_at_once(tiny: Project) -> None:
    for name in ("a", "b"):
        write(tiny.root, f"docs/results/cpu/{name}.json", "{")
    with pytest.raises(CodewalkError, match=r"cpu/a\.json: .*\ncpu/b\.json: "):
        read_all(tiny)


# --- nothing is overwritten ---------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_record(
    call: str, tiny: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_record(tiny, record)
    before = path.read_bytes()

    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(CodewalkError, match=r"cpu/speed\.json: not written \(No space"):
        write_record(tiny, replace(record, seconds=9.0))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["speed.json"]


def test_a_disk_that_fills_while_writing_leaves_nothing(
    tiny: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        """A file on a disk with room for a hundred bytes."""

        def __init__(self, path: Path, mode: str):
            self.file = open(path, mode)  # noqa: SIM115

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("codewalk.records.Path.open", lambda *words: Full(*words))
    with pytest.raises(CodewalkError, match="not written"):
        write_record(tiny, record)
    assert list((tiny.root / "docs/results/cpu").iterdir()) == []


def test_a_newer_record_is_left_alone(tiny: Project, record: Record) -> None:
    path = write_record(tiny, record)
    newer = path.read_text(encoding="utf-8").replace('"schema": 1', '"schema": 3')
    path.write_text(newer)
    with pytest.raises(CodewalkError, match="written by a newer codewalk"):
        write_record(tiny, record)
    assert path.read_text() == newer


def test_what_could_not_be_read_back_is_not_written(
    tiny: Project, record: Record
) -> None:
    nan = Row(0, {"impl": "a"}, {"ms": float("nan")}, "measured")
    for rows in ((nan,), (ROWS[0], replace(ROWS[0], index=1))):
        with pytest.raises(CodewalkError, match=r"cpu/speed\.json: "):
            write_record(tiny, replace(record, rows=rows))
    assert not (tiny.root / "docs").joinpath("results").exists()


def test_the_layout_is_json_in_any_case(record: Record) -> None:
    bare = replace(record, machine={}, software={}, inputs={}, rows=())
    assert json.loads(format_record(bare))["rows"] == []
