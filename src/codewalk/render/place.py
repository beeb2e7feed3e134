"""How a page says where lines of source stand, and leads there."""

from collections.abc import Mapping

from codewalk.render.page import Page
from codewalk.render.strip import strip
from codewalk.render.words import line_range, word
from codewalk.source import SourceFile, Span


def short_name(page: Page, file: SourceFile) -> str:
    """The file's name; with its folder where the book has two of that name."""
    address = page.library.sources.address(file.path)
    return address if page.library.sources.ambiguous(file.name) else file.name


def href(page: Page, span: Span) -> str:
    """The link to these lines on the file's source page."""
    address = page.library.sources.address(span.file.path)
    return page.links.source(address, span.start, span.end)


def head(page: Page, span: Span) -> Mapping[str, object]:
    """What the head of an embed says: where its lines are, and what links there."""
    crumbs = _crumbs(span)
    name = short_name(page, span.file)
    lines = line_range(span.start, span.end, page.language)
    return {
        "id": page.next_id(),
        "name": name,
        "crumbs": crumbs,
        "strip": strip(page, span),
        "strip_label": word("steps-of", page.language, name="".join(crumbs[:1])),
        "href": href(page, span),
        "range": lines,
        "repository": page.repository.permalink(
            span.file.path, span.start, span.end
        ).url,
        "label": f"{name} {lines}",
        "since": "",
    }


def _crumbs(span: Span) -> list[str]:
    """The names around a region, from the outermost in, and its own."""
    if span.region is None:
        return []
    return [r.name for r in (*span.file.enclosing(span.region), span.region)]
