"""Real projects of a few files, and the ways in which tests use them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import codewalk
from codewalk.config import Project, read_project

HOME = Path(codewalk.__file__).parents[1]

# What a job needs to report rows.
REPORT = """
import json, os

def report(case, status="measured", reason="", **values):
    row = {"case": case, "values": values, "status": status, "reason": reason}
    with open(os.environ["CODEWALK_ROWS"], "a") as file:
        file.write(json.dumps(row) + "\\n")
"""


def job(name: str, *command: str, kind: str = "benchmark", needs: str = "cpu") -> str:
    """A job as jobs.toml defines it."""
    words = json.dumps(list(command))
    return f'[jobs.{name}]\nkind = "{kind}"\nneeds = "{needs}"\ncommand = {words}\n'


def make(root: Path, jobs: Sequence[str], files: Mapping[str, str]) -> Project:
    """A project in `root` with these definitions of jobs and these files."""
    write(root, "pyproject.toml", "[tool.codewalk]\n")
    write(root, "docs/jobs.toml", "\n".join(jobs))
    write(root, "src/rows.py", REPORT)
    for path, text in files.items():
        write(root, path, text)
    return read_project(root)


def write(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def environment(**variables: str) -> dict[str, str]:
    """Ours with codewalk on the path, and without what an outer run has set."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("CODEWALK_")}
    return {**inherited, "PYTHONPATH": str(HOME), **variables}


def python(
    folder: Path, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs this Python to its end."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


def git(root: Path, *words: str, day: str = "2026-01-01") -> None:
    """Runs git with nobody's settings; `day` is that of a commit."""
    when = f"{day}T12:00:00Z"
    settings = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_DATE": when,
    }
    subprocess.run(
        ["git", *words],
        cwd=root,
        env=environment(**settings),
        capture_output=True,
        check=True,
    )


def commit(root: Path, day: str) -> None:
    """Commits all that is there."""
    if not (root / ".git").exists():
        git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "A commit", day=day)
