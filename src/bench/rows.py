"""Writes what a job found: one JSON object a line, each case once.

The file is the one that $CODEWALK_ROWS names; without it, a job run by hand
prints its rows.
"""

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

Value = int | float | str | bool
Columns = Mapping[str, Value]

# Why a case has no values.
UNMEASURED = ("unsupported", "out-of-memory", "failed", "skipped")


class Rows:
    """Appends rows to a stream, each as soon as it is known.

    with Rows.open() as rows:
        rows.measured({"seqlen_q": 1024}, {"ms": 0.5})
        rows.unmeasured({"seqlen_q": 4096}, "out-of-memory", "asked for 64 GiB")
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._cases: set[str] = set()

    @classmethod
    def open(cls) -> Self:
        path = os.environ.get("CODEWALK_ROWS")
        if not path:
            return cls(sys.stdout)
        return cls(Path(path).open("a", encoding="utf-8"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stream is not sys.stdout:
            self._stream.close()

    def measured(self, case: Columns, values: Columns) -> None:
        self._write(case, {"values": dict(values)})

    def unmeasured(self, case: Columns, status: str, reason: str) -> None:
        if status not in UNMEASURED:
            raise ValueError(f"status is one of {UNMEASURED}, got {status!r}")
        self._write(case, {"status": status, "reason": reason})

    def _write(self, case: Columns, rest: Mapping[str, object]) -> None:
        row = {"case": dict(case), **rest}
        for part in (case, rest.get("values", {})):
            _check(part)
        key = json.dumps(row["case"], sort_keys=True)
        if key in self._cases:
            raise ValueError(f"a second row of one case: {key}")
        self._cases.add(key)
        line = json.dumps(row, ensure_ascii=False, allow_nan=False)
        self._stream.write(line + "\n")
        self._stream.flush()


def _check(columns: object) -> None:
    """Only plain, finite values: a record is read by every later version of us."""
    if not isinstance(columns, Mapping):
        raise ValueError(f"columns are a mapping, got {columns!r}")
    for name, value in columns.items():
        if not isinstance(name, str) or type(value) not in (int, float, str, bool):
            raise ValueError(f"{name!r} is a plain value, got {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is finite, got {value!r}")
