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
