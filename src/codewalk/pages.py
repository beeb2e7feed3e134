"""The pages that exist only in the build: the source files and the records."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codewalk.config import Column
from codewalk.errors import CodewalkError
from codewalk.records import MEASURED, Record, Row, Scalar
from codewalk.references import written
from codewalk.regions import Region, nest
from codewalk.render.code import lines_html
from codewalk.render.explained import margin
from codewalk.render.links import line_anchor, row_anchor
from codewalk.render.numbers import shown
from codewalk.render.page import Page
from codewalk.render.results import Cell, TableRow, cell, heads, machine, staleness
from codewalk.render.templating import fill
from codewalk.render.words import word
from codewalk.source import SourceFile

# The job that takes the steps of kernels away, one by one.
_STEPS_JOB = ("cpu", "steps")

# Longer tables open on demand.
_LONG = 60


def source_page(page: Page, file: SourceFile) -> str:
    """A source file with its lines, regions and outline."""
    nodes = nest(file.regions)
    permalink = page.repository.permalink(file.path, 1, max(1, len(file.lines)))
    return fill(
        "source_page.html",
        page.language,
        file=file,
        lines=word("file-lines", page.language, count=len(file.lines)),
        repository=permalink,
        outline=fill("outline.html", page.language, nodes=nodes) if nodes else "",
        whole=_whole(file),
        explained=margin(page, file, None),
        code="".join(_code(page, file, _missed(page, file))),
    )


def source_index(page: Page) -> str:
    """All source files, by folder, each with the first line of its docstring."""
    sources = page.library.sources
    folders: dict[str, list[dict[str, str]]] = {}
    for path in sources.paths():
        try:
            file = sources.read(path)
            lead = _lead(file.docstring)
        except CodewalkError:
            continue  # reported when the build looked for files
        folder = file.path.rpartition("/")[0]
        href = page.links.source(sources.address(file.path))
        entry = {"name": file.name, "href": href, "lead": lead}
        folders.setdefault(folder, []).append(entry)
    return fill("source_index.html", page.language, folders=list(folders.items()))


def record_page(page: Page, record: Record) -> str:
    """A record: its provenance, its rows, its inputs."""
    language = page.language
    took = word("took", language, seconds=round(record.seconds))
    return fill(
        "record_page.html",
        language,
        title=record_title(page, record),
        record=record,
        age=staleness(record, page.library.changes(record), language),
        machine=_facts(record.machine),
        software=_facts(record.software),
        took=took,
        parts=_parts(page, record),
        inputs_title=word("inputs", language, count=len(record.inputs)),
        input_head=[Cell(word("input", language)), Cell(word("digest", language))],
        inputs=[
            TableRow((Cell(path), Cell(digest[:16])))
            for path, digest in sorted(record.inputs.items())
        ],
        listings=list(record.listings),
    )


def results_index(page: Page) -> str:
    """All records, by device."""
    groups: dict[str, list[dict[str, str]]] = {}
    order = {name: place for place, name in enumerate(page.project.jobs.jobs)}
    records = sorted(
        page.library.records.items(),
        key=lambda item: (item[0][0] == "cpu", order.get(item[0][1], len(order))),
    )
    for (device, job), record in records:
        entry = {
            "device": device,
            "title": record_title(page, record),
            "href": page.links.record(device, job),
            "started": record.started,
            "age": staleness(record, page.library.changes(record), page.language),
        }
        groups.setdefault(machine(record), []).append(entry)
    return fill("results_index.html", page.language, groups=list(groups.items()))


def record_title(page: Page, record: Record) -> str:
    """The job's title in the page's language."""
    job = page.project.jobs.jobs.get(record.job)
    return job.title.get(page.language, record.job) if job else record.job


def _missed(page: Page, file: SourceFile) -> Mapping[str, str]:
    """For each step that a job took away, which tests miss it; as HTML."""
    record = page.library.records.get(_STEPS_JOB)
    if record is None:
        return {}
    address = page.library.sources.address(file.path)
    stale = bool(page.library.changes(record))
    return {
        str(row.case["step"]): _missing_tests(page, row, stale)
        for row in record.rows
        if row.case.get("file") == address and row.status == MEASURED
    }


def _missing_tests(page: Page, row: Row, stale: bool) -> str:
    """How many tests fail without a step, and the most telling one of them."""
    path, _, test = str(row.values["first"]).partition("::")
    try:
        span = page.library.sources.file(path).span(test.replace("::", "."))
        href = page.links.source(path, span.start, span.end)
    except CodewalkError:
        href = ""  # it has gone since
    failing = row.values["tests_failing"]
    words = {0: "missed-by-none", 1: "missed-by-one"}.get(int(failing), "missed-by")
    return fill(
        "missed.html",
        page.language,
        step=row.case["step"],
        failing=failing,
        test=test,
        href=href,
        stale=stale,
        text=word(words, page.language, failing=failing, ran=row.values["tests_run"]),
    )


def _code(page: Page, file: SourceFile, missed: Mapping[str, str]) -> Iterator[str]:
    """The lines, inside elements that a browser can land on."""
    short = {region: name for name, region in file.addresses.items()}
    starts: dict[int, list[Region]] = {}
    ends: dict[int, int] = {}
    for region in file.regions:
        starts.setdefault(region.start, []).append(region)
        ends[region.end] = ends.get(region.end, 0) + 1
    landed: set[str] = set()
    for line, text in enumerate(lines_html(file), 1):
        for region in starts.get(line, ()):
            address = short.get(region, region.qualname)
            yield _opening(region, address, landed)
            yield margin(page, file, region)
            if region.kind == "step":
                yield missed.get(address, "")
        yield f'<span class="cw-line" id="L{line}">{text}\n</span>'
        yield "</span>" * ends.get(line, 0)


def _whole(file: SourceFile) -> str:
    """The anchor where a chip of the whole file lands; empty where a region has it."""
    anchor = line_anchor(1, max(1, len(file.lines)))
    taken = (line_anchor(region.start, region.end) for region in file.regions)
    return "" if anchor in taken else anchor


def _opening(region: Region, short: str, landed: set[str]) -> str:
    """The opening of a region's element, with its ids; an id is given once."""
    anchor = line_anchor(region.start, region.end)
    identity = "" if anchor in landed else f' id="{anchor}"'
    landed.add(anchor)
    names = dict.fromkeys((short, region.qualname))
    marks = "".join(f'<span class="cw-anchor" id="{name}"></span>' for name in names)
    return f'<span class="cw-region"{identity} data-name="{region.name}">{marks}'


