"""Steps and symbols: which lines they are, and which are refused."""

import ast
import textwrap

import pytest
from example_project import KERNEL
from hypothesis import given, settings
from hypothesis import strategies as st

from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.regions import sentence
from codewalk.source import SourceFile, SourceTree


def source(text: str, path: str = "src/demo/kernel.py") -> SourceFile:
    return SourceFile(path, text.encode())


def lines_of(text: str, fragment: str) -> list[str]:
    return list(source(text).span(fragment).lines)


@pytest.mark.parametrize(
    ("fragment", "start", "end"),
    [
        ("scale", 6, 20),
        ("scale.double", 10, 12),
        ("loop", 14, 20),
        ("inner-step", 16, 17),
        ("scale.inner-step", 16, 17),
        ("Box", 23, 26),
        ("Box.method", 24, 26),
        ("Box.method.double", 25, 26),
    ],
)
def test_extent(fragment: str, start: int, end: int) -> None:
    span = source(KERNEL).span(fragment)
    assert (span.start, span.end) == (start, end)


def test_step_text_joins_its_comment_lines() -> None:
    step = source(KERNEL).span("scale.double").region
    assert step is not None
    assert step.text == "Twice the input. More words on a second line."
    assert sentence(step.text) == "Twice the input."


def test_a_step_runs_to_the_end_of_its_block() -> None:
    text = """\
def f(x):
    # [one] First.
    if x:
        a = 1
    else:
        # [two] Nested in the else.
        b = (
            2
        )
    c = 3
    # not part of it
"""
    assert lines_of(text, "one") == text.splitlines()[1:10]
    assert lines_of(text, "two") == text.splitlines()[5:9]


def test_the_next_step_of_the_same_block_ends_a_step() -> None:
    text = "def f():\n    # [a] A.\n    x = 1\n\n    # why\n    # [b] B.\n    y = 2\n"
    assert lines_of(text, "a") == ["    # [a] A.", "    x = 1"]


def test_steps_in_try_with_match_and_loops() -> None:
    text = textwrap.dedent(
        """\
        def f(x):
            try:
                # [tried] T.
                y = 1
            except ValueError:
                # [caught] C.
                y = 2
            finally:
                # [last] L.
                y = 3
            with x:
                # [within] W.
                y = 4
            match y:
                case 1:
                    # [case-one] M.
                    y = 5
            while x:
                # [again] A.
                x = 0
        """
    )
    names = [r.name for r in source(text).regions if r.kind == "step"]
    assert names == ["tried", "caught", "last", "within", "case-one", "again"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# [top] Outside.\nx = 1\n", "outside any function"),
        ("class A:\n    # [body] In a class.\n    x = 1\n", "outside any function"),
        ("def f():\n    x = 1  # [late] Not alone.\n", "alone on its line"),
        (
            "def f():\n    x = (\n        # [in] Inside.\n        1\n    )\n",
            "inside brackets",
        ),
        (
            "def f(x):\n  if x:\n    y = 1\n  # [e] E.\n  else:\n    y = 2\n",
            "before 'else'",
        ),
        (
            "def f(x):\n  if x:\n    y = 1\n  # [e] E.\n  elif 2:\n    y = 2\n",
            "before 'elif'",
        ),
        (
            "def f():\n    x = 1\n    # [end] Nothing follows.\n",
            "no statement after it",
        ),
        (
            "def f():\n  if 1:\n    x = 1\n    # [end] Block ends.\n  y = 1\n",
            "no statement after it",
        ),
        (
            "def f():\n    # [a] A.\n    x = 1\n    # [a] Again.\n    y = 1\n",
            "already at line 2",
        ),
        ("def f():\n    # [f] A symbol.\n    x = 1\n", "a symbol's name"),
        ("def f(:\n", "not Python that parses"),
        ("x = '\0'\n", "not Python that parses"),
    ],
)
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(CodewalkError, match=message):
        source(text).regions  # noqa: B018


def test_an_error_names_file_and_line() -> None:
    with pytest.raises(CodewalkError, match=r"src/demo/kernel\.py:3: step \[e\]"):
        source("def f():\n    x = 1\n    # [e] E.\n").regions  # noqa: B018


def test_what_looks_like_a_step_inside_a_string_is_none() -> None:
    text = 'def f():\n    x = """\n    # [text] Not a comment.\n    """\n    return x\n'
    assert [r.name for r in source(text).regions] == ["f"]


@pytest.mark.parametrize(
    "comment", ["# [x]", "# [X] Upper.", "# [a_b] Under.", "# [1a] D.", "#[1] D."]
)
def test_other_comments_are_no_steps(comment: str) -> None:
    text = f"def f():\n    {comment}\n    return 1\n"
    assert [r.kind for r in source(text).regions] == ["symbol"]


@pytest.mark.parametrize("fragment", ["L52", "L5-L7", "L5-7"])
def test_line_numbers_are_no_address(fragment: str) -> None:
    with pytest.raises(CodewalkError, match="lines move"):
        source(KERNEL).span(fragment)


def test_an_ambiguous_step_names_its_owners() -> None:
    with pytest.raises(
        CodewalkError, match=r"2 functions .*scale\.double.*Box\.method\.double"
    ):
        source(KERNEL).span("double")


