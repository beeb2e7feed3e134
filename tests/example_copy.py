"""Copies of projects in which a second kernel is written about, and work in them.

tests/example is a project of its own. Its copy has the book's theme, as
docs/en/about/how-this-site-works.md asks of another project, and is a git
repository with everything committed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "tests" / "example"
# The last day of its records, so that an edit is newer than they are.
_DAY = "2026-12-01T12:00:00Z"
_NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": _DAY,
    "GIT_COMMITTER_DATE": _DAY,
}
_MADE = shutil.ignore_patterns("__pycache__", ".*_cache", "site")


def copy_example(root: Path) -> Path:
    """Copies the project into the new folder `root`, and commits it there."""
    shutil.copytree(EXAMPLE, root, ignore=_MADE)
    shutil.copytree(ROOT / "docs" / "theme", root / "docs" / "theme")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "All of it"]):
        done = _run(root, "git", *words)
        assert done.returncode == 0, done.stderr
    return root


def copy_book(root: Path) -> Path:
    """Copies what the book is made from into the new folder `root`."""
    for name in ("docs", "src", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=_MADE)
    for name in ("mkdocs.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    return root


def python(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python in `root` to its end, with the codewalk of this tree."""
    return _run(root, sys.executable, *words)


def edit(path: Path, old: str, new: str) -> None:
    """Replaces a text that the file has once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def _run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("CODEWALK_")}
    home = {"PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        words,
        cwd=root,
        env={**inherited, **_NOBODY, **home},
        capture_output=True,
        text=True,
        check=False,
    )
