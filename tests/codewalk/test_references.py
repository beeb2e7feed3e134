"""From the text of a reference to a thing that exists, or to a clear error."""

import contextlib

import pytest
from example_project import make_project
from hypothesis import given, settings
from hypothesis import strategies as st

from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.references import (
    Figure,
    Library,
    Plot,
    Source,
    Table,
    Value,
    scheme_of,
)


@pytest.fixture
def library(project: Project) -> Library:
    return Library(project)


def test_schemes() -> None:
    assert scheme_of("src:a.py") == "src"
    assert scheme_of("https://a") == ""
    assert scheme_of("scr:a") == "scr"
    assert scheme_of("mailto:a@example.org") == ""
    assert scheme_of("page.md") == ""
    assert scheme_of("src") == ""


def test_source(library: Library) -> None:
    found = library.resolve("src:demo/kernel.py#inner-step", "en")
    assert isinstance(found, Source)
    assert (found.span.start, found.span.end) == (16, 17)


def test_percent_encoding(library: Library, project: Project) -> None:
    (project.root / "src/demo/with space.py").write_text("x = 1\n")
    found = library.resolve("src:demo/with%20space.py", "en")
    assert isinstance(found, Source)
    assert found.span.file.name == "with space.py"


def test_value(library: Library) -> None:
    found = library.resolve("result:speed?impl=ours&n=1024#tflops", "en")
    assert isinstance(found, Value)
    assert found.row is not None
    assert found.row.values["tflops"] == 412.345
    assert (found.device, found.state) == ("gpu-one", "fresh")


def test_a_part_of_the_case_may_be_shown_too(library: Library) -> None:
    found = library.resolve("result:speed?impl=ours&causal=true#n", "en")
    assert isinstance(found, Value)
    assert found.scalar == 2048


def test_booleans_are_written_in_lower_case(library: Library) -> None:
    found = library.resolve("result:speed?impl=ours&causal=true#tflops", "en")
    assert isinstance(found, Value)
    assert found.row is not None
    assert found.row.case["n"] == 2048


def test_a_cpu_job_is_looked_for_on_the_cpu(library: Library) -> None:
    found = library.resolve("result:facts?claim=leak#share", "en")
    assert isinstance(found, Value)
    assert found.device == "cpu"


def test_what_could_not_be_measured_is_no_value(library: Library) -> None:
    found = library.resolve("result:speed?impl=peer&n=2048#tflops", "en")
    assert isinstance(found, Value)
    assert found.state == "unmeasured"


def test_an_edited_input_makes_it_stale(project: Project, edit) -> None:
    edit("src/demo/kernel.py", "2 * x", "3 * x")
    found = Library(project).resolve("result:speed?impl=ours&n=1024#tflops", "en")
    assert isinstance(found, Value)
    assert found.state == "stale"
    assert found.changes[0].path == "src/demo/kernel.py"


def test_an_edited_comment_does_not(project: Project, edit) -> None:
    edit("src/demo/kernel.py", "Twice the input.", "The input, twice.")
    found = Library(project).resolve("result:speed?impl=ours&n=1024#tflops", "en")
    assert isinstance(found, Value)
    assert found.state == "fresh"


def test_optional_values_may_be_missing(library: Library) -> None:
    found = library.resolve("result:never?n=1#v", "en", optional=True)
    assert isinstance(found, Value)
    assert found.state == "missing"


def test_table(library: Library) -> None:
    found = library.resolve("result:facts?claim=walk&table=block,m", "en")
    assert isinstance(found, Table)
    assert [row.case["block"] for row in found.rows] == [1, 2]


def test_plot(library: Library) -> None:
    found = library.resolve("result:speed?x=n&y=tflops&by=impl", "en")
    assert isinstance(found, Plot)
    assert found.names == ("ours", "peer")


def test_plot_with_a_list_of_values(library: Library) -> None:
    found = library.resolve("result:speed?x=n&y=tflops&by=impl&impl=peer,ours", "en")
    assert isinstance(found, Plot)
    assert len(found.rows) == 4


def test_figure_has_the_words_of_the_language(library: Library) -> None:
    found = library.resolve("figure:walk", "zh")
    assert isinstance(found, Figure)
    assert "一个论断" in found.svg
    english = library.resolve("figure:walk", "en")
    assert isinstance(english, Figure)
    assert "keys &lt; all" in english.svg


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("src:demo/kernel.py#lop", r"nearest: .*loop"),
        ("src:demo/kernel.py#L4", "lines move"),
        ("src:demo/kernle.py", r"nearest: demo/kernel\.py"),
        ("result:sped?n=1#tflops", r"no job 'sped': nearest: speed"),
        (
            "result:never?n=1#v",
            r"no record for device gpu-one|no record for device cpu",
        ),
        (
            "result:speed?device=gpu-two&n=1#v",
            r"device gpu-two; there is one for gpu-one",
        ),
        (
            "result:speed?impl=ours#tflops",
            r"2 rows; they differ in n \(1024, 2048\); causal",
        ),
        ("result:speed?imp=ours#tflops", r"no column 'imp'.*nearest: impl"),
        ("result:speed?impl=our#tflops", r"no row has impl=our; nearest: ours"),
        ("result:speed?impl=ours&n=1024#tflop", r"no value 'tflop'; nearest: tflops"),
        ("result:speed?impl=ours&n=1024", "says no value"),
        ("result:speed?impl=ours&causal=true&n=1024#tflops", "no row meets all"),
        ("result:speed?n=1&n=2#tflops", "'n' is given twice"),
        ("result:speed?n#tflops", "bad query field"),
        ("result:speed?x=n&by=impl", "a plot needs y="),
        ("result:speed?x=n&y=tflop&by=impl", r"no number 'tflop'; nearest: tflops"),
        ("result:speed?x=m&y=tflops&by=impl", "no column 'm'"),
        ("result:speed?x=impl&y=tflops&by=n", "is no number"),
        ("result:facts?claim=walk&table=block,mm", r"no column 'mm'; nearest: m"),
        ("figure:wlk", "nearest: walk"),
        ("scr:demo/kernel.py#loop", r"no such scheme; nearest: .*src"),
        ("src:demo/notes.txt", "only Python files have a source page"),
    ],
)
def test_errors(library: Library, target: str, message: str) -> None:
    with pytest.raises(CodewalkError, match=message):
        library.resolve(target, "en")


def test_two_rows_for_one_point(library: Library) -> None:
    with pytest.raises(CodewalkError, match=r"2 rows for one point; they differ in im"):
        library.resolve("result:speed?x=n&y=tflops&by=causal&n=1024", "en")


def test_a_figure_without_its_words(library: Library, edit) -> None:
    edit("docs/figures/walk.toml", 'key = "键"', "")
    with pytest.raises(CodewalkError, match=r"walk\.toml has no \[zh\] 'key'"):
        library.resolve("figure:walk", "zh")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """One library for all examples of a property."""
    return Library(make_project(tmp_path_factory.mktemp("shared")))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(text=st.text(alphabet="resultfigsc:/?&=#,.%20né\x00~demo", max_size=40))
def test_any_text_gives_a_clean_error_or_a_thing(shared: Library, text: str) -> None:
    for scheme in (
        "src:",
        "diff:demo/",
        "result:speed",
        "figure:",
        "up:",
        "cite:",
        "test:",
    ):
        with contextlib.suppress(CodewalkError):
            assert shared.resolve(scheme + text, "en")
