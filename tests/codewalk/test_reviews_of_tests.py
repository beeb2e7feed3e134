"""A section is read against the tests that it points to, as against any other code."""

from pathlib import Path

import pytest
from review_page import DAY, say
from tiny_project import commit

from codewalk.accept import listing, unread
from codewalk.config import Project, read_project
from codewalk.references import Library
from codewalk.reviews import read_reviews
from codewalk.unread import findings, page_findings, passages, when

ROOT = Path(__file__).parents[2]
TESTS = '''\
"""Tests of the demo."""

import pytest


@pytest.mark.parametrize("n", [1, 2])
def test_double(n):
    # A comment.
    assert n + n == 2 * n


class TestBox:
    def test_area(self):
        assert 2 * 3 == 6


def test_other():
    assert True
'''
FILE = "tests/test_box.py"
DOUBLE, AREA = f"test:{FILE}::test_double", f"test:{FILE}::TestBox::test_area"
PAGE = f"""\
# Double {{ #double }}

[all cases]({DOUBLE}), [one]({DOUBLE}[1]), and [the loop](src:demo/kernel.py#loop)

# Area {{ #area }}

[a method]({AREA})
"""


@pytest.fixture
def tested(project: Project) -> Project:
    """The small project with tests that a page points to, all of it read."""
    for path, text in ((FILE, TESTS), ("docs/en/tested.md", PAGE)):
        (project.root / path).write_text(text, encoding="utf-8")
    for name in ("en/index.md", "zh/index.md"):
        (project.root / "docs" / name).unlink()
    say(project, "en/tested#double", "en/tested#area")
    return project


def kinds(project: Project) -> dict[str, list[tuple[str, str]]]:
    library = Library(project)
    found = findings(library, read_reviews(project))
    return {
        one.key.partition("#")[2]: [(c.kind, c.address) for c in one.changes]
        for one in found
    }


def test_a_test_is_code_that_a_section_was_read_against(tested: Project) -> None:
    assert kinds(tested) == {}
    review = read_reviews(tested)["en/tested#double"]
    assert set(review.code) == {DOUBLE, "demo/kernel.py#loop"}
    assert review.code[DOUBLE].lines[0] == '@pytest.mark.parametrize("n", [1, 2])'


def test_a_new_test_reference_was_never_read(tested: Project, edit) -> None:
    edit("docs/en/tested.md", "[a method]", f"[another](test:{FILE}::test_other) [a]")
    assert kinds(tested) == {"area": [("new", f"test:{FILE}::test_other")]}


@pytest.mark.parametrize(
    ("old", "new", "heard"),
    [
        ("n + n == 2 * n", "n + n == n * 2", "double"),
        ("[1, 2]", "[1, 2, 3]", "double"),
        ("2 * 3 == 6", "3 * 2 == 6", "area"),
        ("    def test_area", "    @pytest.mark.slow\n    def test_area", "area"),
        ("# A comment.", "# Another one.", ""),
        ("assert n + n == 2 * n", "assert (n + n) == 2 * n", ""),
        ("assert True", "assert 1", ""),
        ("import pytest\n", "import os\n\nimport pytest\n", ""),
        ("class TestBox:\n", "class TestBox:\n    side = 2\n\n", ""),
    ],
)
def test_an_edit_is_heard_where_the_test_is_pointed_to(
    old: str, new: str, heard: str, tested: Project, edit
) -> None:
    edit(FILE, old, new)
    assert list(kinds(tested)) == heard.split()


def test_a_test_that_is_gone_is_gone(tested: Project, edit) -> None:
    edit(FILE, "def test_double", "def test_twice")
    assert kinds(tested) == {"double": [("gone", DOUBLE)]}
    said = "\n".join(listing(unread(Library(tested))))
    assert f"{DOUBLE} is gone (test:" in said
    assert "no such test" in said


def test_what_a_test_found_is_nothing_to_read_again(tested: Project) -> None:
    """How it came out is for the chip; a test may even have never run."""
    for path in (tested.root / "docs/results").rglob("*.json"):
        path.unlink()
    assert kinds(tested) == {}


def test_accept_shows_the_test(tested: Project, edit) -> None:
    edit(FILE, "2 * 3 == 6", "3 * 2 == 6")
    said = say(tested, "en/tested#area", day="2026-11-28")
    assert f"--- {AREA}: changed" in said
    assert "-     assert 2 * 3 == 6\n+     assert 3 * 2 == 6\n" in said
    assert kinds(tested) == {}


def test_the_page_is_told_and_since_when(tested: Project, edit) -> None:
    commit(tested.root, "2026-11-21")
    edit(FILE, "2 * 3 == 6", "3 * 2 == 6")
    commit(tested.root, "2026-11-24")
    library, reviews = Library(tested), read_reviews(tested)
    found = page_findings(library, reviews, "docs/en/tested.md", PAGE)
    assert list(found) == ["area"]
    assert found["area"].read == DAY
    assert when(library, found["area"], reviews) == "2026-11-24"


# --- edits of the real tests ---------------------------------------------------

REAL = "tests/flashwalk/test_forward.py"
SECTIONS = ("test_rising_maximum", "test_empty_rows", "test_causal_bound")
EDITS = {
    "a bound of the assertion": (
        "assert not out[..., :38, :].any()\n    assert (lse[..., :38] == -math.inf).all"
        "()\n    assert lse",
        "assert (lse[..., :38] == -math.inf).all()\n    assert lse",
        "test_empty_rows",
    ),
    "another problem": (
        "problems.rising_maximum(device, dtype)",
        "problems.soaring_maximum(device, dtype)",
        "test_rising_maximum",
    ),
    "a fixture": (
        "def test_causal_bound(kernel, dtype, device, tile,",
        "def test_causal_bound(kernel, dtype, device, tile, tmp_path,",
        "test_causal_bound",
    ),
    "its cases": (
        '@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t[0]}x{t[1]}")\n'
        "def test_empty_rows",
        '@pytest.mark.parametrize("tile", TILES[:1])\ndef test_empty_rows',
        "test_empty_rows",
    ),
    "a comment": ("    # Written out: row i", "    # Row i", ""),
    "another test": ("softmax_scale=64**-0.5))", "softmax_scale=0.5))", ""),
    "an import": ("import math\n", "import math\nimport os\n", ""),
}


@pytest.mark.parametrize(("old", "new", "heard"), EDITS.values(), ids=EDITS)
def test_an_edit_of_a_real_test(old: str, new: str, heard: str, tmp_path: Path) -> None:
    text = (ROOT / REAL).read_text(encoding="utf-8")
    assert text.count(old) == 1
    page = "".join(f"# A {{ #{n} }}\n\n[it](test:{REAL}::{n})\n\n" for n in SECTIONS)
    files = {"pyproject.toml": "[tool.codewalk]\n", "docs/en/page.md": page, REAL: text}
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, encoding="utf-8")
    before = passages(Library(read_project(tmp_path)))
    reviews = {key: passage.read_on(DAY) for key, passage in before.items()}
    (tmp_path / REAL).write_text(text.replace(old, new), encoding="utf-8")
    found = findings(Library(read_project(tmp_path)), reviews)
    assert [one.key.partition("#")[2] for one in found] == heard.split()
