"""From source back to prose: links to the sections that explain some lines."""

from collections.abc import Sequence

from codewalk.explained import Mention
from codewalk.regions import Region
from codewalk.render.page import Page
from codewalk.render.templating import fill
from codewalk.render.words import word
from codewalk.source import SourceFile

# More than these, and the margin leads to the page that lists them all.
_SHOWN = 3
# Beside longer lines there is no room for a note.
_COLUMNS = 78


def margin(page: Page, file: SourceFile, region: Region | None) -> str:
    """The sections that explain a region, or (None) the file as a whole."""
    mentions = page.explained.of(file.path, region)
    if not mentions:
        return ""
    address = page.library.sources.address(file.path)
    anchor = part_anchor(address, region.qualname if region else "")
    rest = len(mentions) - _SHOWN
    return fill(
        "margin.html",
        page.language,
        name=region.name if region else file.name,
        links=links(page, mentions[:_SHOWN]),
        beside=region is not None and _room(file, region, min(len(mentions), _SHOWN)),
        more=word("more", page.language, count=rest) if rest > 0 else "",
        more_href=page.links.to("coverage/") + f"#{anchor}",
    )


def links(page: Page, mentions: Sequence[Mention]) -> list[dict[str, object]]:
    """Each section as a link: the page's title, then the section's."""
    return [
        {
            "href": page.links.section(mention.url, mention.anchor),
            "page": mention.page,
            "section": mention.section,
            "shown": mention.shown,
        }
        for mention in mentions
    ]


def _room(file: SourceFile, region: Region, count: int) -> bool:
    """Whether the lines that a note of `count` sections stands beside are short."""
    rows = 2 * count + 3
    lines = file.lines[region.start - 1 : region.start - 1 + rows]
    return all(len(line) <= _COLUMNS for line in lines)


def part_anchor(address: str, qualname: str) -> str:
    """The id of a part, or of a file, on the page of what is explained."""
    return f"{address}:{qualname}" if qualname else address
