"""What has changed from one file to another, as an embed of the new lines."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codewalk.differences import GONE, NEW, SAME, Block, Difference, Row, blocks
from codewalk.pairs import Pair, Side
from codewalk.regions import sentence
from codewalk.render import place
from codewalk.render.code import line_html, plain_html
from codewalk.render.page import PANE_LINES, Page
from codewalk.render.templating import fill
from codewalk.render.words import spoken_range, word

_SIGNS = {SAME: "", GONE: "−", NEW: "+"}
_SPOKEN = {GONE: "removed", NEW: "added"}


@dataclass(frozen=True)
class Line:
    """A row as the page shows it; the numbers are those in the files, or None."""

    kind: str
    old: int | None
    new: int | None
    sign: str
    spoken: str  # the sign in words
    html: str


def diff(page: Page, pair: Pair, caption: str) -> str:
    """The figure. `caption` is plain text; empty: the step's own sentence."""
    difference, language = pair.difference, page.language
    side = pair.new if pair.new.span else pair.old
    span = side.span
    assert span  # a pair has one at least
    region = span.region
    head = dict(place.head(page, span))
    if pair.new.span is None:
        head["strip"] = []  # the steps of the old file, in which it is
    head["since"] = _since(page, pair, difference)
    found = list(blocks(difference.rows))
    return fill(
        "diff.html",
        language,
        **head,
        pair=pair,
        cut=bool(region and region.kind == "step"),
        long=sum(1 if b.fold else len(b.rows) for b in found) > PANE_LINES,
        blocks=[
            {
                "fold": block.fold,
                "summary": _summary(block, language),
                "lines": list(_lines(pair, block.rows, language)),
            }
            for block in found
        ],
        caption=caption or (sentence(region.text) if region else ""),
        repeated=not caption,
    )


def _lines(pair: Pair, rows: Sequence[Row], language: str) -> Iterator[Line]:
    for row in rows:
        old, new = _number(pair.old, row.old), _number(pair.new, row.new)
        yield Line(
            kind=row.kind,
            old=old,
            new=new,
            sign=_SIGNS[row.kind] if row.signed else "",
            spoken=word(_SPOKEN[row.kind], language) if row.signed else "",
            html=_html(pair, row, old, new),
        )


def _html(pair: Pair, row: Row, old: int | None, new: int | None) -> str:
    if new and pair.new.span:
        return line_html(pair.new.file, new, pair.new.span.indent, words=row.words)
    assert old
    assert pair.old.span
    return plain_html(pair.old.file, old, pair.old.span.indent, row.words)


def _number(side: Side, row: int | None) -> int | None:
    """The line of the file that a line of the part is."""
    return None if row is None or side.span is None else side.span.start + row


def _summary(block: Block, language: str) -> str:
    if block.fold == GONE:
        count = sum(row.signed for row in block.rows)
        return word("diff-fold-gone", language, count=count)
    return word("diff-fold-same", language, count=len(block.rows))


def _since(page: Page, pair: Pair, difference: Difference) -> str:
    """What has changed, in words; as HTML."""
    language = page.language
    if pair.new.span is None:
        what = _counted("diff-lines", difference.gone, language)
        return word("diff-gone", language, file=_link(page, pair.new), what=what)
    file = _link(page, pair.old)
    if pair.old.span is None:
        what = _counted("diff-lines", difference.new, language)
        return word("diff-new", language, file=file, what=what)
    said = [_changes(difference, language)]
    if difference.comments:
        said.append(_counted("diff-comments", difference.comments, language))
    for kind, old, new in (*pair.renames, *difference.renames):
        names = {"old": _name(old), "new": _name(new)}
        said.append(word(f"diff-renamed-{kind}", language, **names))
    what = word("diff-clause", language).join(said)
    return word("diff-since", language, file=file, what=what)


def _changes(difference: Difference, language: str) -> str:
    """`3 lines new, 2 changed, 4 gone`; what there is none of is left out."""
    counts = {
        "diff-part-new": difference.new,
        "diff-part-changed": difference.changed,
        "diff-part-gone": difference.gone,
    }
    parts: list[str] = []
    for key, count in counts.items():
        if count:
            number = _counted("diff-lines", count, language)
            if parts:
                number = word("diff-more", language, count=count)
            parts.append(word(key, language, number=number))
    return word("comma", language).join(parts) or word("diff-same", language)


def _counted(key: str, count: int, language: str) -> str:
    one = "-one" if count == 1 else ""
    return word(f"{key}{one}", language, count=count)


def _link(page: Page, side: Side) -> str:
    """A file's name; it leads to the part, or to the file where it has none."""
    name = html.escape(place.short_name(page, side.file))
    if side.span is None:
        address = page.library.sources.address(side.file.path)
        return f'<a href="{html.escape(page.links.source(address))}">{name}</a>'
    start, end = side.span.start, side.span.end
    spoken = spoken_range(start, end, page.language)
    gap = " " if page.language == "zh" else ", "
    link = html.escape(place.href(page, side.span))
    return f'<a href="{link}" aria-label="{name}{gap}{spoken}">{name}</a>'


def _name(name: str) -> str:
    return f"<b>{html.escape(name)}</b>"
