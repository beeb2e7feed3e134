"""Which sections of the pages speak of which lines of the source.

Read from the text of the pages, before any of them is rendered: a source page
shows the sections that explain it, whichever is made first.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from codewalk.errors import CodewalkError
from codewalk.pairs import Pair
from codewalk.references import (
    CODE_SCHEMES,
    Library,
    Reference,
    Source,
    scheme_of,
)
from codewalk.regions import Region
from codewalk.sections import Section, sections
from codewalk.source import Span

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"[`*$]|\{[^}]*\}\s*$")


@dataclass(frozen=True)
class Text:
    """A page as its author wrote it, and its address from the site's root."""

    url: str
    title: str  # empty: that of its first heading
    text: str


@dataclass(frozen=True)
class Mention:
    """A section that speaks of lines; `shown` where it also embeds them."""

    url: str
    page: str
    anchor: str
    section: str  # empty for what stands under the page's own title
    shown: bool


class Explained:
    """The mentions of every region, in the order of the pages."""

    def __init__(self, library: Library, texts: Iterable[Text]):
        self._found: dict[tuple[str, str], list[Mention]] = {}
        for text in texts:
            for key, mention in _mentions(library, text):
                known = self._found.setdefault(key, [])
                if mention not in known:
                    known.append(mention)

    @property
    def paths(self) -> list[str]:
        """The files that some page speaks of."""
        return sorted({path for path, _ in self._found})

    def of(self, path: str, region: Region | None) -> Sequence[Mention]:
        """Who speaks of a region, or (None) of a whole file; who shows it, first."""
        found = self._found.get((path, region.qualname if region else ""), [])
        shown = {(m.url, m.anchor) for m in found if m.shown}
        rest = [m for m in found if not m.shown and (m.url, m.anchor) not in shown]
        return [*(m for m in found if m.shown), *rest]


def _mentions(
    library: Library, text: Text
) -> Iterator[tuple[tuple[str, str], Mention]]:
    found = sections(text.text)
    title = text.title or next((plain(s.title) for s in found if s.title), text.url)
    for section in found:
        for one in section.found:
            if scheme_of(one.target) not in CODE_SCHEMES:
                continue
            try:
                span = _span(library.resolve(one.target, ""))
            except CodewalkError:
                continue  # reported where the page is rendered
            if span:
                key = span.file.path, span.region.qualname if span.region else ""
                yield key, _mention(text.url, title, section, one.target)


def _span(reference: Reference) -> Span | None:
    """The lines that a reference explains; of a difference, the new ones."""
    if isinstance(reference, Pair):
        return reference.new.span
    return reference.span if isinstance(reference, Source) else None


def _mention(url: str, title: str, section: Section, target: str) -> Mention:
    image = re.compile(rf"!\[[^\]]*\]\(\s*<?{re.escape(target)}[\s>)]")
    name = plain(section.title)
    return Mention(
        url=url,
        page=title,
        anchor=section.id,
        section="" if name == title else name,
        shown=bool(image.search(section.text)),
    )


def plain(title: str) -> str:
    """A heading's words without their Markdown."""
    return _MARKS.sub("", _LINK.sub(r"\1", title)).strip()
