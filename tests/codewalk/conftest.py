"""Fixtures: a small project, made anew for each test."""

from collections.abc import Callable
from pathlib import Path

import pytest
from example_project import make_project
from review_page import DOUBLING, LOOPS, PAGE, say

from codewalk.config import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


@pytest.fixture
def edit(project: Project) -> Callable[[str, str, str], None]:
    """Replaces a text, which must be there, in a file of the project."""

    def replace_in(path: str, old: str, new: str) -> None:
        file = project.root / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    return replace_in


@pytest.fixture
def page(project: Project) -> Path:
    """A page of two sections with code, in English alone."""
    path = project.root / "docs/en/page.md"
    path.write_text(PAGE, encoding="utf-8")
    for name in ("en/index.md", "zh/index.md"):
        (project.root / "docs" / name).unlink()
    return path


@pytest.fixture
def read(project: Project, page: Path) -> None:
    """All of it was read."""
    say(project, LOOPS, DOUBLING)
