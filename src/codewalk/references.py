"""The schemes: from the text of a link or an image to a thing that exists.

    src:flashwalk/forward.py#mask            lines of a source file
    diff:flashwalk/a.py..flashwalk/b.py#mask what has changed in them
    result:forward-d64?impl=fa2&…#tflops     one value of a recorded run
    result:forward-d64?x=seqlen_q&y=tflops&by=impl&…      a plot
    result:claims?claim=tail&table=n,share   a table
    figure:program-walk                      a drawing with words in two languages
    up:fa2-softmax-rescale-o                 lines of another project
    cite:flashattention-2                    a paper
    test:tests/flashwalk/test_x.py::test_y   a test, and how it came out

A reference that leads nowhere is a CodewalkError that says what was asked for
and what comes nearest.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from codewalk.citations import Paper, find_paper, papers_path, read_papers
from codewalk.config import Project
from codewalk.errors import CodewalkError, nearest
from codewalk.outcomes import Outcome, find_test
from codewalk.pairs import Pair, find_pair
from codewalk.records import MEASURED, Change, Record, Row, Scalar, changes, read_all
from codewalk.source import SourceFile, SourceTree, Span
from codewalk.upstream.places import Place, Upstream, read_upstream, upstream_path

SCHEMES = ("src", "diff", "result", "figure", "up", "cite", "test")
# Those that stand for lines of our own source.
CODE_SCHEMES = ("src", "diff")
# What may stand before the colon of a reference: not what the web has there.
SCHEME_PATTERN = r"(?!(?:https?|mailto|tel|ftp|data):)[a-z]+"
_RESERVED = ("x", "y", "by", "table", "device")


@dataclass(frozen=True)
class Source:
    """Lines of a source file."""

    span: Span

    @property
    def spans(self) -> tuple[Span, ...]:
        return (self.span,)


@dataclass(frozen=True)
class Result:
    """What every reference to a recorded run has."""

    job: str
    device: str
    record: Record | None  # None: never run, and the author allowed that
    changes: tuple[Change, ...] = ()

    @property
    def stale(self) -> bool:
        return bool(self.changes)


@dataclass(frozen=True)
class Value(Result):
    """One value of one row."""

    key: str = ""
    row: Row | None = None

    @property
    def scalar(self) -> Scalar:
        """What is shown: a value, or a part of the case (what was given)."""
        assert self.row is not None  # asked only of what exists
        return {**self.row.case, **self.row.values}[self.key]

    @property
    def state(self) -> str:
        if self.row is None:
            return "missing"
        if self.row.status != MEASURED:
            return "unmeasured"
        return "stale" if self.stale else "fresh"


@dataclass(frozen=True)
class Table(Result):
    """Rows, and the columns of them that are shown, in order."""

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Plot(Result):
    """Rows, drawn as one line for each value of the column `by`."""

    x: str = ""
    y: str = ""
    by: str = ""
    rows: tuple[Row, ...] = ()

    @property
    def names(self) -> tuple[Scalar, ...]:
        """The values of `by`, in the order of the record."""
        return tuple(dict.fromkeys(row.case[self.by] for row in self.rows))


@dataclass(frozen=True)
class Figure:
    """A drawing: its SVG text with the words of one language filled in."""

    name: str
    svg: str


Reference = Source | Pair | Value | Table | Plot | Figure | Place | Paper | Outcome


def scheme_of(target: str) -> str:
    """The scheme that `target` begins with; empty for an ordinary link.

    A word that is neither ours nor the web's is one too: whoever wrote `scr:`
    meant `src:`, and `Library.resolve` says so.
    """
    match = re.match(rf"({SCHEME_PATTERN}):", target)
    return match[1] if match else ""


class Library:
    """All that a reference can lead to, read once a build."""

    def __init__(self, project: Project):
        self.project = project
        self.sources = SourceTree(project)
        self._changes: dict[tuple[str, str], tuple[Change, ...]] = {}

    @cached_property
    def records(self) -> Mapping[tuple[str, str], Record]:
        return read_all(self.project)

    @cached_property
    def upstream(self) -> Upstream:
        return read_upstream(upstream_path(self.project))

    @cached_property
    def papers(self) -> Mapping[str, Paper]:
        return read_papers(papers_path(self.project))

    def resolve(self, target: str, language: str, optional: bool = False) -> Reference:
        """The thing that `target` stands for.

        `optional` allows a value or a plot whose job has never run.
        """
        scheme = scheme_of(target)
        rest = target.partition(":")[2]
        if scheme == "src":
            # First the mark, then the decoding: a name may hold %23.
            path, _, fragment = rest.partition("#")
            return Source(self._source(unquote(path)).span(unquote(fragment)))
        if scheme == "diff":
            return find_pair(target, self._source)
        if scheme == "result":
            return self._result(target, optional)
        if scheme == "figure":
            return self._figure(unquote(rest), language)
        if scheme == "up":
            return self.upstream.place(rest)
        if scheme == "cite":
            return find_paper(self.papers, rest)
        if scheme == "test":
            records, jobs = self.records.values(), self.project.jobs.jobs
            return find_test(rest, self.sources, records, jobs, self.changes)
        raise CodewalkError(f"{target}: no such scheme; {nearest(target, SCHEMES)}")

    def _source(self, address: str) -> SourceFile:
        """The file; only Python files have a page that a chip could lead to."""
        file = self.sources.file(address)
        if not file.name.endswith(".py"):
            raise CodewalkError(f"{address}: only Python files have a source page")
        return file

    def changes(self, record: Record) -> tuple[Change, ...]:
        """What has changed since `record` was taken; empty while it is fresh."""
        key = (record.device, record.job)
        if key not in self._changes:
            job = self.project.jobs.jobs.get(record.job)
            self._changes[key] = changes(self.project, record, job)
        return self._changes[key]

    def _result(self, target: str, optional: bool) -> Value | Table | Plot:
        query = _Query.parse(target)
        job = self.project.jobs.job(query.job)
        usual = "cpu" if job.needs == "cpu" else self.project.device
        device = query.options.get("device", usual)
        record = self.records.get((device, job.name))
        if record is None and not optional:
            ran = [d for d, name in self.records if name == job.name]
            raise CodewalkError(
                f"{target}: job {job.name} has no record for device {device}; "
                + (f"there is one for {', '.join(ran)}; " if ran else "")
                + f"run: codewalk run {job.name}"
            )
        gone = self.changes(record) if record else ()
        base = Result(job.name, device, record, gone)
        if "table" in query.options:
            return _table(base, query)
        if "x" in query.options:
            return _plot(base, query)
        return _value(base, query)

    def _figure(self, name: str, language: str) -> Figure:
        folder = self.project.root / self.project.figures
        known = [path.stem for path in folder.glob("*.svg")]
        if name not in known:
            raise CodewalkError(
                f"figure:{name}: no such figure; {nearest(name, known)}"
            )
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        words = _words(folder / f"{name}.toml", language)
        for key in re.findall(r"\{\{(.+?)\}\}", svg):
            if key not in words:
                raise CodewalkError(
                    f"figure:{name}: {name}.toml has no [{language}] {key!r}"
                )
        return Figure(
            name, re.sub(r"\{\{(.+?)\}\}", lambda m: _escape(words[m[1]]), svg)
        )


@dataclass(frozen=True)
class _Query:
    """A result reference, taken apart."""

    target: str
    job: str
    conditions: Mapping[str, tuple[str, ...]]
    options: Mapping[str, str]
    key: str

    @classmethod
    def parse(cls, target: str) -> "_Query":
        rest, _, key = target.partition(":")[2].partition("#")
        job, _, query = rest.partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError as error:
            raise CodewalkError(f"{target}: {error}") from None
        repeated = [name for name, _ in pairs if sum(n == name for n, _ in pairs) > 1]
        if repeated:
            raise CodewalkError(f"{target}: {repeated[0]!r} is given twice")
        return cls(
            target=target,
            job=unquote(job),
            conditions={n: tuple(v.split(",")) for n, v in pairs if n not in _RESERVED},
            options={n: v for n, v in pairs if n in _RESERVED},
            key=unquote(key),
        )

    def rows(self, record: Record) -> list[Row]:
        """The rows that meet all conditions; a condition must be able to fail."""
        columns = {name for row in record.rows for name in row.case}
        for name in self.conditions:
            if name not in columns:
                raise CodewalkError(
                    f"{self.target}: no column {name!r} in the cases of {self.job}; "
                    + nearest(name, columns)
                )
        found = [row for row in record.rows if self._meets(row)]
        for name, wanted in self.conditions.items():
            present = {
                written(row.case[name]) for row in record.rows if name in row.case
            }
            for text in wanted:
                if text not in present:
                    raise CodewalkError(
                        f"{self.target}: no row has {name}={text}; "
                        + nearest(text, present)
                    )
        if not found:
            raise CodewalkError(f"{self.target}: no row meets all of these conditions")
        return found

    def _meets(self, row: Row) -> bool:
        return all(
            name in row.case and written(row.case[name]) in wanted
            for name, wanted in self.conditions.items()
        )

    def option(self, name: str) -> str:
        if name not in self.options:
            raise CodewalkError(f"{self.target}: a plot needs {name}=")
        return self.options[name]


def written(value: Scalar) -> str:
    """A scalar as it is written in a reference: true, 64, 0.5, bf16."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(base: Result, query: _Query) -> Value:
    if not query.key:
        raise CodewalkError(f"{query.target}: says no value (…#name), x= or table=")
    if base.record is None:
        return Value(**vars(base), key=query.key)
    rows = query.rows(base.record)
    if len(rows) > 1:
        raise CodewalkError(
            f"{query.target}: {len(rows)} rows; they differ in {_differing(rows)}"
        )
    row = rows[0]
    known = {**row.case, **row.values}
    if row.status == MEASURED and query.key not in known:
        raise CodewalkError(
            f"{query.target}: no value {query.key!r}; {nearest(query.key, known)}"
        )
    return Value(**vars(base), key=query.key, row=row)


