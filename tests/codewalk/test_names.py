"""Names written as code in the prose, against the names of the code."""

import pytest

from codewalk.config import Project
from codewalk.names import kernel_of, library_names, names_of, problems, unknown_names
from codewalk.references import Library

KNOWN = names_of(
    "import torch.nn as nn\nfrom a.b import c\n\n\nclass Box:\n    size_x: int\n\n"
    "    def open_it(self, some_flag=1):\n        self.inner_x = nn.relu(some_flag)\n"
    "        return {'row_key': 'two words'}\n"
)


@pytest.mark.parametrize(
    "words",
    [
        "some_flag",
        "open_it(some_flag=2)",
        "Box.open_it",
        "Box.size_x",
        "self.inner_x = nn.relu(some_flag)",
        "inner_x",
        "torch.nn",
        "a.b.c",
        "row_key",
        "max(x)",  # of Python
        "len(some_flag) - 1",
        "plain",  # looks like a word
        "x + y",
        "1.5e3",
        "src/demo/some_file.py",
        "some_file.py",
        "--some_option",
        "'an_unknown_string'",
        'mark="no_name"',
        "[q, k | v]",
        "load-q",
        "",
    ],
)
def test_names_that_are_there_and_what_is_no_name(words: str) -> None:
    assert unknown_names(words, KNOWN) == []


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        ("some_flags", ["some_flags"]),
        ("x = y_z * w", ["y_z"]),
        ("nn.gelu(some_flag)", ["nn.gelu"]),
        ("Box.close", ["Box.close"]),
        ("shut()", ["shut"]),
        ("some_flag.t_1", ["some_flag.t_1"]),
        ("_a[row_key]", []),
        ("two_a + two_b", ["two_a", "two_b"]),
    ],
)
def test_names_that_are_gone(words: str, unknown: list[str]) -> None:
    assert unknown_names(words, KNOWN) == unknown


def found(project: Project, text: str) -> list[tuple[str, int, str]]:
    path = project.root / "docs/en/index.md"
    path.write_text(text, encoding="utf-8")
    return [(p.path, p.line, p.message) for p in problems(Library(project))]


def test_they_are_reported_with_page_and_line(project: Project) -> None:
    (one,) = found(
        project,
        "---\ntitle: T\n---\n# A { #a }\n\n[x](src:demo/kernel.py#loop)\n\n"
        "`math.pi`, `math.tau`\n",
    )
    assert one[:2] == ("docs/en/index.md", 8)
    assert one[2].startswith("no 'math.tau' in the files that this section refers to")
    assert "math.pi" in one[2]


def test_only_sections_that_refer_to_code_and_only_inline_code(
    project: Project,
) -> None:
    text = "`not_there`\n\n# B { #b }\n\n```\nnot_there\n```\n<!-- `not_there` -->\n"
    assert found(project, f"{text}[x](src:demo/kernel.py#loop) not_there\n") == []


def test_a_broken_reference_is_reported_as_such(project: Project) -> None:
    assert (
        found(project, "# A { #a }\n\n[x](src:demo/kernel.py#lop) `not_there`\n") == []
    )


def test_the_list_holds_names_of_others(project: Project) -> None:
    (project.root / "docs/names.txt").write_text("# of others\n\nnot_there  # really\n")
    assert library_names(project) == {"not_there"}
    text = "# A { #a }\n\n[x](src:demo/kernel.py#loop) `not_there` `nor_this`\n"
    assert [one[2].split("'")[1] for one in found(project, text)] == ["nor_this"]


def test_a_chapter_s_kernel_is_always_meant(project: Project) -> None:
    text = "# A { #a }\n\n[x](src:demo/other.py) `math.pi`\n"
    assert len(found(project, text)) == 1
    assert found(project, f"---\nkernel: demo/kernel.py\n---\n{text}") == []
    assert kernel_of(f"---\na: b\nkernel:  demo/x.py \n---\n{text}") == "demo/x.py"
    assert kernel_of(f"---\na: b\n---\nkernel: demo/x.py\n{text}") == ""
