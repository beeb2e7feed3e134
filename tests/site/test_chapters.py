"""Every chapter has the parts that a chapter is made of.

A part that cannot exist in one is named in its front matter, with the reason:
`without: {by-hand: …}`.
"""

import re
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from codewalk.sections import sections

PARTS = {"title", "question", "needs", "kernel", "next"}
SECTIONS = {
    "picture": r"!\[[^\]]*\]\((?:figure|result):",
    "by-hand": r"\]\(result:claims\?",
    "measured": r"\]\(result:",
    "what-breaks": r"\]\((?:test|src):tests/",
    "try-it": r"```sh",
    "elsewhere": r"\]\((?:https://github\.com/|up:)",
    "next": r"\?\s*$",
}
# The parts of the book; a notebook in one of them is no chapter.
FOLDERS = ("forward", "faster", "backward")
CHAPTERS = sorted(
    path for folder in FOLDERS for path in (ROOT / "docs").glob(f"*/{folder}/*.md")
)


@pytest.fixture(
    params=CHAPTERS, ids=lambda path: "-".join((*path.parts[-3:-1], path.stem))
)
def chapter(request: pytest.FixtureRequest) -> Path:
    return request.param


def front_matter(path: Path) -> dict[str, object]:
    match = re.match(r"---\n(.*?)\n---\n", path.read_text(encoding="utf-8"), re.DOTALL)
    assert match, "a chapter begins with its front matter"
    return yaml.safe_load(match[1])


def test_the_front_matter_is_whole(chapter: Path) -> None:
    found = front_matter(chapter)
    assert set(found) >= PARTS
    assert (ROOT / "src" / str(found["kernel"])).is_file()
    for needed in (*found["needs"], *([found["next"]] if found["next"] else [])):
        pages = [chapter.parent / f"{needed}{end}" for end in (".md", ".ipynb")]
        assert any(page.is_file() for page in pages), needed


def test_the_first_words_are_the_question(chapter: Path) -> None:
    text = chapter.read_text(encoding="utf-8")
    head = next(s for s in sections(text) if s.title)
    assert str(front_matter(chapter)["question"]).strip() in " ".join(head.text.split())


@pytest.mark.parametrize("part", SECTIONS)
def test_each_part_is_there(chapter: Path, part: str) -> None:
    without = front_matter(chapter).get("without", {})
    found = {
        section.id: section.text for section in sections(chapter.read_text("utf-8"))
    }
    if part in without:
        assert part not in found, f"{part} is there and said not to be"
        assert len(str(without[part])) > 10, f"why is there no {part}?"
    else:
        assert part in found, f"no section {{ #{part} }}"
        assert re.search(SECTIONS[part], found[part].strip(), re.MULTILINE), part


def test_paragraphs_are_not_crowded_with_chips(chapter: Path) -> None:
    text = re.sub(
        r"```.*?```", "", chapter.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    for paragraph in re.split(r"\n\s*\n", text):
        chips = re.findall(r"(?<!!)\[[^\]]+\]\((?:src|test):", paragraph)
        assert len(chips) <= 3 or paragraph.lstrip().startswith(("|", "- ")), paragraph


def test_the_code_of_a_chapter_is_neither_too_little_nor_too_much(
    chapter: Path,
) -> None:
    embeds = re.findall(r"^!\[[^\]]*\]\(src:", chapter.read_text("utf-8"), re.MULTILINE)
    assert len(embeds) <= 12
