"""What was read against what: `reviews.json` beside the pages.

For each section of each page it holds the code that the section referred to when
someone last read it, its digest and its text, and the digest of the section's
twin in the other language. The file is written whole or not at all.
"""

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.record_format import versioned_table
from codewalk.stored import replace

SCHEMA = 1
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Code:
    """Lines of a source file, without their common indentation."""

    digest: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Review:
    """One reading of a section.

    read is its ISO date. code is by address, as the page writes it. twin is the
    digest of the text in the other language; empty: there was none.
    """

    read: str
    code: Mapping[str, Code] = field(default_factory=dict)
    twin: str = ""


Reviews = Mapping[str, Review]


def reviews_path(project: Project) -> Path:
    """Where the reviews of a project are stored."""
    return project.root / project.pages / "reviews.json"


def read_reviews(project: Project) -> dict[str, Review]:
    """The reviews by PAGE#SECTION; an absent file holds none.

    Raises a CodewalkError that names the file where it is malformed or written
    by a newer codewalk.
    """
    path = reviews_path(project)
    try:
        return parse_reviews(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CodewalkError(f"{path.name}: not read ({error.strerror})") from error
    except ValueError as error:
        raise CodewalkError(f"{path.name}: {error}") from None


def write_reviews(project: Project, reviews: Reviews) -> None:
    """Stores the reviews; a file that we cannot read is left alone."""
    read_reviews(project)
    path = reviews_path(project)
    text = format_reviews(reviews)
    try:
        parse_reviews(text)
        replace(path, text.encode("utf-8"))
    except OSError as error:
        raise CodewalkError(
            f"{path.name}: not written ({error.strerror}); what was there remains"
        ) from error
    except ValueError as error:
        raise CodewalkError(f"{path.name}: {error}") from None


def format_reviews(reviews: Reviews) -> str:
    """The text of the file: a line of code a line, always in one order."""
    sections = {key: _table(review) for key, review in sorted(reviews.items())}
    table = {"schema": SCHEMA, "sections": sections}
    return json.dumps(table, ensure_ascii=False, indent=1) + "\n"


def parse_reviews(text: str) -> dict[str, Review]:
    """The reviews that a file's text holds; a ValueError says what is malformed."""
    table = versioned_table(text, SCHEMA, "the reviews")
    _only(table, {"schema", "sections"}, "the reviews")
    sections = _expect(table.get("sections"), dict, "sections")
    return {key: _review(value, key) for key, value in sections.items()}


def _table(review: Review) -> dict[str, Any]:
    table: dict[str, Any] = {"read": review.read}
    if review.twin:
        table["twin"] = review.twin
    table["code"] = {
        address: {"digest": code.digest, "lines": list(code.lines)}
        for address, code in sorted(review.code.items())
    }
    return table


def _review(value: Any, where: str) -> Review:
    table = _expect(value, dict, where)
    _only(table, {"read", "twin", "code"}, where)
    read = _expect(table.get("read"), str, f"{where}: read")
    try:
        datetime.date.fromisoformat(read if _DAY.fullmatch(read) else "")
    except ValueError:
        raise ValueError(f"{where}: read: expected a date, got {read!r}") from None
    code = _expect(table.get("code"), dict, f"{where}: code")
    return Review(
        read=read,
        code={name: _code(one, f"{where}: {name}") for name, one in code.items()},
        twin=_expect(table.get("twin", ""), str, f"{where}: twin"),
    )


def _code(value: Any, where: str) -> Code:
    table = _expect(value, dict, where)
    _only(table, {"digest", "lines"}, where)
    lines = _expect(table.get("lines"), list, f"{where}: lines")
    return Code(
        digest=_expect(table.get("digest"), str, f"{where}: digest"),
        lines=tuple(_expect(line, str, f"{where}: lines") for line in lines),
    )


def _only(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{where}: {key!r} is none of {', '.join(sorted(known))}")


def _expect(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{where}: expected {kind.__name__}, got {value!r:.80}")
    return value
