"""Where references stand in a text, and where they only seem to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codewalk.scan import Found, references


def places(text: str) -> list[tuple[int, str]]:
    return [(found.line, found.target) for found in references(text)]


def test_links_images_values_and_definitions() -> None:
    text = """\
# Title

One [word](src:a.py#x) and [](result:j?n=1#v){ optional } here
![c](src:a.py#y){ mark="z" } [r][1]
![c](figure:walk "title") [s](<src:with space.py#x>)

[1]: src:b.py#q
[web](https://example.org)
"""
    assert references(text) == [
        Found(3, "src:a.py#x"),
        Found(3, "result:j?n=1#v", optional=True),
        Found(4, "src:a.py#y"),
        Found(5, "figure:walk"),
        Found(5, "src:with space.py#x"),
        Found(7, "src:b.py#q"),
    ]


@pytest.mark.parametrize(
    "hidden",
    [
        "```\n[x](src:a.py)\n```",
        "~~~~ python\n[x](src:a.py)\n~~~\n~~~~",
        "    - x\n\n      ```\n      [x](src:a.py)\n      ```",
        "`[x](src:a.py)`",
        "`` a ` [x](src:a.py) ``",
        "<!-- [x](src:a.py)\n[x](src:a.py) -->",
        "<!-- `-- [x](src:a.py) -->",
    ],
)
def test_code_and_comments_hold_none(hidden: str) -> None:
    text = f"before\n\n{hidden}\n\n[y](src:b.py)\n"
    assert places(text) == [(text.count("\n"), "src:b.py")]


def test_front_matter_counts_as_lines_and_holds_none() -> None:
    text = "---\nlead: '[x](src:a.py)'\n---\n\n[y](src:b.py)\n"
    assert places(text) == [(5, "src:b.py")]


def test_windows_line_ends() -> None:
    assert places("a\r\n\r\n[y](src:b.py)\r\n") == [(3, "src:b.py")]


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.text(alphabet='`~<!->[](src:ab.py#)\n {}optional"', max_size=80))
def test_any_text_is_read(text: str) -> None:
    for found in references(text):
        assert 1 <= found.line <= text.count("\n") + 1