def test_an_unknown_name_says_the_nearest() -> None:
    with pytest.raises(CodewalkError, match=r"nearest: .*loop"):
        source(KERNEL).span("lopp")


def test_a_symbol_defined_twice_is_its_last_definition() -> None:
    text = "def f():\n    return 1\n\n\ndef f():\n    return 2\n"
    assert source(text).span("f").start == 5


def test_decorators_over_several_lines_belong_to_the_symbol() -> None:
    text = "@deco(\n    1,\n)\n@other\ndef f():\n    return 1\n"
    assert (source(text).span("f").start, source(text).span("f").end) == (1, 6)


@pytest.mark.parametrize(
    "data",
    [
        KERNEL.replace("\n", "\r\n").encode(),
        KERNEL.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + KERNEL.encode(),
        KERNEL.rstrip("\n").encode(),
    ],
    ids=["crlf", "cr", "bom", "no final newline"],
)
def test_line_ends_and_marks_do_not_shift_lines(data: bytes) -> None:
    span = SourceFile("src/demo/kernel.py", data).span("inner-step")
    assert list(span.lines) == [
        "        # [inner-step] Once more.",
        "        y = y + x",
    ]


def test_only_line_ends_of_python_end_a_line() -> None:
    text = "x = 'a\u2028b\x0cc\x85d'\n\x0cdef f():\n    # [s] S.\n    return 1\n"
    assert source(text).span("s").start == 3


def test_latin_1_with_its_cookie() -> None:
    data = "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1")
    assert SourceFile("src/a.py", data).lines[1] == "x = 'é'"


def test_a_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(CodewalkError, match="cannot be read as text"):
        SourceFile("src/a.py", b"\xff\xfe\x00")


def test_empty_file() -> None:
    assert source("").lines == []
    assert source("").regions == ()


class TestTree:
    def test_addresses(self, project: Project) -> None:
        tree = SourceTree(project)
        assert tree.file("demo/kernel.py").path == "src/demo/kernel.py"
        assert tree.file("tests/test_demo.py").path == "tests/test_demo.py"
        assert tree.address("tests/test_demo.py") == "tests/test_demo.py"
        assert tree.address("src/demo/kernel.py") == "demo/kernel.py"

    @pytest.mark.parametrize(
        "address",
        [
            "../pyproject.toml",
            "demo/../../pyproject.toml",
            "/etc/passwd",
            "tests/../src/x",
        ],
    )
    def test_a_path_cannot_leave_its_root(self, project: Project, address: str) -> None:
        with pytest.raises(CodewalkError, match="leads out of the folder"):
            SourceTree(project).file(address)

    def test_nor_through_a_link(self, project: Project) -> None:
        (project.root / "src/demo/out.py").symlink_to(project.root / "pyproject.toml")
        with pytest.raises(CodewalkError, match="leads out of the folder"):
            SourceTree(project).file("demo/out.py")

    def test_a_loop_of_links_ends(self, project: Project) -> None:
        (project.root / "src/demo/a.py").symlink_to("b.py")
        (project.root / "src/demo/b.py").symlink_to("a.py")
        with pytest.raises(CodewalkError, match=r"demo/a\.py"):
            SourceTree(project).file("demo/a.py")

    def test_a_missing_file_says_the_nearest(self, project: Project) -> None:
        with pytest.raises(CodewalkError, match=r"nearest: demo/kernel\.py"):
            SourceTree(project).file("demo/kernal.py")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A function with steps, blank lines and nested blocks in any arrangement."""
    lines = ["def f(x):"]
    count = 0

    def block(depth: int) -> None:
        nonlocal count
        pad = "    " * depth
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["plain", "step", "if", "split", "note"]))
            if kind == "step":
                lines.append(f"{pad}# [s{count}] Step {count}.")
                count += 1
            if kind == "note":
                lines.extend(["", f"{pad}# a note"])
            if kind == "if" and depth < 3:
                lines.append(f"{pad}if x:")
                block(depth + 1)
            elif kind == "split":
                lines.extend([f"{pad}y = (", "  1", f"{pad})"])
            else:
                lines.append(f"{pad}y = 1")

    block(1)
    return "\n".join(lines) + "\n"


@settings(derandomize=True, deadline=None, max_examples=150)
@given(programs())
def test_every_step_is_whole_statements(text: str) -> None:
    file = source(text)
    for region in file.regions:
        span = file.span(region.qualname)
        shell = "if x:\n" if span.lines[0].startswith(" ") else ""
        parsed = ast.parse(shell + "\n".join(span.lines))
        assert parsed.body, "a region holds at least one statement"
        if region.kind == "step":
            assert span.lines[0].strip().startswith(f"# [{region.name}]")
            assert span.lines[-1].strip(), "no blank line or stray comment at the end"


def test_code_is_what_is_left_without_comments() -> None:
    text = (
        "x = 1  # one\n# two\n\ny = '# no'  \r\n"
        's = """a  \n\n# no\n"""  # three\nz = f(  # four\n    1)\n'
    )
    assert source(text).code == [
        "x = 1",
        None,
        None,
        "y = '# no'",
        's = """a  ',
        "",
        "# no",
        '"""',
        "z = f(",
        "    1)",
    ]


def test_what_does_not_parse_has_no_code() -> None:
    with pytest.raises(CodewalkError, match="not Python that parses"):
        source("x = (\n").code  # noqa: B018
