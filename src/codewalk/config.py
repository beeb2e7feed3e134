"""The settings of a project: `[tool.codewalk]` in pyproject.toml, and jobs.toml.

Both are read with the standard library alone, because a machine with a GPU may
reach no package registry.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from codewalk.errors import CodewalkError, nearest

LANGUAGES = ("en", "zh")
KINDS = ("tests", "benchmark", "claims", "notebook")
STYLES = ("ours", "peer-1", "peer-2", "peer-3", "reference")


@dataclass(frozen=True)
class Column:
    """How a column of the records is shown.

    `digits` are significant digits. `low` and `high` name the columns that hold
    the spread of this one, `repeats` the one with how often it was measured (the
    value is their median). `scale` is that of an axis: "" (linear) or "log2".
    `values` gives words for values, per language.
    """

    name: str
    label: Mapping[str, str]
    unit: str = ""
    digits: int | None = None
    low: str = ""
    high: str = ""
    repeats: str = ""
    better: str = ""
    scale: str = ""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def title(self, language: str) -> str:
        return self.label.get(language, self.name)


@dataclass(frozen=True)
class Job:
    """A command that can be run, and what a machine must provide for it."""

    name: str
    kind: str
    needs: str
    command: tuple[str, ...]
    title: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """Changes when what is run changes; its title may change freely."""
        text = json.dumps([self.kind, self.needs, self.command])
        return "job:" + hashlib.sha256(text.encode()).hexdigest()

    @property
    def notebook(self) -> str:
        """The notebook that it executes, as a path from the root; else empty."""
        return self.command[-1] if self.kind == "notebook" else ""


@dataclass(frozen=True)
class SeriesStyle:
    """How one value of a column is named and drawn, everywhere in the book."""

    label: str
    style: str


@dataclass(frozen=True)
class JobsFile:
    """What docs/jobs.toml says."""

    probe: tuple[str, ...]
    jobs: Mapping[str, Job]
    columns: Mapping[str, Column]
    series: Mapping[str, Mapping[str, SeriesStyle]]

    def column(self, name: str) -> Column:
        """The column, or a plain one where jobs.toml says nothing of it."""
        return self.columns.get(name) or Column(name, {})

    def job(self, name: str) -> Job:
        if name not in self.jobs:
            raise CodewalkError(f"no job {name!r}: {nearest(name, self.jobs)}")
        return self.jobs[name]


@dataclass(frozen=True)
class Project:
    """Where things are, and the few choices that a project makes.

    `sources` maps the first part of an address to a folder: "" is the default
    one, so that `flashwalk/forward.py` is looked up there, and `tests` stands
    for itself, so that `tests/x.py` is looked up in the folder tests.
    """

    root: Path
    sources: Mapping[str, str]
    pages: str
    figures: str
    results: str
    jobs_path: str
    device: str
    repository: str

    @cached_property
    def jobs(self) -> JobsFile:
        return read_jobs(self.root / self.jobs_path)

    def relative(self, path: Path) -> str:
        """`path` as written from the root, with forward slashes."""
        return path.relative_to(self.root).as_posix()


_DEFAULTS: dict[str, Any] = {
    "sources": {"": "src", "tests": "tests"},
    "pages": "docs",
    "figures": "docs/figures",
    "results": "docs/results",
    "jobs": "docs/jobs.toml",
    "device": "cpu",
    "repository": "",
}


def read_project(root: Path) -> Project:
    """The project whose pyproject.toml lies in `root`."""
    path = root / "pyproject.toml"
    table = _toml(path).get("tool", {}).get("codewalk", {})
    unknown = sorted(set(table) - set(_DEFAULTS))
    if unknown:
        raise CodewalkError(
            f"{path.name}: [tool.codewalk] has no setting {unknown[0]!r}: "
            + nearest(unknown[0], _DEFAULTS)
        )
    chosen = {**_DEFAULTS, **table}
    for name, default in _DEFAULTS.items():
        _expect(chosen[name], type(default), f"{path.name}: tool.codewalk.{name}")
    return Project(
        root=root.resolve(),
        sources=chosen["sources"],
        pages=chosen["pages"],
        figures=chosen["figures"],
        results=chosen["results"],
        jobs_path=chosen["jobs"],
        device=chosen["device"],
        repository=chosen["repository"].rstrip("/"),
    )


def find_root(start: Path) -> Path:
    """The nearest folder at or above `start` whose pyproject.toml is codewalk's."""
    for folder in (start.resolve(), *start.resolve().parents):
        path = folder / "pyproject.toml"
        if path.is_file() and "codewalk" in _toml(path).get("tool", {}):
            return folder
    raise CodewalkError(f"no pyproject.toml with [tool.codewalk] at or above {start}")


