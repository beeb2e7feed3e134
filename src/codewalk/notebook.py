"""The way in for notebooks: references in HTML that has been rendered already.

mkdocs-jupyter turns a notebook's Markdown into HTML by itself, so the links and
images with our schemes are found in that HTML. Attribute lists are not read
there.
"""

import html
import json
import re

from codewalk.errors import CodewalkError
from codewalk.markdown import Reading
from codewalk.references import scheme_of
from codewalk.render import fragments

_ALONE = re.compile(r"<p>\s*(<img\b[^>]*>)\s*</p>")
_IMAGE = re.compile(r"<img\b[^>]*>")
_LINK = re.compile(r"<a\b[^>]*>(.*?)</a>", re.DOTALL)
_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def resolve_html(text: str, reading: Reading) -> str:
    """`text` with every reference replaced by what it stands for."""
    text = _ALONE.sub(lambda match: _image(match[1], match[0], reading), text)
    text = _IMAGE.sub(lambda match: _stray(match[0], reading), text)
    return _LINK.sub(lambda match: _link(match, reading), text)


def markdown_of(text: str) -> str:
    """The Markdown of a notebook's cells; empty for what is no notebook."""
    try:
        cells = json.loads(text)["cells"]
        sources = [c["source"] for c in cells if c["cell_type"] == "markdown"]
        return "\n\n".join("".join(source) for source in sources)
    except (ValueError, LookupError, TypeError):
        return ""


def _image(tag: str, whole: str, reading: Reading) -> str:
    target = _attribute(tag, "src")
    if not scheme_of(target):
        return whole
    page = reading.page
    try:
        found = page.library.resolve(target, page.language)
        return fragments.block(page, found, _attribute(tag, "alt"), {})
    except CodewalkError as error:
        return reading.problem(target, str(error))


def _stray(tag: str, reading: Reading) -> str:
    target = _attribute(tag, "src")
    if not scheme_of(target):
        return tag
    return reading.problem(target, f"{target}: an image stands alone in its paragraph")


def _link(match: re.Match[str], reading: Reading) -> str:
    opening = match[0][: match[0].index(">") + 1]
    target = _attribute(opening, "href")
    if not scheme_of(target):
        return match[0]
    page = reading.page
    try:
        found = page.library.resolve(target, page.language)
        return fragments.inline(page, found, match[1])
    except CodewalkError as error:
        return reading.problem(target, str(error))


def _attribute(tag: str, name: str) -> str:
    for match in _ATTRIBUTE.finditer(tag):
        if match[1] == name:
            return html.unescape(match[2] if match[2] is not None else match[3])
    return ""
