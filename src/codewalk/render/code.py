"""Lines of code as HTML, each exactly the text that the file has."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby, pairwise

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from codewalk.matching import Words
from codewalk.source import SourceFile

# Few classes, and so few colours: the first that fits a token counts.
_CLASSES: Sequence[tuple[_TokenType, str]] = (
    (Token.Comment, "cw-c"),
    (Token.Keyword.Constant, "cw-n"),
    (Token.Keyword, "cw-k"),
    (Token.Operator.Word, "cw-k"),
    (Token.Literal.String, "cw-s"),
    (Token.Literal.Number, "cw-n"),
    (Token.Name.Function, "cw-f"),
    (Token.Name.Class, "cw-f"),
    (Token.Name.Decorator, "cw-f"),
)
_STEP = re.compile(r"(#\s*\[)([a-z0-9-]+)(\]\s.*)", re.DOTALL)

Piece = tuple[_TokenType, str]


@lru_cache(maxsize=512)
def tokens(file: SourceFile) -> list[list[Piece]]:
    """The tokens of each line; a line that they do not reproduce is one plain token."""
    lines: list[list[Piece]] = [[]]
    for kind, text in _lexer(_kind(file.name)).get_tokens("\n".join(file.lines)):
        if "\n" not in text:
            lines[-1].append((kind, text))
            continue
        first, *rest = text.split("\n")
        if first:
            lines[-1].append((kind, first))
        for part in rest:
            lines.append([(kind, part)] if part else [])
    return [
        pieces if "".join(text for _, text in pieces) == line else [(Token.Text, line)]
        for line, pieces in zip(
            file.lines, _padded(lines, len(file.lines)), strict=True
        )
    ]


@lru_cache(maxsize=512)
def lines_html(file: SourceFile) -> list[str]:
    """The HTML of every line."""
    return [line_html(file, number) for number in range(1, len(file.lines) + 1)]


def line_html(
    file: SourceFile,
    number: int,
    indent: str = "",
    marks: Sequence[str] = (),
    words: Words = (),
) -> str:
    """The HTML of line `number` without `indent`, the names in `marks` marked.

    words: columns, counted after the indent, that are underlined.
    """
    pieces: Sequence[Piece] = tokens(file)[number - 1]
    if indent:
        pieces = _without(pieces, indent)
    return _underlined(
        ("".join(_piece(kind, text, marks) for kind, text in _joined(part)), inside)
        for part, inside in _cut(pieces, words)
    )


def has_name(file: SourceFile, number: int, name: str) -> bool:
    """Whether line `number` uses `name` as a name, not inside a text or a comment."""
    return any(
        text == name and kind in Token.Name for kind, text in tokens(file)[number - 1]
    )


def plain_html(
    file: SourceFile, number: int, indent: str = "", words: Words = ()
) -> str:
    """The HTML of a line without colours."""
    pieces = [(Token.Text, file.lines[number - 1].removeprefix(indent))]
    return _underlined(
        (html.escape("".join(text for _, text in part), quote=False), inside)
        for part, inside in _cut(pieces, words)
    )


def _kind(name: str) -> str:
    """A name that stands for all files of one language."""
    return f"x{name[name.rfind('.') :]}" if "." in name else name


@cache
def _lexer(name: str) -> Lexer:
    # Without these, Pygments drops blank lines at the start and adds one at the end.
    options = {"stripnl": False, "ensurenl": False}
    try:
        return get_lexer_for_filename(name, **options)
    except ClassNotFound:
        return TextLexer(**options)


def _padded(lines: list[list[Piece]], count: int) -> list[list[Piece]]:
    return (lines + [[] for _ in range(count)])[:count]


def _without(pieces: Sequence[Piece], indent: str) -> list[Piece]:
    """The tokens of a line after as much of `indent` as it begins with."""
    left = len(indent)
    kept = []
    for kind, text in pieces:
        blank = len(text) - len(text.lstrip(" \t"))
        cut = min(left, blank)
        left = left - cut if cut == len(text) else 0
        if text[cut:]:
            kept.append((kind, text[cut:]))
    return kept


def _cut(
    pieces: Sequence[Piece], words: Words
) -> Iterator[tuple[Sequence[Piece], bool]]:
    """The tokens of a line, cut where columns begin and end; and which are inside."""
    if not words:
        yield pieces, False
        return
    edges = {edge for word in words for edge in word}
    column = 0
    small: list[tuple[Piece, bool]] = []
    for kind, text in pieces:
        ends = sorted({e - column for e in edges if 0 < e - column < len(text)})
        for start, end in pairwise([0, *ends, len(text)]):
            inside = any(a <= column + start < b for a, b in words)
            small.append(((kind, text[start:end]), inside))
        column += len(text)
    for inside, group in groupby(small, lambda part: part[1]):
        yield [piece for piece, _ in group], inside


def _underlined(parts: Iterable[tuple[str, bool]]) -> str:
    return "".join(
        f'<u class="cw-word">{text}</u>' if inside else text for text, inside in parts
    )


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbours of one colour become one, except names, which can be marked."""
    for (css, named), group in groupby(pieces, lambda piece: _look(piece[0])):
        if css and not named:
            same = list(group)
            yield same[0][0], "".join(text for _, text in same)
        else:
            yield from group


@cache
def _look(kind: _TokenType) -> tuple[str, bool]:
    """The class of a kind of token, and whether it is a name. There are few kinds."""
    css = next((css for token, css in _CLASSES if kind in token), "")
    return css, kind in Token.Name


def _piece(kind: _TokenType, text: str, marks: Sequence[str]) -> str:
    shown = html.escape(text, quote=False)
    css, named = _look(kind)
    step = _STEP.fullmatch(shown) if css == "cw-c" else None
    if step:
        return f'<span class="cw-c cw-step">{step[1]}<b>{step[2]}</b>{step[3]}</span>'
    if named and text in marks:
        return f'<mark class="cw-name">{shown}</mark>'
    return f'<span class="{css}">{shown}</span>' if css else shown
