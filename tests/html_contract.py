"""Reads built HTML by the contract of its attributes, and by nothing else.

It knows no class or function of the generator, so that what it finds wrong is
wrong for a reader too.
"""

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

    @property
    def spoken(self) -> str:
        """The text that assistive technology has: without what is hidden from it."""
        return " ".join("".join(self._heard()).split())

    def _heard(self) -> Iterator[str]:
        for part in self.inside if self.get("aria-hidden") != "true" else ():
            if isinstance(part, str):
                yield part
            else:
                yield from part._heard()

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
    filled = [line for line in lines if line.strip()]
    width = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    return [line[width:] if line.strip() else line.lstrip(" ") for line in lines]
