"""A page's text as sections: from one heading to the next, of any level.

In a notebook headings have no ids of their own, but its cells have: there each
Markdown cell is a section.
"""

import re
from dataclasses import dataclass, field

from codewalk.scan import Found, cleared, markdown_cells, references

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
# Where a cell begins in the JSON of a notebook, as far as that can be seen.
_CELL = re.compile(r"(?<!\\)\"cell_type\"\s*:")
_ID = re.compile(r"\s*\{:?[^}]*#([\w-]+)[^}]*\}\s*$")


@dataclass(frozen=True)
class Section:
    """Lines of a page, counted from 1, both ends included.

    `id` is the explicit one of the heading; empty for what stands before the
    first heading, and for a heading without one.
    """

    id: str
    title: str
    start: int
    end: int
    text: str
    found: list[Found] = field(default_factory=list)


def sections(text: str) -> list[Section]:
    """The sections of a page, in order, each with the references in it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    heads = [
        (text.count("\n", 0, match.start()) + 1, match[2])
        for match in _HEADING.finditer(cleared(text))
    ]
    starts = [(1, ""), *heads] if not heads or heads[0][0] > 1 else heads
    ends = [line - 1 for line, _ in starts[1:]] + [len(lines)]
    found = references(text)
    return [
        _section(lines, start, end, found)
        for (start, _), end in zip(starts, ends, strict=True)
    ]


def cell_sections(text: str) -> list[Section]:
    """The Markdown cells of a notebook as sections, each by the cell's id.

    Their title is the heading that they stand under, or begin with; their lines
    are counted in the notebook's file, as far as that has lines.
    """
    under, found = "", []
    lines = [text.count("\n", 0, m.start()) + 1 for m in _CELL.finditer(text)]
    for cell in markdown_cells(text):
        clear = cleared(cell.text)
        heads = [(match.start(), match[2]) for match in _HEADING.finditer(clear)]
        begins = heads and not clear[: heads[0][0]].strip()
        title = heads[0][1] if begins else under
        line = lines[cell.number - 1] if cell.number <= len(lines) else 0
        parts = references(cell.text)
        found.append(Section(cell.id, title, line, line, cell.text, parts))
        under = heads[-1][1] if heads else under
    return found


def repeated_ids(text: str) -> list[tuple[int, str]]:
    """The explicit ids that stand a second time: the line, and the id."""
    seen: set[str] = set()
    found = []
    for section in sections(text):
        if section.id in seen:
            found.append((section.start, section.id))
        seen |= {section.id} - {""}
    return found


def _section(lines: list[str], start: int, end: int, found: list[Found]) -> Section:
    heading = _HEADING.match(lines[start - 1])
    words = heading[2] if heading else ""
    identity = _ID.search(words)
    return Section(
        id=identity[1] if identity else "",
        title=_ID.sub("", words),
        start=start,
        end=end,
        text="\n".join(lines[start - 1 : end]),
        found=[one for one in found if start <= one.line <= end],
    )
