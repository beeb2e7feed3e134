"""From the address of a diff to two parts of files, or to a clear error."""

import pytest
from diff_files import FILES, add_diff_files

from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.pairs import Pair
from codewalk.references import Library
from codewalk.source import Span


@pytest.fixture
def library(project: Project) -> Library:
    add_diff_files(project)
    return Library(project)


def find(library: Library, rest: str) -> Pair:
    found = library.resolve(f"diff:{rest}", "en")
    assert isinstance(found, Pair)
    return found


def place(span: Span | None) -> tuple[str, int, int] | None:
    return span and (span.file.name, span.start, span.end)


@pytest.mark.parametrize(
    ("rest", "old", "new"),
    [
        (f"{FILES}#loop", ("first.py", 17, 27), ("second.py", 11, 21)),
        (FILES, ("first.py", 1, 27), ("second.py", 1, 21)),
        (
            "demo/first.py#first_sum..demo/second.py#second_sum",
            ("first.py", 4, 27),
            ("second.py", 4, 21),
        ),
        (
            "demo/first.py#tail..demo/second.py#second_sum.rest",
            ("first.py", 24, 25),
            ("second.py", 18, 19),
        ),
        (
            "demo/first.py#add..demo/first.py#tail",
            ("first.py", 19, 22),
            ("first.py", 24, 25),
        ),
        # The function that a step is of has another name.
        (f"{FILES}#second_sum.loop", ("first.py", 17, 27), ("second.py", 11, 21)),
        (f"{FILES}#first_sum.loop", ("first.py", 17, 27), ("second.py", 11, 21)),
        # One of them has no such part.
        (f"{FILES}#limit", None, ("second.py", 8, 9)),
        (f"{FILES}#second_sum.limit", None, ("second.py", 8, 9)),
        (f"{FILES}#scale", ("first.py", 8, 15), None),
        (f"{FILES}#second_sum", None, ("second.py", 4, 21)),
        # The file has two functions with that step, and another has one.
        ("demo/kernel.py#Box.method.double..demo/second.py#add", 25, 13),
    ],
)
def test_both_sides(library: Library, rest: str, old: object, new: object) -> None:
    pair = find(library, rest)
    if isinstance(old, int):
        assert pair.old.span
        assert pair.new.span
        assert (pair.old.span.start, pair.new.span.start) == (old, new)
    else:
        assert (place(pair.old.span), place(pair.new.span)) == (old, new)


@pytest.mark.parametrize(
    ("rest", "renames"),
    [
        (f"{FILES}#loop", [("symbol", "first_sum", "second_sum")]),
        (
            "demo/first.py#tail..demo/second.py#rest",
            [("symbol", "first_sum", "second_sum"), ("step", "tail", "rest")],
        ),
        (
            "demo/first.py#first_sum..demo/second.py#second_sum",
            [("symbol", "first_sum", "second_sum")],
        ),
        ("demo/first.py#add..demo/first.py#tail", [("step", "add", "tail")]),
        (FILES, []),
        (f"{FILES}#limit", []),
    ],
)
def test_names_that_have_changed(library: Library, rest: str, renames: object) -> None:
    assert list(find(library, rest).renames) == renames


def test_the_step_of_another_function_is_another_step(library: Library) -> None:
    folder = library.project.root / "src/demo"
    other, step = "def other(x):\n", "    # [rest] The rest.\n    return x\n"
    (folder / "one.py").write_text(f"{other}    return x\n\n\ndef f(x):\n{step}")
    (folder / "two.py").write_text(f"{other}{step}")
    pair = find(library, "demo/one.py..demo/two.py#other.rest")
    assert (place(pair.old.span), place(pair.new.span)) == (None, ("two.py", 2, 3))


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("demo/first.py", r"expected diff:OLD\.\.NEW#name or diff:OLD#name\.\.NEW"),
        ("demo/first.py..", "expected diff:OLD"),
        ("..demo/first.py#loop", "expected diff:OLD"),
        ("demo/first.py..demo/second.py..demo/kernel.py", "expected diff:OLD"),
        ("demo/first.py#loop..demo/second.py", "names a part of one file only"),
        ("demo/first.py#..demo/second.py#loop", "names a part of one file only"),
        ("demo/frist.py..demo/second.py#loop", r"no such file; nearest: demo/first"),
        ("demo/first.py..demo/secnd.py#loop", r"no such file; nearest: demo/second"),
        ("demo/notes.txt..demo/second.py", "only Python files have a source page"),
        ("/etc/passwd..demo/second.py", "leads out of the folder"),
        (f"{FILES}#lop", r"neither file has a step or symbol 'lop'; nearest: loop"),
        (f"{FILES}#limt", r"nearest: limit"),
        (f"{FILES}#L4", "lines move, so they are no address"),
        ("demo/first.py#lop..demo/second.py#loop", r"first\.py#lop: no step.*loop"),
        ("demo/first.py#loop..demo/second.py#lop", r"second\.py#lop: no step.*loop"),
        ("demo/kernel.py..demo/second.py#double", "2 functions have a step of that"),
        ("demo/first.py#loop..demo/first.py#loop", "both sides are the same lines"),
        ("demo/first.py..demo/first.py", "both sides are the same lines"),
    ],
)
def test_errors(library: Library, rest: str, message: str) -> None:
    with pytest.raises(CodewalkError, match=message):
        library.resolve(f"diff:{rest}", "en")


def test_an_old_step_that_two_functions_have_now(library: Library, edit) -> None:
    edit("src/demo/first.py", "# [add]", "# [double]")
    with pytest.raises(CodewalkError, match=r"2 functions have a step 'double': scale"):
        find(Library(library.project), "demo/first.py..demo/kernel.py#first_sum.double")


def test_names_may_be_percent_encoded(library: Library) -> None:
    odd = library.project.root / "src/demo/a..b c.py"
    odd.write_text("x = 1\n", encoding="utf-8")
    pair = find(library, "demo/a%2E%2Eb%20c.py..demo/other.py")
    assert pair.old.file.name == "a..b c.py"


def test_a_file_that_does_not_parse_is_an_error(library: Library, edit) -> None:
    edit("src/demo/first.py", "y = 0", "y = (")
    with pytest.raises(CodewalkError, match="not Python that parses"):
        find(Library(library.project), f"{FILES}#loop")
    with pytest.raises(CodewalkError, match="not Python that parses"):
        find(Library(library.project), FILES).difference  # noqa: B018
