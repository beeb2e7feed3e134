"""The walk layout: every section an element, so that its code can stand beside it.

CSS does the rest. There is one copy of the code, in the order of the text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from codewalk.render.page import Page
from codewalk.render.templating import fill
from codewalk.source import Span


def anchors(
    sections: Iterable[tuple[Element, Sequence[Span]]],
) -> Mapping[tuple[str, str], str]:
    """Where on the page a region is embedded: the id of the section's heading."""
    found: dict[tuple[str, str], str] = {}
    for heading, embeds in sections:
        for span in embeds:
            region, anchor = span.region, heading.get("id", "")
            if region and anchor:
                found.setdefault((span.file.path, region.qualname), anchor)
    return found


def wrap(root: Element, sections: Sequence[Sequence[Element]]) -> None:
    """Puts each section of the page into an element; footnotes stay outside."""
    for section in sections:
        inside = [child for child in section if child.get("class") != "footnote"]
        if not inside:
            continue
        place = list(root).index(inside[0])
        for child in inside:
            root.remove(child)
        element = Element("section", {"class": "cw-walk"})
        element.extend(inside)
        element.tail = "\n"
        root.insert(place, element)


def add_contents(root: Element, html: str) -> None:
    """Puts `html`, or what stands for it, under the page's title."""
    for parent in root.iter():
        for place, child in enumerate(parent):
            if child.tag == "h1":
                paragraph = Element("p")
                paragraph.text = html
                paragraph.tail = "\n"
                parent.insert(place + 1, paragraph)
                return
    SubElement(root, "p").text = html


def contents(page: Page, tokens: Sequence[Mapping[str, Any]]) -> str:
    """The page's headings, from the table of contents, as something to unfold."""
    below = [t for token in tokens if token["level"] == 1 for t in token["children"]]
    others = [token for token in tokens if token["level"] > 1]
    return fill("chapter_contents.html", page.language, headings=below + others)