def _lead(docstring: str) -> str:
    """The first line of a file's docstring, as HTML."""
    line = html.escape(docstring.partition("\n")[0], quote=False)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", line)


def _facts(facts: Mapping[str, Scalar]) -> str:
    """`name 1 · name 2`, without what says nothing."""
    return " · ".join(f"{name} {written(v)}" for name, v in facts.items() if v != "")


@dataclass(frozen=True)
class _Part:
    """Rows that have the same columns, as one table.

    `common` is what all rows share, in words; the table leaves it out.
    """

    common: str
    head: list[Cell]
    rows: list[TableRow]
    summary: str


def _parts(page: Page, record: Record) -> list[_Part]:
    """The rows, one table for each set of case columns, short tables first."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in record.rows:
        groups.setdefault(tuple(row.case), []).append(row)
    return [_part(page, rows) for rows in sorted(groups.values(), key=len)]


def _part(page: Page, rows: Sequence[Row]) -> _Part:
    jobs, language = page.project.jobs, page.language
    shared = _shared(rows)
    names = dict.fromkeys(name for row in rows for name in (*row.case, *row.values))
    columns = [jobs.column(name) for name in names if name not in shared]
    spreads = {name for column in columns for name in (column.low, column.high)}
    columns = [column for column in columns if column.name not in spreads]
    table = [
        TableRow(
            tuple(cell(row, column, page, spread=True) for column in columns),
            row_anchor(row.index),
        )
        for row in rows
    ]
    long = len(rows) > _LONG
    return _Part(
        common=" · ".join(
            _fact(jobs.column(n), v, language) for n, v in shared.items()
        ),
        head=heads(columns, table, language),
        rows=table,
        summary=word("rows", language, count=len(rows)) if long else "",
    )


def _shared(rows: Sequence[Row]) -> Mapping[str, Scalar]:
    """What is the same in the case of every row, where there is more than one."""
    if len(rows) == 1:
        return {}
    first = rows[0].case
    return {n: v for n, v in first.items() if all(row.case[n] == v for row in rows)}


def _fact(column: Column, value: Scalar, language: str) -> str:
    return f"{column.title(language)} {shown(value, column, language)}"
