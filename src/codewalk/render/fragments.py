"""What a reference becomes in a page: chips and embeds, values, figures."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence

from codewalk.citations import Paper
from codewalk.errors import CodewalkError
from codewalk.outcomes import Outcome
from codewalk.pairs import Pair
from codewalk.references import Figure, Plot, Reference, Source, Table, Value
from codewalk.regions import sentence
from codewalk.render import chips, diffs, place, results
from codewalk.render.code import has_name, line_html, plain_html
from codewalk.render.page import Page
from codewalk.render.templating import fill
from codewalk.render.words import line_range, spoken_range, word
from codewalk.source import Span
from codewalk.upstream.places import Place

_MAX_CONTEXT = 3
_ATTRIBUTES = {"src": ("mark", "context"), "result": ("optional",)}


def inline(page: Page, reference: Reference, words: str, short: bool = False) -> str:
    """A reference inside a line. `words` is HTML; `short` leaves out the file."""
    if isinstance(reference, Source):
        return _chip(page, reference.span, words, short)
    if isinstance(reference, Value):
        return results.value(page, reference)
    if isinstance(reference, Place | Paper | Outcome):
        return chips.chip(page, reference, words)
    raise CodewalkError(
        "this stands alone in its paragraph, as an image: ![caption](…)"
    )


def block(
    page: Page, reference: Reference, caption: str, attributes: Mapping[str, str]
) -> str:
    """A reference that is alone in its paragraph. `caption` is plain text."""
    if isinstance(reference, Source):
        return _embed(page, reference.span, caption, attributes)
    if isinstance(reference, Pair):
        return diffs.diff(page, reference, caption)
    if isinstance(reference, Table):
        return results.table(page, reference, caption)
    if isinstance(reference, Plot):
        return results.plot(page, reference, caption)
    if isinstance(reference, Figure):
        return _figure(page, reference, caption)
    if isinstance(reference, Value):
        raise CodewalkError("a value stands in a line, as a link: [](result:…)")
    raise CodewalkError("this stands in a line, as a link: [words](…)")


def check_attributes(scheme: str, attributes: Iterable[str]) -> None:
    """Refuses an attribute that means nothing for the scheme."""
    for name in attributes:
        known = _ATTRIBUTES.get(scheme, ())
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise CodewalkError(f"{scheme}: no attribute {name!r}; allowed: {allowed}")


def _chip(page: Page, span: Span, words: str, short: bool) -> str:
    lines = line_range(span.start, span.end, page.language)
    name = place.short_name(page, span.file)
    spoken = word("spoken-separator", page.language).join(
        [*([_text(words)] if words else []), name]
    )
    gap = " " if page.language == "zh" else ", "
    return fill(
        "chip.html",
        page.language,
        span=span,
        href=place.href(page, span),
        words=words,
        place=lines if short else f"{name} {lines}",
        label=spoken + gap + spoken_range(span.start, span.end, page.language),
    )


def _embed(page: Page, span: Span, caption: str, attributes: Mapping[str, str]) -> str:
    marks = attributes.get("mark", "").replace(",", " ").split()
    numbers = range(span.start, span.end + 1)
    for name in marks:
        if not any(has_name(span.file, number, name) for number in numbers):
            raise CodewalkError(f"mark={name!r}: these lines do not use that name")
    before, after = _context(span, attributes.get("context", "0"))
    region = span.region
    return fill(
        "embed.html",
        page.language,
        **place.head(page, span),
        span=span,
        cut_top=bool(region and region.kind == "step" and not before),
        cut_bottom=bool(region and region.kind == "step" and not after),
        before=[_context_line(span, number) for number in before],
        lines=[_line(span, number, marks) for number in numbers],
        after=[_context_line(span, number) for number in after],
        caption=caption or (sentence(region.text) if region else ""),
        # The step's own sentence is there to be read, in the first line.
        repeated=not caption,
    )


def _figure(page: Page, figure: Figure, caption: str) -> str:
    if re.search(r"<script|\son\w+\s*=|javascript:", figure.svg, re.IGNORECASE):
        raise CodewalkError(f"figure:{figure.name}: a figure may not hold scripts")
    svg = figure.svg[figure.svg.index("<svg") :]
    return fill(
        "figure.html", page.language, name=figure.name, svg=svg, caption=caption
    )


def _context(span: Span, wish: str) -> tuple[Sequence[int], Sequence[int]]:
    """The numbers of the lines before and after that give context."""
    if not wish.isdecimal() or int(wish) > _MAX_CONTEXT:
        raise CodewalkError(f"context={wish!r}: expected 0 to {_MAX_CONTEXT}")
    first = max(1, span.start - int(wish))
    last = min(len(span.file.lines), span.end + int(wish))
    return range(first, span.start), range(span.end + 1, last + 1)


def _line(span: Span, number: int, marks: Sequence[str]) -> dict[str, object]:
    return {
        "number": number,
        "html": line_html(span.file, number, span.indent, marks),
        "marked": any(has_name(span.file, number, name) for name in marks),
    }


def _context_line(span: Span, number: int) -> dict[str, object]:
    return {"number": number, "html": plain_html(span.file, number, span.indent)}


def _text(words: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", words))
