"""A section that shows a diff is read against both of its sides."""

from collections.abc import Callable
from pathlib import Path

import pytest
from diff_files import FILES, add_diff_files
from kernel_edits import EDITS
from kernel_step_edits import EDITS as STEP_EDITS
from tiny_project import commit

from codewalk.accept import accept, listing, unread
from codewalk.config import Project, read_project
from codewalk.names import problems as name_problems
from codewalk.references import Library
from codewalk.reviews import read_reviews
from codewalk.unread import findings, page_findings, passages, when

ROOT = Path(__file__).parents[2]
PAGE = f"# Changed {{ #changed }}\n\n![](diff:{FILES}#{{}})\n"
CHANGED = "en/index#changed"


@pytest.fixture
def section(project: Project) -> Callable[[str], None]:
    """Writes a page with the diff of a step, and reads it."""
    add_diff_files(project)

    def write(name: str) -> None:
        path = project.root / "docs/en/index.md"
        path.write_text(PAGE.replace("{}", name), encoding="utf-8")
        say(project)

    return write


def say(project: Project) -> str:
    return "\n".join(accept(Library(project), [CHANGED], "2026-11-20"))


def kinds(project: Project) -> list[tuple[str, str]]:
    found = findings(Library(project), read_reviews(project))
    return [
        (c.kind, c.address) for one in found if one.key == CHANGED for c in one.changes
    ]


OLD, NEW = "demo/first.py#loop", "demo/second.py#loop"


def test_both_sides_are_what_a_section_is_read_against(
    project: Project, section
) -> None:
    section("loop")
    assert kinds(project) == []
    assert list(read_reviews(project)[CHANGED].code) == [OLD, NEW]
    said = say(project)
    assert f"--- {OLD}: as it was read\n  # [loop] Again" in said
    assert f"--- {NEW}: as it was read\n  # [loop] Again" in said


@pytest.mark.parametrize(
    ("file", "before", "after", "address"),
    [
        ("first", "y = y + n", "y = y + x", OLD),
        ("first", "range(3)", "range(4)", OLD),
        ("second", "y = y - n", "y = y * n", NEW),
        ("second", "range(end)", "range(end + 1)", NEW),
        ("first", "# a note", "# any other note", ""),
        ("second", "# [rest] What is over.", "# [rest] The rest.", ""),
        ("second", "    return y", "\n\n    # The end.\n    return y", ""),
        ("first", "x = x // 1", "x = x // 2", ""),  # a step before it
        ("second", "end = min(3, x)", "end = 3", ""),
    ],
)
def test_a_change_on_either_side_is_reported(
    project: Project, section, edit, file: str, before: str, after: str, address: str
) -> None:
    section("loop")
    edit(f"src/demo/{file}.py", before, after)
    assert kinds(project) == ([("changed", address)] if address else [])


def test_old_lines_stand_beside_new_ones(project: Project, section, edit) -> None:
    section("loop")
    edit("src/demo/first.py", "range(3)", "range(4)")
    said = "\n".join(listing(unread(Library(project))))
    assert f"    {OLD} has changed" in said
    assert "      - for n in range(3):\n      + for n in range(4):" in said


def test_a_part_that_comes_or_goes_is_a_change(project: Project, section, edit) -> None:
    section("scale")
    absent = "demo/second.py#scale"
    assert read_reviews(project)[CHANGED].code[absent].lines == ()
    assert kinds(project) == []
    edit("src/demo/second.py", "# [limit] No further", "# [scale] No further")
    assert kinds(project) == [("changed", absent)]
    text = (project.root / "docs/en/index.md").read_text()
    (finding,) = page_findings(
        Library(project), read_reviews(project), "docs/en/index.md", text
    ).values()
    assert [change.old for change in finding.code] == [()]
    assert finding.code[0].new[0] == "# [scale] No further than this."
    say(project)
    edit("src/demo/first.py", "# [scale]", "# Scale:")
    assert kinds(project) == [("changed", "demo/first.py#scale")]


def test_a_diff_that_leads_nowhere_now(project: Project, section, edit) -> None:
    section("loop")
    for file in ("first", "second"):
        edit(f"src/demo/{file}.py", "# [loop]", "# [cycle]")
    assert [kind for kind, _ in kinds(project)] == ["gone", "dropped", "dropped"]


def test_names_of_renamed_functions_are_found(project: Project, section, edit) -> None:
    """The old side is kept under its own name, by which it is found again."""
    section("second_sum.loop")
    assert list(read_reviews(project)[CHANGED].code) == [
        "demo/first.py#first_sum.loop",
        "demo/second.py#second_sum.loop",
    ]
    edit("src/demo/first.py", "range(3)", "range(4)")
    assert kinds(project) == [("changed", "demo/first.py#first_sum.loop")]


def test_the_day_of_a_change(project: Project, section, edit) -> None:
    def day() -> str:
        library, reviews = Library(project), read_reviews(project)
        (finding,) = [f for f in findings(library, reviews) if f.key == CHANGED]
        return when(library, finding, reviews)

    section("limit")
    commit(project.root, "2026-11-21")
    edit("src/demo/first.py", "# [start]", "# [limit]")
    assert day() == ""
    commit(project.root, "2026-11-24")
    assert day() == "2026-11-24"
    edit("src/demo/second.py", "min(3, x)", "min(4, x)")
    assert day() == ""
    commit(project.root, "2026-11-27")
    assert day() == "2026-11-27"


def test_names_in_the_text_may_be_those_of_either_side(
    project: Project, section
) -> None:
    section("loop")
    path = project.root / "docs/en/index.md"
    words = "`first_sum`, `second_sum` and `third_sum`"
    path.write_text(f"{path.read_text()}\n{words}\n", encoding="utf-8")
    found = [problem.message for problem in name_problems(Library(project))]
    assert [message.partition(";")[0] for message in found] == [
        "no 'third_sum' in the files that this section refers to"
    ]


# --- Edits of the real kernel -------------------------------------------------

KERNEL = (ROOT / "src/flashwalk/forward.py").read_text(encoding="utf-8")
OF_KERNEL = {
    name: edit for name, edit in {**EDITS, **STEP_EDITS}.items() if edit[0] in KERNEL
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory):
    """A project with the kernel twice, and a section that shows the difference."""
    root = tmp_path_factory.mktemp("kernels")
    files = {
        "pyproject.toml": "[tool.codewalk]\n",
        "docs/en/page.md": "# K { #k }\n\n![](diff:old.py..new.py#_attn_fwd)\n",
        "src/old.py": KERNEL,
        "src/new.py": KERNEL,
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    read = {
        key: passage.read_on("2026-11-20")
        for key, passage in passages(Library(read_project(root))).items()
    }

    def ask(name: str, changed: str) -> list[tuple[str, str]]:
        path = root / "src" / name
        path.write_text(changed, encoding="utf-8")
        found = findings(Library(read_project(root)), read)
        path.write_text(KERNEL, encoding="utf-8")
        return [(c.kind, c.address) for one in found for c in one.changes]

    return ask


@pytest.mark.parametrize("side", ["old", "new"])
@pytest.mark.parametrize("name", OF_KERNEL)
def test_an_edit_of_the_kernel_is_heard_on_either_side(
    kernels, name: str, side: str
) -> None:
    before, after, expected = OF_KERNEL[name]
    heard = [("changed", f"{side}.py#_attn_fwd")]
    found = kernels(f"{side}.py", KERNEL.replace(before, after))
    assert found == (heard if "kernel" in expected.split() else [])
