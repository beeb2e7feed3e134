"""What the example project says of other projects, papers and tests."""

import json
from dataclasses import replace

from example_project import speed_record

from codewalk.config import Project
from codewalk.records import Record, Row, write_record

COMMIT = "a" * 40

PEER = {"name": "Peer", "repo": "someone/peer", "commit": COMMIT, "license": "MIT"}
SCALE = {
    "id": "peer-scale",
    "label": "peer",
    "path": "src/soft max.h",
    "symbol": "scale",
    "role": "definition",
    "symbol_line": 2,
    "start_line": 1,
    "end_line": 3,
    "sha256": "0" * 64,
    "concept": "scale",
    "what": "It scales.",
}
LINE = {
    **SCALE,
    "id": "peer-line",
    "commit": "b" * 40,
    "path": "a.py",
    "role": "use",
    "symbol_line": 7,
    "start_line": 7,
    "end_line": 7,
}
UPSTREAM = json.dumps({"projects": {"peer": PEER}, "places": [SCALE, LINE]})

PAPERS = """\
[
  {"id": "one", "title": "On <one> thing", "authors": ["Ada Lovelace"], "year": 1843,
   "venue": "Memoirs", "arxiv": "1843.00001", "url": "https://arxiv.org/abs/1843.00001",
   "sections": [{"ref": "Note G", "about": {"en": "a program", "zh": "一个程序"}}]},
  {"id": "two", "title": "Of two", "authors": ["A. B. Cee", "Dora Dee"], "year": 1999,
   "venue": "V", "url": "https://example.org/two", "sections": []},
  {"id": "three", "title": "Of three", "authors": ["Ann Eff", "B", "C"], "year": 2001,
   "venue": "V", "url": "https://example.org/three", "sections": []},
  {"id": "four", "title": "Of three again", "authors": ["Ann Eff", "B", "C"],
   "year": 2001, "venue": "V", "url": "https://example.org/four", "sections": []},
  {"id": "manual", "title": "Manual", "authors": ["The people"], "mark": "Manual",
   "venue": "V", "url": "https://example.org/manual", "sections": []}
]
"""

TESTS = """\
import pytest


def test_demo():
    assert True


@pytest.mark.parametrize("n", [1, 2])
def test_many(n):
    assert n


class TestBox:
    def test_inside(self):
        assert True


def test_new():
    assert True


def test_skipped():
    assert True


def helper():
    return 1
"""
TEST_FILE = "tests/test_demo.py"


def add_reference_files(project: Project) -> None:
    """Writes upstream.json, papers.json and more tests into the project."""
    texts = {"docs/upstream.json": UPSTREAM, "docs/papers.json": PAPERS}
    for name, text in {**texts, TEST_FILE: TESTS}.items():
        (project.root / name).write_text(text, encoding="utf-8")
    jobs = project.root / project.jobs_path
    text = jobs.read_text(encoding="utf-8")
    job = '[jobs.%s]\nkind = "tests"\ncommand = ["python", "-m", "pytest"]\n'
    jobs.write_text(text + job % "tests" + job % "tests-gpu", encoding="utf-8")


def test_row(index: int, name: str, outcome: str) -> Row:
    """A row as the pytest plugin writes it."""
    status = {"passed": "measured"}.get(outcome, outcome)
    case = {"test": f"{TEST_FILE}::{name}"}
    reason = "" if status == "measured" else "because"
    return Row(index, case, {"outcome": outcome}, status, reason)


test_row.__test__ = False  # type: ignore[attr-defined]


def write_outcomes(
    project: Project, job: str = "tests", device: str = "cpu", **outcomes: str
) -> Record:
    """Records how tests came out; `test_many__1` stands for `test_many[1]`."""
    rows = [
        test_row(index, _node(name), outcome)
        for index, (name, outcome) in enumerate(outcomes.items())
    ]
    summary = Row(len(rows), {"summary": "all"}, {"passed": 1}, "measured")
    record = replace(
        speed_record(project),
        job=job,
        device=device,
        job_digest=project.jobs.job(job).digest,
        rows=(*rows, summary),
    )
    write_record(project, record)
    return record


def _node(name: str) -> str:
    head, _, parameters = name.partition("__")
    return f"{head}[{parameters}]" if parameters else head
