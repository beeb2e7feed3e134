"""A new test file makes the job that would run it stale."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_project import commit, job, make, write

from codewalk.cli import main
from codewalk.config import read_project
from codewalk.errors import CodewalkError
from codewalk.jobs.status import states
from codewalk.listing import matching
from codewalk.pages import record_page
from codewalk.records import changes, read_record
from codewalk.references import Library
from codewalk.render.links import Links
from codewalk.render.page import Page
from codewalk.render.results import staleness
from codewalk.repository import Repository

RECORD = "docs/results/cpu/t.json"
TEST = "def test_it(): pass\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a job that runs the tests of a folder; we are in it."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a project whose job has run; what a test adds, it takes away."""
    folder = tmp_path_factory.mktemp("recorded")
    fill(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(folder)
    return folder


def fill(root: Path) -> None:
    define(root, "tests/kernel")
    write(root, "tests/kernel/test_a.py", TEST)
    write(root, "tests/kernel/deep/test_b.py", TEST)
    write(root, "tests/other/test_c.py", TEST)


def with_new(root: Path, path: str) -> str:
    """The status while there is such a file."""
    file = write(root, path, TEST)
    try:
        return status(root)
    finally:
        file.unlink()


def define(root: Path, *words: str) -> None:
    command = ("python", "-m", "pytest", "-q", *words)
    make(root, [job("t", *command, kind="tests")], {})


def run(root: Path) -> Path:
    """Runs the job; where its record is."""
    assert main(["run"]) == 0
    assert status(root) == "fresh"
    return root / RECORD


def status(root: Path) -> str:
    [state] = states(read_project(root))
    return state.why()


@pytest.mark.parametrize(
    "path",
    [
        "tests/kernel/test_new.py",
        "tests/kernel/new_test.py",
        "tests/kernel/deep/test_new.py",
        "tests/kernel/new/test_new.py",
        "tests/kernel/conftest.py",
        "tests/kernel/new/conftest.py",
        "tests/conftest.py",
        "conftest.py",
    ],
)
def test_what_pytest_would_find_makes_its_job_stale(path: str, recorded: Path) -> None:
    found = with_new(recorded, path)
    assert found.startswith(f"stale: {path} added (unknown) since 20")
    assert status(recorded) == "fresh"


def test_once_it_has_run_it_is_new_no_more(root: Path) -> None:
    run(root)
    write(root, "tests/kernel/test_new.py", TEST)
    run(root)


@pytest.mark.parametrize(
    "path",
    [
        "tests/kernel/helper.py",
        "tests/kernel/test_data.json",
        "tests/kernel/.hidden/test_new.py",
        "tests/kernel/__pycache__/test_new.py",
        "tests/other/test_new.py",
        "tests/other/conftest.py",
        "tests/test_new.py",
    ],
)
def test_what_it_would_not_find_leaves_it_fresh(path: str, recorded: Path) -> None:
    assert with_new(recorded, path) == "fresh"


def test_a_test_file_that_is_gone_makes_it_stale(root: Path) -> None:
    run(root)
    (root / "tests/kernel/deep/test_b.py").unlink()
    assert "tests/kernel/deep/test_b.py gone" in status(root)


def test_the_commit_that_added_it_is_named(root: Path) -> None:
    run(root)
    commit(root, "2026-03-02")
    path = write(root, "tests/kernel/test_new.py", TEST)
    assert "test_new.py added (uncommitted)" in status(root)
    commit(root, "2026-03-03")
    path.write_text(TEST + TEST.replace("it", "more"))
    commit(root, "2026-03-04")
    assert "test_new.py added (2026-03-03)" in status(root)


def test_of_one_file_its_neighbours_are_no_matter(root: Path) -> None:
    define(root, "tests/kernel/test_a.py::test_it")
    run(root)
    write(root, "tests/kernel/test_new.py", TEST)
    assert status(root) == "fresh"
    write(root, "tests/kernel/conftest.py", "")
    assert "tests/kernel/conftest.py added" in status(root)


def test_the_names_of_test_files_are_those_of_its_settings(root: Path) -> None:
    write(root, "pytest.ini", "[pytest]\npython_files = check_*.py\n")
    write(root, "tests/kernel/check_a.py", TEST)
    run(root)
    write(root, "tests/kernel/test_new.py", TEST)
    assert status(root) == "fresh"
    write(root, "tests/kernel/check_new.py", TEST)
    assert "tests/kernel/check_new.py added" in status(root)


def test_without_folders_those_of_its_settings_count(root: Path) -> None:
    write(root, "pytest.ini", "[pytest]\ntestpaths = tests/other\n")
    define(root)
    run(root)
    write(root, "tests/kernel/test_new.py", TEST)
    assert status(root) == "fresh"
    write(root, "tests/other/test_new.py", TEST)
    assert "tests/other/test_new.py added" in status(root)


def test_a_file_that_was_there_and_passed_over_is_not_new(root: Path) -> None:
    define(root, "tests/kernel", "--ignore=tests/kernel/deep")
    record = read_record(run(root))
    assert "tests/kernel/deep/test_b.py" not in record.inputs


def test_the_record_says_what_was_looked_for(recorded: Path) -> None:
    table = json.loads((recorded / RECORD).read_text())
    assert table["schema"] == 2
    assert table["listings"] == {
        "conftest.py": [],
        "tests/conftest.py": [],
        "tests/kernel/**/*_test.py": [],
        "tests/kernel/**/conftest.py": [],
        "tests/kernel/**/test_*.py": [
            "tests/kernel/deep/test_b.py",
            "tests/kernel/test_a.py",
        ],
    }


def test_a_record_from_before_there_were_listings_stays_fresh(
    recorded: Path, root: Path
) -> None:
    table = json.loads((recorded / RECORD).read_text())
    del table["listings"]
    write(root, RECORD, json.dumps(table | {"schema": 1}))
    write(root, "tests/kernel/test_new.py", TEST)
    assert status(root) == "fresh"


Edit = Callable[[dict[str, object]], object]
MALFORMED: dict[str, tuple[Edit, str]] = {
    "above": (lambda t: t.update(listings={"../**/*": []}), "no path from the root"),
    "absolute": (lambda t: t.update(listings={"/**/*": []}), "no path from the root"),
    "name above": (lambda t: t.update(listings={"*": ["../a"]}), "no path from"),
    "no list": (lambda t: t.update(listings={"*": "a"}), r"listings\.\*: expected li"),
    "no name": (lambda t: t.update(listings={"*": [1]}), "listings: expected str"),
    "too early": (lambda t: t.update(schema=1), "'listings' is none of schema"),
}


@pytest.mark.parametrize(("edit", "message"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_listing_is_named(
    edit: Edit, message: str, recorded: Path, tmp_path: Path
) -> None:
    table = json.loads((recorded / RECORD).read_text())
    edit(table)
    path = write(tmp_path, "cpu/t.json", json.dumps(table))
    with pytest.raises(CodewalkError, match=rf"^cpu/t\.json: .*{message}"):
        read_record(path)


def test_the_page_of_the_record_names_what_was_looked_for(recorded: Path) -> None:
    project = read_project(recorded)
    repository = Repository(recorded, "")
    page = Page(Library(project), repository, Links("results/cpu/t/"), "en")
    shown = record_page(page, read_record(recorded / RECORD))
    assert "<code>tests/kernel/**/test_*.py</code></p>" in shown


def test_the_page_says_what_was_added(recorded: Path, root: Path) -> None:
    record = read_record(recorded / RECORD)
    write(root, "tests/kernel/test_new.py", TEST)
    project = read_project(root)
    found = changes(project, record, project.jobs.job("t"))
    day = record.started[:10]
    assert staleness(record, found, "en") == (
        f"measured {day}; tests/kernel/test_new.py was added since"
    )
    assert staleness(record, found, "zh") == (
        f"{day} 测得；tests/kernel/test_new.py 在 之后 新增"
    )


def test_a_pattern_finds_in_order_and_in_no_folder_that_is_not_there(
    root: Path,
) -> None:
    assert matching(root, "**/test_*.py") == [
        "tests/kernel/deep/test_b.py",
        "tests/kernel/test_a.py",
        "tests/other/test_c.py",
    ]
    assert matching(root, "nowhere/**/*.py") == []
    assert matching(root, "nowhere.py") == []
    assert matching(root, "tests/kernel/test_a.py") == ["tests/kernel/test_a.py"]
