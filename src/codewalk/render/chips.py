"""Chips of the other kinds: another project's lines, a paper, a test."""

from urllib.parse import quote

from codewalk.citations import Paper
from codewalk.outcomes import FAILED, NOT_RUN, PASSED, Outcome
from codewalk.render.page import Page
from codewalk.render.results import machine, staleness
from codewalk.render.templating import fill
from codewalk.render.words import line_range, spoken_range, word
from codewalk.upstream.places import Place

_MARKS = {PASSED: "✓", FAILED: "✗", NOT_RUN: "○"}


def chip(page: Page, reference: Place | Paper | Outcome, words: str) -> str:
    """The reference inside a line. `words` is HTML."""
    if isinstance(reference, Place):
        return _upstream(page, reference, words)
    if isinstance(reference, Paper):
        return _citation(page, reference, words)
    return _test(page, reference, words)


def blob_url(place: Place) -> str:
    """The place on GitHub, at its commit."""
    lines = f"#L{place.start_line}"
    if place.end_line != place.start_line:
        lines += f"-L{place.end_line}"
    repo, path = place.project.repo, quote(place.path)
    return f"https://github.com/{repo}/blob/{place.commit}/{path}{lines}"


def _upstream(page: Page, place: Place, words: str) -> str:
    start, end = place.start_line, place.end_line
    gap = " " if page.language == "zh" else ", "
    named = _spoken(page, place.project.name, place.name)
    return fill(
        "upstream_chip.html",
        page.language,
        place=place,
        href=blob_url(place),
        words=words,
        file=f"{place.project.label} · {place.name}",
        lines=line_range(start, end, page.language),
        spoken=named + gap + spoken_range(start, end, page.language),
    )


def _citation(page: Page, paper: Paper, words: str) -> str:
    return fill(
        "citation.html",
        page.language,
        paper=paper,
        href=page.links.references(paper.id),
        words=words,
        mark=f"[{paper.short(page.language)}]",
    )


def _test(page: Page, test: Outcome, words: str) -> str:
    language = page.language
    ages = [staleness(record, gone, language) for record, gone in test.stale]
    page.stale.extend(ages)
    names = dict.fromkeys(machine(record) for record in test.records)
    devices = word("list-separator", language).join(names)
    said = [word(f"test-{test.outcome}", language, devices=devices)]
    if ages:
        said.append(word("test-old", language))
    address = page.library.sources.address(test.span.file.path)
    return fill(
        "test_chip.html",
        language,
        test=test,
        devices=" ".join(test.devices),
        href=page.links.source(address, test.span.start, test.span.end),
        words=words,
        mark=_MARKS[test.outcome],
        age=word("old", language) if ages else "",
        title="\n".join([test.node, said[0], *ages]),
        spoken=_spoken(page, test.name, *said),
    )


def _spoken(page: Page, *parts: str) -> str:
    """What a screen reader says after the visible words."""
    return word("spoken-separator", page.language).join(parts)