def read_jobs(path: Path) -> JobsFile:
    """jobs.toml, checked; an absent file is a project without jobs."""
    if not path.is_file():
        return JobsFile((), {}, {}, {})
    table = _toml(path)
    name = path.name
    _known(table, ("probe", "jobs", "columns", "series"), name)
    return JobsFile(
        probe=_words(table.get("probe", []), f"{name}: probe"),
        jobs={key: _job(key, value, name) for key, value in _items(table, "jobs")},
        columns={key: _column(key, val, name) for key, val in _items(table, "columns")},
        series={
            column: {
                key: _series(val, f"{name}: series.{column}.{key}")
                for key, val in part.items()
            }
            for column, part in _items(table, "series")
        },
    )


def _job(key: str, table: Any, file: str) -> Job:
    where = f"{file}: jobs.{key}"
    _known(table, ("kind", "needs", "command", "title"), where)
    kind = _one_of(table.get("kind"), KINDS, f"{where}.kind")
    needs = _expect(table.get("needs", "cpu"), str, f"{where}.needs")
    command = _words(table.get("command"), f"{where}.command")
    if not command:
        raise CodewalkError(f"{where}.command: expected at least one word")
    if kind == "notebook" and not command[-1].endswith(".ipynb"):
        raise CodewalkError(f"{where}.command: expected a notebook as the last word")
    return Job(key, kind, needs, command, _languages(table, "title", where))


def _column(key: str, table: Any, file: str) -> Column:
    where = f"{file}: columns.{key}"
    known = ("unit", "digits", "label", "low", "high", "better", "scale", "values")
    _known(table, (*known, "repeats"), where)
    digits = table.get("digits")
    if digits is not None and (type(digits) is not int or digits < 1):
        raise CodewalkError(
            f"{where}.digits: expected a whole number ≥ 1, got {digits!r}"
        )
    return Column(
        name=key,
        label=_languages(table, "label", where),
        unit=_expect(table.get("unit", ""), str, f"{where}.unit"),
        digits=digits,
        low=_expect(table.get("low", ""), str, f"{where}.low"),
        high=_expect(table.get("high", ""), str, f"{where}.high"),
        repeats=_expect(table.get("repeats", ""), str, f"{where}.repeats"),
        better=_one_of(table.get("better", ""), ("", "higher", "lower"), where),
        scale=_one_of(table.get("scale", ""), ("", "log2"), f"{where}.scale"),
        values={
            value: _languages(table["values"], value, f"{where}.values")
            for value in _expect(table.get("values", {}), dict, f"{where}.values")
        },
    )


def _series(table: Any, where: str) -> SeriesStyle:
    _known(table, ("label", "style"), where)
    label = _expect(table.get("label"), str, f"{where}.label")
    return SeriesStyle(label, _one_of(table.get("style"), STYLES, f"{where}.style"))


def _languages(table: Any, key: str, where: str) -> Mapping[str, str]:
    words: dict[str, str] = _expect(table.get(key, {}), dict, f"{where}.{key}")
    _known(words, LANGUAGES, f"{where}.{key}")
    for language, text in words.items():
        _expect(text, str, f"{where}.{key}.{language}")
    return words


def _items(table: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    return list(_expect(table.get(key, {}), dict, key).items())


def _words(value: Any, where: str) -> tuple[str, ...]:
    words = _expect(value, list, where)
    return tuple(_expect(word, str, where) for word in words)


def _one_of(value: Any, allowed: tuple[str, ...], where: str) -> str:
    if value not in allowed:
        raise CodewalkError(
            f"{where}: expected one of {', '.join(allowed)}; got {value!r}"
        )
    return str(value)


def _known(table: Any, allowed: tuple[str, ...], where: str) -> None:
    for key in _expect(table, dict, where):
        if key not in allowed:
            raise CodewalkError(f"{where}: no setting {key!r}: {nearest(key, allowed)}")


def _expect(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise CodewalkError(f"{where}: expected {kind.__name__}, got {value!r}")
    return value


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CodewalkError(f"no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CodewalkError(f"{path.name}: {error}") from None
