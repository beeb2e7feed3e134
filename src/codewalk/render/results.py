"""Values, tables and plots of recorded runs, each with its provenance."""

from collections.abc import Sequence
from dataclasses import dataclass

from codewalk.config import Column
from codewalk.records import MEASURED, Change, Record, Row, Scalar
from codewalk.references import Plot, Result, Table, Value, written
from codewalk.render import value_card
from codewalk.render.charts import Axis, Point, Series, line_chart
from codewalk.render.numbers import number, shown
from codewalk.render.page import Page
from codewalk.render.templating import fill
from codewalk.render.words import word

# A chart is drawn twice, because shrinking one would shrink its words: for the
# text measure, and for a phone (PAGES: 620 and 358 px); CSS shows one of them.
_WIDE, _NARROW = 620, 358


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and how it stands."""

    text: str
    number: bool = False
    reason: bool = False
    unit: str = ""


@dataclass(frozen=True)
class TableRow:
    cells: tuple[Cell, ...]
    id: str = ""


def value(page: Page, found: Value) -> str:
    """One value in a line of text."""
    common = {"job": found.job, "device": found.device, "key": found.key}
    if found.record is None or found.row is None:
        return fill(
            "missing_value.html", page.language, **common, reason=_missing(page, found)
        )
    column = page.project.jobs.column(found.key)
    if found.state == "unmeasured":
        text = _reason(found.row, page.language)
    else:
        text = shown(found.scalar, column, page.language)
    age = _age(page, found)
    return fill(
        "value.html",
        page.language,
        **common,
        state=found.state,
        href=page.links.record(found.device, found.job, found.row.index),
        title=_title(page, found, found.row, column),
        card=value_card.card(
            page,
            found.record,
            found.row,
            value=text,
            spread=spread_of(found.row, column),
            repeats=found.row.values.get(column.repeats),
            machine=machine(found.record),
            age=age,
        ),
        text=text,
        age=word("old", page.language) if age else "",
        print=_provenance(found.record) if page.first_value() else "",
    )


def table(page: Page, found: Table, caption: str) -> str:
    """The rows as a table of the columns asked for."""
    if found.record is None:
        return _none(page, found, caption)
    columns = [page.project.jobs.column(name) for name in found.columns]
    rows = [TableRow(tuple(cell(row, c, page) for c in columns)) for row in found.rows]
    return _result_figure(
        page, found, caption, heads(columns, rows, page.language), rows
    )


def plot(page: Page, found: Plot, caption: str) -> str:
    """The rows as a line chart, with its table one click away."""
    if found.record is None:
        return _none(page, found, caption)
    jobs = page.project.jobs
    x, y = jobs.column(found.x), jobs.column(found.y)
    series = [
        _series(page, found, name, place) for place, name in enumerate(found.names)
    ]
    title = f"{y.title(page.language)}, {y.unit}" if y.unit else y.title(page.language)
    x_label = x.title(page.language)
    if x.scale == "log2":
        x_label += f", {word('log-scale', page.language)}"
    drawings = [
        line_chart(
            series,
            x=Axis(x_label, x.unit, log2=x.scale == "log2"),
            y=Axis(y.title(page.language), y.unit),
            title=caption or title,
            description=_spoken(page, found, series),
            old_word=word("old", page.language),
            width=width,
        )
        for width in (_WIDE, _NARROW)
    ]
    better = f" · {word(y.better, page.language)}" if y.better else ""
    head, rows = _plot_table(page, found, series)
    return fill(
        "plot.html",
        page.language,
        **_common(page, found),
        title=title + better,
        label=caption or title,
        table_label=f"{caption or title}: {word('table', page.language)}",
        wide=drawings[0],
        narrow=drawings[1],
        head=head,
        rows=rows,
        caption=caption,
    )


def heads(
    columns: Sequence[Column], rows: Sequence[TableRow], language: str
) -> list[Cell]:
    """The head of a table: a column of numbers stands to the right."""
    return [
        Cell(
            column.title(language),
            number=any(row.cells[place].number for row in rows),
            unit=column.unit,
        )
        for place, column in enumerate(columns)
    ]


def cell(row: Row, column: Column, page: Page, spread: bool = False) -> Cell:
    """What a row has in a column: a value, a reason, or nothing.

    `spread` puts the lowest and the highest value behind it, where it has them.
    """
    found: Scalar | None = row.case.get(column.name, row.values.get(column.name))
    if found is None:
        if row.status == MEASURED:
            return Cell("")
        return Cell(_reason(row, page.language), reason=True)
    style = page.project.jobs.series.get(column.name, {}).get(written(found))
    if style:
        return Cell(style.label)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    text = shown(found, column, page.language, unit=False)
    around = spread_of(row, column) if spread else None
    return Cell(f"{text} ({'–'.join(around)})" if around else text, number=is_number)


def spread_of(row: Row, column: Column) -> tuple[str, str] | None:
    """The lowest and the highest value of a column, where the row has them."""
    low, high = row.values.get(column.low), row.values.get(column.high)
    if isinstance(low, int | float) and isinstance(high, int | float):
        return number(low, column.digits), number(high, column.digits)
    return None


def staleness(record: Record, gone: Sequence[Change], language: str) -> str:
    """Since when a record is old, in words; empty while it is current."""
    if not gone:
        return ""
    change = gone[0]
    key = "gone" if change.gone else "added" if change.added else "since"
    when = change.when or word("uncommitted", language)
    if when == "unknown":
        when = word("unknown", language)
    day = record.started[:10]
    return word(f"stale-{key}", language, day=day, path=change.path, when=when)


def machine(record: Record) -> str:
    """The device's name for a reader."""
    return str(record.machine.get("name", record.device))


