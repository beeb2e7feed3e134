"""A page's text as sections."""

from codewalk.sections import sections

PAGE = """\
---
title: T
---

before [a](src:a.py)

# One { #one }

```python
# not a heading
```

## Two, [no] id

[b](src:b.py) and
[c](src:c.py)

### Three ### { #three }
"""


def test_sections_run_from_heading_to_heading() -> None:
    found = [(s.id, s.title, s.start, s.end) for s in sections(PAGE)]
    assert found == [
        ("", "", 1, 6),
        ("one", "One", 7, 12),
        ("", "Two, [no] id", 13, 17),
        ("three", "Three ###", 18, 19),
    ]


def test_each_has_its_references() -> None:
    targets = [[f.target for f in section.found] for section in sections(PAGE)]
    assert targets == [["src:a.py"], [], ["src:b.py", "src:c.py"], []]


def test_the_text_is_the_lines() -> None:
    assert "\n".join(section.text for section in sections(PAGE)) == PAGE


def test_a_page_that_begins_with_a_heading_has_nothing_before_it() -> None:
    assert [s.id for s in sections("# A { #a }\n\ntext\n")] == ["a"]


def test_an_empty_page() -> None:
    assert [(s.start, s.end, s.text) for s in sections("")] == [(1, 1, "")]
