"""Where references stand in the text of a page.

Markdown's tree knows no line numbers, so the text is searched for what looks
like a reference. Code (fenced or in a line), HTML comments and front matter hold
none: there a reference is an example.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codewalk.errors import CodewalkError
from codewalk.references import SCHEME_PATTERN

_SCHEME = SCHEME_PATTERN
_REFERENCE = re.compile(
    rf"\]\(\s*(?:<((?:{_SCHEME}):[^>\n]*)>|((?:{_SCHEME}):[^)\s]*))"
    r"(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)(?:\{:?([^}\n]*)\})?"
)
_DEFINITION = re.compile(
    rf"^ {{0,3}}\[[^\]]+\]:\s*<?((?:{_SCHEME}):[^>\s]*)>?", re.MULTILINE
)
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# A comment may hide a stray backtick, and code may show a comment: what begins
# first wins, so both are found in one pass.
_COMMENT_OR_CODE = re.compile(
    f"(?:{_COMMENT.pattern})|(?:{_INLINE_CODE.pattern})", re.DOTALL
)
_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL
)


@dataclass(frozen=True)
class Found:
    """A reference in a text: its line (from 1), its target, and `{ optional }`."""

    line: int
    target: str
    optional: bool = False


def references(text: str) -> list[Found]:
    """The references in a page's text, in order."""
    clear = cleared(text.replace("\r\n", "\n").replace("\r", "\n"))
    found = [
        (match.start(), match[1] or match[2], "optional" in (match[3] or "").split())
        for match in _REFERENCE.finditer(clear)
    ]
    found += [
        (match.start(1), match[1], False) for match in _DEFINITION.finditer(clear)
    ]
    return [
        Found(clear.count("\n", 0, place) + 1, target, optional)
        for place, target, optional in sorted(found)
    ]


def read_page(path: Path, name: str) -> str:
    """The text of a page; `name` is for messages."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CodewalkError(f"{name}: cannot be read as text: {error}") from None


def without_front_matter(text: str) -> str:
    """The text with its front matter blanked, so that its lines stay where they are."""
    return _FRONT_MATTER.sub(_blank, text)


def inline_code(text: str) -> list[tuple[int, str]]:
    """What is written as code within a line of the text, each with its line."""
    clear = "".join(_without_fences(without_front_matter(text)))
    return [
        (clear.count("\n", 0, match.start()) + 1, match[2])
        for match in _COMMENT_OR_CODE.finditer(clear)
        if match[2] and "\n\n" not in match[2]
    ]


@dataclass(frozen=True)
class Cell:
    """A Markdown cell of a notebook; its number counts cells of all kinds, from 1."""

    number: int
    id: str  # empty in files of before nbformat 4.5
    text: str


def markdown_cells(text: str) -> list[Cell]:
    """The Markdown cells of a notebook; none where it is no notebook."""
    try:
        return [
            Cell(number, str(cell.get("id", "")), "".join(cell["source"]))
            for number, cell in enumerate(json.loads(text)["cells"], 1)
            if cell["cell_type"] == "markdown"
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def markdown_of(text: str) -> str:
    """What a notebook's Markdown cells say; empty where it is no notebook."""
    return "\n\n".join(cell.text for cell in markdown_cells(text))


def cleared(text: str) -> str:
    """The text with everything blanked that cannot hold a reference."""
    text = "".join(_without_fences(without_front_matter(text)))
    return _COMMENT_OR_CODE.sub(_blank, text)


def has_front_matter(text: str) -> bool:
    """Whether a text begins with what looks like front matter."""
    return bool(_FRONT_MATTER.match(text))


def _without_fences(text: str) -> Iterator[str]:
    fence = ""
    for line in text.splitlines(keepends=True) if "\n" in text else [text]:
        opening = _FENCE.match(line)
        if fence:
            closing = opening and opening[1].startswith(fence)
            fence = "" if closing and not line.strip().strip("`~> ") else fence
            yield re.sub(r"[^\n]", " ", line)
        elif opening:
            fence = opening[1]
            yield re.sub(r"[^\n]", " ", line)
        else:
            yield line


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])
