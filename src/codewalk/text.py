"""The text of a source file and its lines, as Python reads them."""

import io
import re
import tokenize

from codewalk.errors import CodewalkError


def decode(path: str, data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise CodewalkError(f"{path}: cannot be read as text: {error}") from None


def lines_of(text: str) -> list[str]:
    """The lines as Python counts them: only CR, LF and CR LF end one."""
    lines = re.split(r"\r\n|\r|\n", text)
    if lines[-1] == "":
        lines.pop()
    return lines


def without_comments(text: str) -> list[str | None]:
    """The lines of a Python text without comments; None where nothing else is.

    The white space at a line's end is left out too, except inside a string.
    Raises SyntaxError or tokenize.TokenError where it is not Python.
    """
    lines = lines_of(text)
    code = [line.rstrip() or None for line in lines]
    reader = io.StringIO(text, newline=None).readline
    for token in tokenize.generate_tokens(reader):
        (first, column), (last, _) = token.start, token.end
        if token.type == tokenize.COMMENT:
            code[first - 1] = lines[first - 1][:column].rstrip() or None
        # What goes on over several lines is a string.
        for number in range(first, last):
            code[number - 1] = lines[number - 1]
    return code
