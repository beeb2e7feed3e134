"""What the card of a value says, as the data that the page's script shows."""

import json
import shlex

from codewalk.config import Column
from codewalk.records import Record, Row, Scalar
from codewalk.references import written
from codewalk.render.numbers import shown
from codewalk.render.page import Page
from codewalk.render.words import word


def card(
    page: Page,
    record: Record,
    row: Row,
    *,
    value: str,
    spread: tuple[str, str] | None,
    repeats: Scalar | None,
    machine: str,
    age: str,
) -> str:
    """The facts in words: a script puts each on its line, and needs no request."""
    state = age or word("fresh", page.language)
    facts = {
        "value": value,
        "spread": _spread(page, spread, repeats),
        "run": " · ".join([machine, record.started[:10], *_commit(page, record)]),
        "conditions": " · ".join(_condition(page, n, v) for n, v in row.case.items()),
        "command": shlex.join(record.command),
        "state": f"{row.reason}; {state}" if row.reason else state,
        "fresh": not age,
    }
    return json.dumps(facts, ensure_ascii=False)


def _spread(page: Page, spread: tuple[str, str] | None, repeats: Scalar | None) -> str:
    parts = []
    if repeats is not None:
        parts.append(word("median-of", page.language, count=written(repeats)))
    if spread:
        parts.append(word("spread", page.language, low=spread[0], high=spread[1]))
    return word("comma", page.language).join(parts)


def _commit(page: Page, record: Record) -> list[str]:
    commit = record.software.get("commit", "")
    words = f"{word('commit', page.language)} {written(commit)[:12]}"
    return [words] if commit else []


def _condition(page: Page, name: str, value: Scalar) -> str:
    jobs = page.project.jobs
    column: Column = jobs.column(name)
    style = jobs.series.get(name, {}).get(written(value))
    if style:
        return style.label
    words = shown(value, column, page.language)
    return words if column.values else f"{column.title(page.language)} {words}"
