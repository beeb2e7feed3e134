"""A pytest plugin that reports each test as a row: `-p codewalk.jobs.pytest_rows`.

A row's case is {"test": node id}; its values are the outcome and what the test
recorded with record_property. Times are left out: they would differ in every
run. A last row, {"summary": "all"}, counts. Without $CODEWALK_ROWS it does
nothing.

What it looked for in the folders that it was given, test files and conftest.py,
goes to a file in $CODEWALK_INPUTS: a new one would be run, or would change what
is run, and is an input of no earlier run.
"""

import json
import math
import os
import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from codewalk.listing import matching

Scalar = str | int | float | bool

_XFAILED = "expected failure"
_PATH = re.compile(r"(?<![\w./:~…-])/(?:[^\s/'\":,;()\[\]<>]+/)+")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")


class RowReporter:
    """Writes a row when a test is over, so that a run can be watched."""

    def __init__(self, path: str, root: Path):
        self._path = path
        self._root = root
        self._worst: dict[str, tuple[str, str]] = {}
        self._counts = Counter(passed=0, failed=0, skipped=0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called after a test's setup, its call and its teardown."""
        outcome, reason = _outcome(report)
        if outcome != "passed":
            # A failing teardown does not hide behind a skipped test; a first
            # failure is told rather than what follows from it.
            before, _ = self._worst.get(report.nodeid, ("", ""))
            if before != "failed" and (not before or outcome == "failed"):
                self._worst[report.nodeid] = (outcome, reason)
        if report.when == "teardown":
            outcome, reason = self._worst.pop(report.nodeid, ("passed", ""))
            self._write(report.nodeid, outcome, reason, self._recorded(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called after each file, class and folder was looked into for tests."""
        if report.outcome != "passed":
            outcome, reason = _outcome(report)
            self._write(report.nodeid or ".", outcome, reason, {})

    def pytest_sessionfinish(self) -> None:
        counts = dict(self._counts)
        self._append({"case": {"summary": "all"}, "values": counts})

    def _recorded(self, report: pytest.TestReport) -> dict[str, Scalar]:
        found = dict(report.user_properties)
        values = {name: _plain(v) for name, v in found.items() if _is_plain(v)}
        return {
            name: self._clean(value) if isinstance(value, str) else value
            for name, value in values.items()
        }

    def _write(
        self, test: str, outcome: str, reason: str, found: dict[str, Scalar]
    ) -> None:
        status = {"passed": "measured", "xfailed": "skipped"}.get(outcome, outcome)
        self._counts["passed" if status == "measured" else status] += 1
        row = {
            "case": {"test": test},
            "values": {**found, "outcome": outcome},
            "status": status,
        }
        if status != "measured":
            row["reason"] = self._clean(reason) or "no reason given"
        self._append(row)

    def _append(self, row: dict[str, object]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")

    def _clean(self, reason: str) -> str:
        """One line that says the same on every machine."""
        line = " ".join(reason.split())[:500]
        line = line.replace(f"{self._root}{os.sep}", "")
        line = _ADDRESS.sub("0x…", _PATH.sub("…/", line))
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "localhost", line)


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("CODEWALK_ROWS")
    # A worker of xdist hands its reports to the one process that writes.
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RowReporter(path, config.rootpath))
        folder = os.environ.get("CODEWALK_INPUTS")
        if folder:
            _save_listings(config, Path(folder))


def _save_listings(config: pytest.Config, folder: Path) -> None:
    root = config.rootpath.resolve()
    found = {one: matching(root, one) for one in sorted({*_patterns(config, root)})}
    path = folder / f"{os.getpid()}.listings"
    path.write_text(json.dumps(found), encoding="ascii")


def _patterns(config: pytest.Config, root: Path) -> Iterator[str]:
    """What is looked for where: see codewalk.listing."""
    names = [*config.getini("python_files"), "conftest.py"]
    for word in config.args:
        place = (config.invocation_params.dir / word.partition("::")[0]).resolve()
        if not place.exists() or not place.is_relative_to(root):
            continue  # a module's name (--pyargs), or none of our files
        if place.is_dir():
            inside = _prefix(place, root)
            yield from (f"{inside}**/{name}" for name in names if "/" not in name)
        for above in place.parents:
            if above.is_relative_to(root):
                yield f"{_prefix(above, root)}conftest.py"


def _prefix(folder: Path, root: Path) -> str:
    path = folder.relative_to(root).as_posix()
    return "" if path == "." else f"{path}/"


def _outcome(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str]:
    """passed, failed, skipped or xfailed; and why."""
    expected = getattr(report, "wasxfail", None)
    if report.outcome == "skipped" and expected is not None:
        text = str(expected).removeprefix("reason: ")
        return "xfailed", f"{_XFAILED}: {text}" if text else _XFAILED
    if report.outcome == "skipped":
        return "skipped", _skip_reason(report.longrepr)
    if report.outcome == "failed":
        when = getattr(report, "when", "call")
        before = f"in {when}: " if when in ("setup", "teardown") else ""
        return "failed", before + _failure(report.longrepr)
    return "passed", ""


def _skip_reason(found: object) -> str:
    text = found[2] if isinstance(found, tuple) else str(found)
    return str(text).removeprefix("Skipped: ")


def _failure(found: object) -> str:
    """The first line of what was raised."""
    crash = getattr(found, "reprcrash", None)
    if crash is not None:
        return str(crash.message).partition("\n")[0]
    lines = [line.strip() for line in str(found).splitlines() if line.strip()]
    # In a traceback the lines of the error are marked.
    marked = [line[1:].strip() for line in lines if re.match(r"E\s", line)]
    return (marked or lines or [""])[-1]


def _is_plain(value: object) -> TypeGuard[Scalar]:
    return isinstance(value, str | int | float | bool)


def _plain(value: Scalar) -> Scalar:
    """Of numpy, say, a plain number; NaN, which no record holds, as a word."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return value
