"""What the repository as a whole promises, whatever is in it."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MIB = 2**20


def tracked() -> list[Path]:
    """The files that git knows, and the new ones that it does not ignore."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this tree is no git checkout")
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def texts() -> list[tuple[str, str]]:
    """Every tracked text that was written here: its path and its content."""
    vendored = ("docs/theme/assets/katex", "tests/site/vendor")
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(vendored) and name != "tests/test_tree.py":
            try:
                found.append((name, path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return found


def test_the_repository_stays_small() -> None:
    assert sum(path.stat().st_size for path in tracked()) < 12 * MIB


def test_no_path_of_a_machine_and_no_registry() -> None:
    forbidden = re.compile(
        r"(?<![\w.])/(?:root|home|Users|work)/\w|(?:pypi|files\.pythonhosted|npmjs|download\.pytorch)"
        r"\.(?:org|com)"
    )
    for name, text in texts():
        for number, line in enumerate(text.splitlines(), 1):
            assert not forbidden.search(line), f"{name}:{number}: {line.strip()}"


def test_nothing_is_left_for_later() -> None:
    for name, text in texts():
        if name.startswith(("src/", "tests/", "docs/en/", "docs/zh/")):
            assert not re.search(r"\b(?:TODO|FIXME|XXX|HACK)\b", text), name


def test_source_files_fit_in_a_head() -> None:
    for name, text in texts():
        if name.endswith(".py"):
            assert text.count("\n") <= 400, name


def test_no_measured_quantity_is_typed_into_a_page() -> None:
    """A rate, a time, a bandwidth in prose must come from a record."""
    measured = re.compile(r"\d(?:\.\d+)?[ \u00a0]?(?:TFLOP|TB/s|GB/s|µs|ms\b)")
    for name, text in texts():
        if name.startswith(("docs/en/", "docs/zh/")) or name == "README.md":
            for number, line in enumerate(text.splitlines(), 1):
                assert not measured.search(line), f"{name}:{number}: {line.strip()}"


def test_every_page_has_explicit_ids_for_its_sections() -> None:
    for name, text in texts():
        if re.fullmatch(r"docs/\w+/(?:forward|faster|backward)/.*\.md", name):
            body = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
            for heading in re.findall(r"^#{1,4} .*$", body, flags=re.MULTILINE):
                assert re.search(r"\{ #[a-z][a-z0-9-]* \}$", heading), (name, heading)
