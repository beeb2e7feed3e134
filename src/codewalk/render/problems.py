"""What a live preview shows where something is wrong."""

import html
from collections.abc import Sequence

from codewalk.errors import Problem
from codewalk.render.words import word


def error_html(message: str) -> str:
    """A mark in the text where a reference could not be shown."""
    return f'<span class="cw-error" role="alert">⚠ {html.escape(message)}</span>'


def error_bar(problems: Sequence[Problem], language: str) -> str:
    """The bar at the top of a page that has errors."""
    text = word("error-bar", language, first=str(problems[0]))
    if len(problems) > 1:
        text += f" ({word('error-more', language, count=len(problems) - 1)})"
    return f'<div class="cw-error-bar" role="alert">{html.escape(text)}</div>'
