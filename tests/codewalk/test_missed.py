"""What a source page says of its steps: which tests miss them."""

from dataclasses import replace

import pytest
from example_project import speed_record
from html_contract import Element, read

from codewalk.config import Project, read_project
from codewalk.pages import source_page
from codewalk.records import Row, write_record
from codewalk.references import Library
from codewalk.render.links import Links
from codewalk.render.page import Page
from codewalk.repository import Repository

TEST = "tests/test_demo.py::test_demo"


@pytest.fixture
def shown(project: Project, edit):
    """The source page with these rows recorded: step, tests that fail, an example."""
    edit("docs/jobs.toml", "[jobs.never]", "[jobs.steps]")

    def show(*rows: tuple[str, int, str], language: str = "en") -> list[Element]:
        here = read_project(project.root)
        made = [
            Row(
                index,
                {"step": step, "file": "demo/kernel.py", "way": "cut"},
                {"tests_failing": failing, "first": first, "tests_run": 9},
                "measured",
            )
            for index, (step, failing, first) in enumerate(rows)
        ]
        record = replace(
            speed_record(here),
            job="steps",
            device="cpu",
            rows=tuple(made),
            job_digest=here.jobs.job("steps").digest,
        )
        write_record(here, record)
        library = Library(here)
        links = Links("source/demo/kernel.py/")
        page = Page(library, Repository(here.root, ""), links, language)
        html = source_page(page, library.sources.file("demo/kernel.py"))
        return read(html).with_class("cw-missed")

    return show


def test_a_step_says_how_many_tests_miss_it(shown) -> None:
    (note,) = shown(("loop", 3, TEST))
    assert (note["data-step"], note["data-tests"]) == ("loop", "3")
    assert note.text == "without these lines 3 of 9 tests fail, such as test_demo"
    (link,) = [e for e in note.all() if e.tag == "a"]
    assert link["href"] == "../../tests/test_demo.py/#L1-L2"


def test_one_and_none(shown) -> None:
    one, none = shown(("loop", 1, TEST), ("scale.double", 0, ""))
    # In the order of the page.
    assert one["data-step"] == "scale.double"
    assert one.text == "without these lines all 9 tests pass"
    assert none.text == "without these lines 1 of 9 tests fails: test_demo"


def test_chinese(shown) -> None:
    (note,) = shown(("loop", 3, TEST), language="zh")
    assert note.text == "去掉这几行，9 个测试里有 3 个失败，例如 test_demo"


def test_a_test_that_has_gone_is_no_link(shown) -> None:
    (note,) = shown(("loop", 3, "tests/test_demo.py::test_gone"))
    assert note.text.endswith("test_gone")
    assert not [e for e in note.all() if e.tag == "a"]


def test_an_old_record_says_so(shown, project: Project) -> None:
    kernel = project.root / "src/demo/kernel.py"
    text = kernel.read_text(encoding="utf-8")
    shown(("loop", 3, TEST))
    kernel.write_text(text.replace("2 * x", "3 * x"), encoding="utf-8")
    library = Library(read_project(project.root))
    page = Page(library, Repository(project.root, ""), Links("source/x/"), "en")
    html = source_page(page, library.sources.file("demo/kernel.py"))
    (note,) = read(html).with_class("cw-missed")
    assert [age.text for age in note.with_class("cw-age")] == ["old"]


def test_no_record_no_note(project: Project) -> None:
    library = Library(project)
    page = Page(library, Repository(project.root, ""), Links("source/x/"), "en")
    html = source_page(page, library.sources.file("demo/kernel.py"))
    assert "cw-missed" not in html
