"""Fixtures: a small project, made anew for each test."""

from collections.abc import Callable
from pathlib import Path

import pytest
from example_project import make_project

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