def _series(page: Page, found: Plot, name: Scalar, place: int) -> Series:
    style = page.project.jobs.series.get(found.by, {}).get(written(name))
    column = page.project.jobs.column(found.by)
    rows = [row for row in found.rows if row.case[found.by] == name]
    rows.sort(key=lambda row: float(row.case[found.x]))
    return Series(
        name=written(name),
        label=style.label if style else shown(name, column, page.language),
        style=style.style if style else f"peer-{place % 3 + 1}",
        points=tuple(_point(page, found, row) for row in rows),
        stale=found.stale,
    )


def _point(page: Page, found: Plot, row: Row) -> Point:
    column = page.project.jobs.column(found.y)
    x = float(row.case[found.x])
    if row.status != MEASURED:
        return Point(x, None, None, None, _reason(row, page.language))
    return Point(
        x,
        float(row.values[found.y]),
        _optional(row, column.low),
        _optional(row, column.high),
    )


def _optional(row: Row, name: str) -> float | None:
    return float(row.values[name]) if name in row.values else None


def _plot_table(
    page: Page, found: Plot, series: Sequence[Series]
) -> tuple[list[Cell], list[TableRow]]:
    x, y = page.project.jobs.column(found.x), page.project.jobs.column(found.y)
    places = sorted({point.x for one in series for point in one.points})
    head = [Cell(x.title(page.language), number=True, unit=x.unit)]
    head += [Cell(one.label, number=True) for one in series]
    rows = []
    for place in places:
        cells = [
            Cell(
                number(int(place) if place.is_integer() else place, x.digits),
                number=True,
            )
        ]
        for one in series:
            point = next((p for p in one.points if p.x == place), None)
            if point is None:
                cells.append(Cell(""))
            elif point.y is None:
                cells.append(Cell(point.reason, reason=True))
            else:
                cells.append(Cell(number(point.y, y.digits), number=True))
        rows.append(TableRow(tuple(cells)))
    return head, rows


def _spoken(page: Page, found: Plot, series: Sequence[Series]) -> str:
    """The chart's first sentence for someone who does not see it."""
    x, y = page.project.jobs.column(found.x), page.project.jobs.column(found.y)
    last = max(point.x for one in series for point in one.points)
    parts = []
    for one in series:
        point = next((p for p in one.points if p.x == last), None)
        if point is not None and point.y is not None:
            parts.append(f"{one.label} {number(point.y, y.digits)}")
    place = f"{x.title(page.language)} {number(int(last), None)}"
    return f"{word('at', page.language, x=place)}: {', '.join(parts)} {y.unit}".strip()


def _result_figure(
    page: Page, found: Table, caption: str, head: list[Cell], rows: list[TableRow]
) -> str:
    return fill(
        "result_table.html",
        page.language,
        **_common(page, found),
        head=head,
        rows=rows,
        label=caption,
        caption=caption,
    )


def _common(page: Page, found: Result) -> dict[str, object]:
    record = found.record
    assert record is not None  # callers have handled the missing one
    age = _age(page, found)
    return {
        "job": found.job,
        "device": found.device,
        "state": "stale" if age else "fresh",
        "href": page.links.record(found.device, found.job),
        "provenance": _provenance(record),
        "age": age,
    }


def _provenance(record: Record) -> str:
    return f"{machine(record)}, {record.started[:10]}"


def _age(page: Page, found: Result) -> str:
    """The words for an old result; the page is told, for its note at the top."""
    if found.record is None:
        return ""
    words = staleness(found.record, found.changes, page.language)
    if words:
        page.stale.append(words)
    return words


def _title(page: Page, found: Value, row: Row, column: Column) -> str:
    record = found.record
    assert record is not None  # only called for a value that exists
    parts = [
        word(
            "measured", page.language, day=record.started[:10], machine=machine(record)
        )
    ]
    if row.status != MEASURED and row.reason:
        parts.append(row.reason)
    around = spread_of(row, column)
    if around:
        parts.append(word("spread", page.language, low=around[0], high=around[1]))
    parts.append(" · ".join(f"{name} {written(v)}" for name, v in row.case.items()))
    age = staleness(record, found.changes, page.language)
    return "\n".join([*parts, *([age] if age else [])])


def _reason(row: Row, language: str) -> str:
    return word(row.status, language)


def _missing(page: Page, found: Result) -> str:
    return word("missing", page.language, device=found.device, job=found.job)


def _none(page: Page, found: Result, caption: str) -> str:
    return fill(
        "missing.html",
        page.language,
        job=found.job,
        device=found.device,
        reason=_missing(page, found),
        caption=caption,
    )
