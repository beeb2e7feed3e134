"""The file of the reviews: its form, and what it survives."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from review_page import LOOPS, say

from codewalk.cli import main
from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.reviews import (
    Code,
    Review,
    format_reviews,
    parse_reviews,
    reviews_path,
    write_reviews,
)

words = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.dictionaries(
        words,
        st.builds(
            Review,
            st.dates().map(str),
            st.dictionaries(words, st.builds(Code, words, st.lists(words).map(tuple))),
            words,
        ),
    )
)
def test_what_is_written_is_read_back(reviews: dict[str, Review]) -> None:
    text = format_reviews(reviews)
    assert parse_reviews(text) == reviews
    assert format_reviews(dict(reversed(reviews.items()))) == text


@given(st.text() | st.text(alphabet='{}[]":,0123 aschemtion\\'))
def test_any_other_text_is_refused_with_a_word(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_reviews(text)


@pytest.mark.usefixtures("read")
def test_one_line_of_code_is_one_line_of_the_file(project: Project, edit) -> None:
    before = reviews_path(project).read_text().splitlines()
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    say(project, LOOPS)
    after = reviews_path(project).read_text().splitlines()
    differing = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(differing) == 2  # the digest, and the line
    assert "y = y + x" in differing[1][0]


BROKEN = {
    "not JSON": ("{", "not JSON"),
    "newer": ('{"schema": 2, "sections": {}}', "newer codewalk"),
    "no schema": ('{"sections": {}}', "no schema number"),
    "another key": ('{"schema": 1, "sections": {}, "x": 1}', "'x' is none of"),
    "a list": ("[]", "expected dict"),
    "no sections": ('{"schema": 1}', "sections: expected dict"),
    "no date": ('{"schema": 1, "sections": {"a": {"code": {}}}}', "a: read"),
    "a bad date": (
        '{"schema": 1, "sections": {"a": {"read": "20 Nov", "code": {}}}}',
        "expected a date, got '20 Nov'",
    ),
    "a line that is none": (
        '{"schema": 1, "sections": {"a": {"read": "2026-11-20", "code": '
        '{"b": {"digest": "d", "lines": [1]}}}}}',
        "a: b: lines: expected str",
    ),
    "twice": ('{"schema": 1, "sections": {}, "sections": {}}', "stands twice"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_cannot_be_read_is_a_problem_and_is_left_alone(
    text: str,
    message: str,
    project: Project,
    page: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys,
) -> None:
    path = reviews_path(project)
    path.write_text(text)
    monkeypatch.chdir(project.root)
    assert main(["check"]) == 1
    shown = capsys.readouterr().out
    assert "docs/reviews.json: reviews.json: " in shown
    assert message in shown
    assert main(["accept", LOOPS]) == 2
    with pytest.raises(CodewalkError):
        write_reviews(project, {})
    assert path.read_text() == text


@pytest.mark.usefixtures("read")
def test_a_full_disk_leaves_what_was_there(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reviews_path(project).read_bytes()

    def full(*words: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(CodewalkError, match="No space left"):
        say(project, LOOPS, day="2026-11-28")
    assert reviews_path(project).read_bytes() == before
    assert [p.name for p in reviews_path(project).parent.glob("*.tmp")] == []


def test_the_committed_reviews_are_in_their_own_form() -> None:
    path = Path(__file__).parents[2] / "docs/reviews.json"
    text = path.read_text(encoding="utf-8")
    assert format_reviews(parse_reviews(text)) == text
    assert json.loads(text)["schema"] == 1
