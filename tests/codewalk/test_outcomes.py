"""What the chip of a test says: passed, failed, not run; of which run."""

import pytest
from reference_files import TEST_FILE, add_reference_files, write_outcomes

from codewalk.config import Project, read_project
from codewalk.errors import CodewalkError
from codewalk.outcomes import Outcome
from codewalk.references import Library


@pytest.fixture
def tested(project: Project) -> Project:
    add_reference_files(project)
    return read_project(project.root)


def resolve(project: Project, name: str) -> Outcome:
    found = Library(project).resolve(f"test:{TEST_FILE}::{name}", "en")
    assert isinstance(found, Outcome)
    return found


def test_a_test_that_passed(tested: Project) -> None:
    write_outcomes(tested, test_demo="passed")
    found = resolve(tested, "test_demo")
    assert (found.outcome, found.devices) == ("passed", ("cpu",))
    assert (found.span.start, found.span.end) == (4, 5)
    assert (found.name, found.stale) == ("test_demo", ())


def test_decorators_belong_to_the_lines(tested: Project) -> None:
    assert resolve(tested, "test_many").span.start == 8


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ({}, "not-run"),
        ({"test_many__1": "passed", "test_many__2": "passed"}, "passed"),
        ({"test_many__1": "passed", "test_many__2": "failed"}, "failed"),
        ({"test_many__1": "passed", "test_many__2": "skipped"}, "passed"),
        ({"test_many__1": "skipped", "test_many__2": "skipped"}, "not-run"),
        ({"test_many__1": "skipped", "test_many__2": "failed"}, "failed"),
        ({"test_manyfold": "passed"}, "not-run"),
    ],
)
def test_a_name_stands_for_all_its_cases(
    tested: Project, outcomes: dict[str, str], expected: str
) -> None:
    write_outcomes(tested, **outcomes)
    assert resolve(tested, "test_many").outcome == expected


def test_one_case(tested: Project) -> None:
    write_outcomes(tested, test_many__1="passed", test_many__2="failed")
    assert resolve(tested, "test_many[1]").outcome == "passed"
    assert resolve(tested, "test_many[2]").outcome == "failed"
    assert resolve(tested, "test_many[2]").name == "test_many[2]"


def test_a_case_that_a_current_run_does_not_know(tested: Project) -> None:
    write_outcomes(tested, test_many__1="passed")
    with pytest.raises(CodewalkError, match=r"no such case in the run.*many\[1\]"):
        resolve(tested, "test_many[7]")


def test_a_case_that_an_old_run_does_not_know_is_new(tested: Project, edit) -> None:
    write_outcomes(tested, test_many__1="passed")
    edit("src/demo/kernel.py", "2 * x", "3 * x")
    assert resolve(tested, "test_many[7]").outcome == "not-run"


def test_a_method(tested: Project) -> None:
    name = "TestBox::test_inside"
    write_outcomes(tested, **{name: "passed"})
    found = resolve(tested, name)
    assert (found.outcome, found.name) == ("passed", "TestBox.test_inside")


def test_several_devices(tested: Project) -> None:
    write_outcomes(tested, test_demo="passed", test_new="passed")
    write_outcomes(
        tested, "tests-gpu", "gpu-one", test_demo="passed", test_new="failed"
    )
    assert resolve(tested, "test_demo").devices == ("cpu", "gpu-one")
    new = resolve(tested, "test_new")
    assert (new.outcome, new.devices) == ("failed", ("gpu-one",))


def test_an_old_run_says_so(tested: Project, edit) -> None:
    write_outcomes(tested, test_demo="passed")
    edit("src/demo/kernel.py", "2 * x", "3 * x")
    found = resolve(tested, "test_demo")
    assert found.outcome == "passed"
    ((record, gone),) = found.stale
    assert (record.job, gone[0].path) == ("tests", "src/demo/kernel.py")


def test_records_of_other_kinds_do_not_count(tested: Project, edit) -> None:
    write_outcomes(tested, test_demo="passed")
    head = "[jobs.tests]\nkind = "
    edit("docs/jobs.toml", f'{head}"tests"', f'{head}"claims"')
    assert resolve(read_project(tested.root), "test_demo").outcome == "not-run"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("tests/test_demo.py::test_dmeo", "no such test; nearest: test_demo"),
        ("tests/test_demo.py::test_inside", "nearest: .*TestBox::test_inside"),
        ("tests/test_demo.py::helper", "no such test"),
        ("tests/test_demo.py", "no such test"),
        ("tests/test_dmeo.py::test_demo", r"no such file; nearest: tests/test_demo"),
        ("../tests/test_demo.py::test_demo", "leads out of the folder"),
    ],
)
def test_unknown_tests(tested: Project, node: str, message: str) -> None:
    with pytest.raises(CodewalkError, match=message):
        Library(tested).resolve(f"test:{node}", "en")
