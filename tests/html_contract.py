"""Reads built HTML by the contract of its attributes, and by nothing else.

It knows no class or function of the generator, so that what it finds wrong is
wrong for a reader too.
"""

import io
import os
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"}
    | {"source", "track", "wbr"}
)


@dataclass
class Element:
    """An element with what is inside it, in order: texts and elements."""

    tag: str
    attributes: dict[str, str]
    inside: list["Element | str"] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")

    @property
    def classes(self) -> list[str]:
        return self.get("class").split()

    @property
    def text(self) -> str:
        parts = (p if isinstance(p, str) else p.text for p in self.inside)
        return "".join(parts)

    def all(self) -> Iterator["Element"]:
        """Every element below this one, in the order of the document."""
        for part in self.inside:
            if isinstance(part, Element):
                yield part
                yield from part.all()

    def with_class(self, name: str) -> list["Element"]:
        return [element for element in self.all() if name in element.classes]

    def with_attribute(self, name: str) -> list["Element"]:
        return [element for element in self.all() if name in element.attributes]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(element)

    def handle_endtag(self, tag: str) -> None:
        if any(element.tag == tag for element in self.open[1:]):
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def read(text: str) -> Element:
    """The document as a tree."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.root


def shown_lines(embed: Element) -> dict[int, str]:
    """The lines of an embed: the number that each claims, and its text."""
    return {
        int(line["data-line"]): line.text.removesuffix("\n")
        for line in embed.with_attribute("data-line")
    }


def lines_of_file(text: str) -> list[str]:
    """A source file's lines, as Python counts them."""
    normal = text.replace("\r\n", "\n").replace("\r", "\n")
    return normal.removesuffix("\n").split("\n")


def dedented(lines: list[str]) -> list[str]:
    """Lines without the indentation that all of them (blank ones aside) share."""
    width = _indent(lines)
    return [line[width:] if line.strip() else line.lstrip(" ") for line in lines]


def _indent(lines: list[str]) -> int:
    filled = [line for line in lines if line.strip()]
    blanks = [line[: len(line) - len(line.lstrip())] for line in filled]
    return len(os.path.commonprefix(blanks))  # noqa: RUF071 (letters are meant)


def code_of(text: str) -> list[str]:
    """A Python file's lines without comments and white space at their ends."""
    lines = lines_of_file(text)
    code = [line.rstrip() for line in lines]
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        (first, column), (last, _) = token.start, token.end
        if token.type == tokenize.COMMENT:
            code[first - 1] = lines[first - 1][:column].rstrip()
        for number in range(first, last):  # a string that goes on
            code[number - 1] = lines[number - 1]
    return code


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff: the numbers that it claims, 0 for none, and its text."""

    old: int
    new: int
    text: str


def diff_lines(figure: Element) -> list[DiffLine]:
    """All lines of a diff, in order; those that are folded, too."""
    return [
        DiffLine(
            int(e.get("data-old-line") or 0),
            int(e.get("data-line") or 0),
            e.text.removesuffix("\n"),
        )
        for e in figure.all()
        if {"data-line", "data-old-line"} & e.attributes.keys()
    ]


def check_diff(figure: Element, old: str, new: str) -> None:
    """Fails where a diff shows what is not so, given the texts of both files.

    Comments and blank lines of the old file may be left out, and nothing else.
    """
    then, then_code = _part(figure, "data-old-", old)
    now, now_code = _part(figure, "data-", new)
    lines = diff_lines(figure)
    for line in lines:
        assert line.text == (now[line.new] if line.new else then[line.old]), line
        if line.old and line.new:
            assert then_code[line.old] == now_code[line.new], line
    assert [line.new for line in lines if line.new] == list(now)
    shown = [line.old for line in lines if line.old]
    assert shown == sorted(set(shown))
    assert not [n for n in then if n not in shown and then_code[n].strip()]
    # What is gone is taken away, what is new is put in: that is the new file.
    applied = [
        then_code[line.old] if line.old else now_code[line.new]
        for line in lines
        if line.new
    ]
    assert applied == list(now_code.values())


def _part(
    figure: Element, prefix: str, text: str
) -> tuple[dict[int, str], dict[int, str]]:
    """One side of a diff by number: its lines, and their code."""
    start, end = int(figure[f"{prefix}start"]), int(figure[f"{prefix}end"])
    lines = lines_of_file(text)[start - 1 : end]
    code = code_of(text)[start - 1 : end]
    cut = _indent(lines)
    numbers = range(start, end + 1)
    return (
        dict(zip(numbers, dedented(lines), strict=True)),
        dict(zip(numbers, (line[cut:] for line in code), strict=True)),
    )