def _table(base: Result, query: _Query) -> Table:
    columns = tuple(query.options["table"].split(","))
    if base.record is None:
        return Table(**vars(base), columns=columns)
    rows = query.rows(base.record)
    known = {name for row in rows for name in (*row.case, *row.values)}
    for name in columns:
        if name not in known:
            raise CodewalkError(
                f"{query.target}: no column {name!r}; {nearest(name, known)}"
            )
    return Table(**vars(base), columns=columns, rows=tuple(rows))


def _plot(base: Result, query: _Query) -> Plot:
    x, y, by = (query.option(name) for name in ("x", "y", "by"))
    if base.record is None:
        return Plot(**vars(base), x=x, y=y, by=by)
    rows = query.rows(base.record)
    for name in (x, by):
        if any(name not in row.case for row in rows):
            known = {column for row in rows for column in row.case}
            raise CodewalkError(
                f"{query.target}: no column {name!r}; {nearest(name, known)}"
            )
    plot = Plot(**vars(base), x=x, y=y, by=by, rows=tuple(rows))
    _check_points(query, plot)
    return plot


def _check_points(query: _Query, plot: Plot) -> None:
    """One row a point, numbers along x, and y where something was measured."""
    points: dict[tuple[Scalar, Scalar], list[Row]] = {}
    for row in plot.rows:
        x, y = row.case[plot.x], row.values.get(plot.y)
        points.setdefault((x, row.case[plot.by]), []).append(row)
        if isinstance(x, bool | str):
            raise CodewalkError(f"{query.target}: {plot.x}={written(x)} is no number")
        if row.status == MEASURED and (y is None or isinstance(y, bool | str)):
            raise CodewalkError(
                f"{query.target}: no number {plot.y!r}; {nearest(plot.y, row.values)}"
            )
    for same in points.values():
        if len(same) > 1:
            raise CodewalkError(
                f"{query.target}: {len(same)} rows for one point; "
                f"they differ in {_differing(same)}"
            )


def _differing(rows: Sequence[Row]) -> str:
    """The columns, with their values, in which the cases differ."""
    names = dict.fromkeys(name for row in rows for name in row.case)
    parts = []
    for name in names:
        values = dict.fromkeys(written(row.case.get(name, "")) for row in rows)
        if len(values) > 1:
            parts.append(f"{name} ({', '.join(list(values)[:6])})")
    return "; ".join(parts)


def _words(path: Path, language: str) -> Mapping[str, str]:
    try:
        words = tomllib.loads(path.read_text(encoding="utf-8")).get(language)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CodewalkError(f"{path.name}: {error}") from None
    if not isinstance(words, dict):
        raise CodewalkError(f"{path.name}: no table [{language}]")
    return words


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
