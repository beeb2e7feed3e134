"""A notebook is read cell by cell: each Markdown cell is a section."""

import json
from pathlib import Path

import pytest
from review_page import DAY, say
from tiny_project import commit

from codewalk.cli import main
from codewalk.config import Project
from codewalk.markdown import Reading
from codewalk.notebook import resolve_html
from codewalk.references import Library
from codewalk.render.links import Links
from codewalk.render.page import Page
from codewalk.render.unread import behind_note
from codewalk.repository import Repository
from codewalk.reviews import read_reviews
from codewalk.sections import cell_sections
from codewalk.unread import findings, page_findings, problems, when

NAME = "docs/en/book.ipynb"
CHIP = "[again](src:demo/kernel.py#loop)"
TEST = "[a test](test:tests/test_demo.py::test_demo)"
CELLS = [
    ("markdown", "title", "# Title\n\nWords."),
    ("code", "sum", f"1 + 1  # {CHIP}"),
    ("markdown", "loops", f"{CHIP}\n\n## Tests\n\nMore."),
    ("markdown", "tests", TEST),
]


def book(cells: list[tuple[str, str, str]], indent: int | None = 1) -> str:
    whole = [
        {"cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(True)}
        for kind, name, text in cells
    ]
    if not any(name for _, name, _ in cells):
        for cell in whole:
            del cell["id"]
    return json.dumps({"cells": whole, "nbformat": 4}, indent=indent)


@pytest.fixture
def notebook(project: Project) -> Path:
    path = project.root / NAME
    path.write_text(book(CELLS), encoding="utf-8")
    for name in ("en/index.md", "zh/index.md"):
        (project.root / "docs" / name).unlink()
    return path


@pytest.fixture
def read(project: Project, notebook: Path) -> None:
    say(project, "en/book#loops", "en/book#tests")


def kinds(project: Project) -> dict[str, list[str]]:
    found = findings(Library(project), read_reviews(project))
    return {one.key: [change.kind for change in one.changes] for one in found}


def test_cells_with_code_are_to_be_read_and_no_others(
    project: Project, notebook: Path
) -> None:
    assert kinds(project) == {"en/book#loops": ["new"], "en/book#tests": ["new"]}


@pytest.mark.usefixtures("read")
def test_changed_code_is_heard_in_its_cell(project: Project, edit) -> None:
    assert kinds(project) == {}
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    assert kinds(project) == {"en/book#loops": ["changed"]}
    edit("tests/test_demo.py", "assert True", "assert 1")
    assert kinds(project) == {
        "en/book#loops": ["changed"],
        "en/book#tests": ["changed"],
    }
    edit("src/demo/kernel.py", "# [loop]", "# [cycle]")
    assert kinds(project)["en/book#loops"] == ["gone"]


def test_the_command_names_the_line_of_the_cell(
    project: Project, notebook: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(project.root)
    line = notebook.read_text().split("\n").index(f'    "{CHIP}\\n",')
    assert main(["check"]) == 1
    [said] = [s for s in capsys.readouterr().out.split("\n") if "en/book#loops" in s][
        :1
    ]
    number = int(said.split(":")[1])
    assert line - 6 <= number <= line
    assert main(["accept", "en/book#loops", "en/book#tests"]) == 0
    assert f"{CHIP}\n\n## Tests" in capsys.readouterr().out
    assert main(["check"]) == 0


def test_a_cell_stands_under_the_heading_before_it(notebook: Path) -> None:
    found = cell_sections(notebook.read_text(encoding="utf-8"))
    assert [(one.id, one.title) for one in found] == [
        ("title", "Title"),
        ("loops", "Title"),
        ("tests", "Tests"),
    ]
    flat = cell_sections(book(CELLS, indent=None))
    assert [one.start for one in flat] == [1, 1, 1]
    assert cell_sections("{}") == cell_sections("no JSON") == cell_sections("[1]") == []


def test_a_cell_of_the_other_language_is_a_twin(
    project: Project, notebook: Path
) -> None:
    text = book([("markdown", "loops", f"又 {CHIP}")])
    (project.root / "docs/zh/book.ipynb").write_text(text, encoding="utf-8")
    assert kinds(project)["zh/book#loops"] == ["new", "twin-new"]


def test_a_checkpoint_is_no_page(project: Project, notebook: Path) -> None:
    hidden = notebook.parent / ".ipynb_checkpoints/old.ipynb"
    hidden.parent.mkdir()
    hidden.write_text(notebook.read_text(encoding="utf-8"), encoding="utf-8")
    assert set(kinds(project)) == {"en/book#loops", "en/book#tests"}


def test_cells_without_ids_can_have_no_review(project: Project, notebook: Path) -> None:
    text = book([(kind, "", text) for kind, _, text in CELLS])
    notebook.write_text(text, encoding="utf-8")
    found = [(p.path, p.message) for p in problems(Library(project))]
    assert found == [
        (NAME, "'Title' refers to code and has no id (cell)"),
        (NAME, "'Tests' refers to code and has no id (cell)"),
    ]


HTML = (
    '<div class="jp-Cell" id="cell-id=title"><h1 id="t">Title</h1><p>Words.</p></div>'
    '<div class="jp-Cell" id="cell-id=loops"><p>Loops.</p></div>'
)


def shown(project: Project, notes: dict[str, str]) -> str:
    page = Page(Library(project), Repository(project.root, ""), Links("book/"), "en")
    return resolve_html(HTML, Reading(page, notes=notes))


def test_a_note_stands_above_its_cell_and_under_the_title(project: Project) -> None:
    assert shown(project, {"loops": "NOTE"}) == HTML.replace(
        '<div class="jp-Cell" id="cell-id=loops"',
        'NOTE<div class="jp-Cell" id="cell-id=loops"',
    )
    assert shown(project, {"title": "NOTE"}) == HTML.replace("</h1>", "</h1>NOTE")
    assert shown(project, {"gone": "NOTE"}) == shown(project, {"title": "NOTE"})


@pytest.mark.usefixtures("read")
def test_the_page_is_told_where_and_since_when(
    project: Project, notebook: Path, edit
) -> None:
    commit(project.root, "2026-11-21")
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    commit(project.root, "2026-11-24")
    library, reviews = Library(project), read_reviews(project)
    text = notebook.read_text(encoding="utf-8")
    found = page_findings(library, reviews, NAME, text)
    assert list(found) == ["loops"]
    assert found["loops"].read == DAY
    assert when(library, found["loops"], reviews) == "2026-11-24"
    note = behind_note(found, [], "en")
    assert '<a href="#cell-id=loops">Title</a>' in note
