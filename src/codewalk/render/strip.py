"""The outline strip: the steps of a function, in order and to scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codewalk.regions import Region
from codewalk.render.page import Page
from codewalk.render.words import word
from codewalk.source import Span


@dataclass(frozen=True)
class Segment:
    """A step: how many lines are its own, where it leads, how it is called."""

    lines: int
    href: str
    label: str
    current: bool
    inside: bool  # it is shown, as a part of the current one
    near: bool  # the keyboard goes to the current one and its neighbours


def strip(page: Page, span: Span) -> list[Segment]:
    """The steps of the function that `span` is of; none for other lines.

    A step leads to the section of this page that shows it, if there is one.
    """
    region = span.region
    if page.walk is None or region is None:
        return []
    function = region.function or region.qualname
    steps = [r for r in span.file.regions if r.function == function]
    here = steps.index(region) if region in steps else 0
    return [
        Segment(
            lines=_own_lines(steps, place),
            href=_href(page, page.walk, span, step),
            label=word(
                "step-of",
                page.language,
                place=place + 1,
                count=len(steps),
                name=step.name,
            ),
            current=step == region,
            inside=span.start <= step.start and step.end <= span.end,
            near=abs(place - here) <= 1,
        )
        for place, step in enumerate(steps)
    ]


def _own_lines(steps: Sequence[Region], place: int) -> int:
    """The lines of a step up to the next one, which may be inside it."""
    step = steps[place]
    following = steps[place + 1].start if place + 1 < len(steps) else step.end + 1
    return min(following, step.end + 1) - step.start


def _href(
    page: Page, shown: Mapping[tuple[str, str], str], span: Span, step: Region
) -> str:
    anchor = shown.get((span.file.path, step.qualname))
    if anchor:
        return f"#{anchor}"
    address = page.library.sources.address(span.file.path)
    return page.links.source(address, step.start, step.end)
