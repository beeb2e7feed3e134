"""A record knows which of its inputs are no longer what the run saw, and since when."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_project import commit, git, job, make, write

from codewalk.config import Project
from codewalk.digest import digest_file
from codewalk.records import Change, Record, Row, changes


@pytest.fixture
def tiny(tmp_path: Path) -> Project:
    files = {"src/a.py": "x = 1\n", "src/b.py": "y = 1\n", "data/d.txt": "d\n"}
    return make(tmp_path, [job("speed", "python", "src/a.py")], files)


@pytest.fixture
def record(tiny: Project) -> Record:
    """What a run of the project as it is would have stored."""
    paths = ("src/a.py", "src/b.py", "data/d.txt")
    return Record(
        job="speed",
        device="cpu",
        machine={},
        software={},
        command=("python", "src/a.py"),
        started="2026-03-01T12:00:00Z",
        seconds=1.5,
        inputs={path: digest_file(tiny.root / path) for path in paths},
        job_digest=tiny.jobs.job("speed").digest,
        rows=(Row(0, {}, {"ms": 1.0}, "measured"),),
    )


def found(tiny: Project, record: Record) -> tuple[Change, ...]:
    return changes(tiny, record, tiny.jobs.jobs.get("speed"))


def touch(tiny: Project, path: str, text: str) -> None:
    """Edits a file, at another time than before also where clocks are coarse."""
    file = tiny.root / path
    before = file.stat().st_mtime_ns
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))


def test_nothing_changed_is_fresh(tiny: Project, record: Record) -> None:
    assert found(tiny, record) == ()


def test_a_comment_leaves_it_fresh(tiny: Project, record: Record) -> None:
    touch(tiny, "src/a.py", "# one\nx = (1)\n")
    assert found(tiny, record) == ()


def test_a_file_that_is_no_input_leaves_it_fresh(tiny: Project, record: Record) -> None:
    write(tiny.root, "src/c.py", "z = 1\n")
    assert found(tiny, record) == ()


def test_without_git_nobody_knows_when(tiny: Project, record: Record) -> None:
    touch(tiny, "src/a.py", "x = 2\n")
    touch(tiny, "data/d.txt", "e\n")
    (tiny.root / "src/b.py").unlink()
    assert set(found(tiny, record)) == {
        Change("src/a.py", "unknown", gone=False),
        Change("data/d.txt", "unknown", gone=False),
        Change("src/b.py", "unknown", gone=True),
    }


def test_an_edit_that_is_in_no_commit(tiny: Project, record: Record) -> None:
    commit(tiny.root, "2026-03-02")
    touch(tiny, "src/a.py", "x = 2\n")
    (tiny.root / "src/b.py").unlink()
    assert set(found(tiny, record)) == {
        Change("src/a.py", "", gone=False),
        Change("src/b.py", "", gone=True),
    }


def test_the_commit_that_changed_an_input(tiny: Project, record: Record) -> None:
    commit(tiny.root, "2026-03-02")
    touch(tiny, "src/a.py", "# a comment\nx = 1\n")
    commit(tiny.root, "2026-03-03")
    touch(tiny, "src/a.py", "x = 2\n")
    (tiny.root / "src/b.py").unlink()
    commit(tiny.root, "2026-03-04")
    touch(tiny, "src/a.py", "x = 3\n")
    commit(tiny.root, "2026-03-05")
    assert set(found(tiny, record)) == {
        Change("src/a.py", "2026-03-04", gone=False),
        Change("src/b.py", "2026-03-04", gone=True),
    }


def test_a_run_of_what_was_never_committed_has_no_commit_to_blame(
    tiny: Project, record: Record
) -> None:
    touch(tiny, "src/a.py", "x = 2\n")
    commit(tiny.root, "2026-03-02")
    assert found(tiny, record) == (Change("src/a.py", "unknown", gone=False),)


def test_a_shallow_clone_does_not_know_when(
    tiny: Project, record: Record, tmp_path_factory: pytest.TempPathFactory
) -> None:
    commit(tiny.root, "2026-03-02")
    touch(tiny, "src/a.py", "x = 2\n")
    commit(tiny.root, "2026-03-03")
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    git(tiny.root, "clone", "-q", "--depth=1", tiny.root.as_uri(), str(clone))
    shallow = replace(tiny, root=clone)
    assert found(shallow, record) == (Change("src/a.py", "unknown", gone=False),)
    touch(shallow, "src/a.py", "x = 3\n")
    assert found(shallow, record) == (Change("src/a.py", "", gone=False),)


def test_a_project_in_a_folder_of_a_repository(tiny: Project, record: Record) -> None:
    below = tiny.root / "below"
    shutil.copytree(tiny.root / "src", below / "src")
    shutil.copytree(tiny.root / "docs", below / "docs")
    shutil.copytree(tiny.root / "data", below / "data")
    commit(tiny.root, "2026-03-02")
    inner = replace(tiny, root=below)
    touch(inner, "src/a.py", "x = 2\n")
    commit(tiny.root, "2026-03-03")
    assert found(inner, record) == (Change("src/a.py", "2026-03-03", gone=False),)


def test_another_definition_of_the_job(tiny: Project, record: Record) -> None:
    commit(tiny.root, "2026-03-02")
    other = job("speed", "python", "src/a.py", "--fast")
    touch(tiny, "docs/jobs.toml", other)
    again = replace(tiny)  # it reads jobs.toml once
    path = "docs/jobs.toml#jobs.speed"
    assert found(again, record) == (Change(path, "", gone=False),)
    commit(tiny.root, "2026-03-03")
    assert found(again, record) == (Change(path, "2026-03-03", gone=False),)


def test_a_title_leaves_it_fresh(tiny: Project, record: Record) -> None:
    titled = job("speed", "python", "src/a.py") + 'title = { en = "Speed" }\n'
    touch(tiny, "docs/jobs.toml", titled)
    assert found(replace(tiny), record) == ()


def test_a_job_that_is_gone(tiny: Project, record: Record) -> None:
    touch(tiny, "docs/jobs.toml", "")
    path = "docs/jobs.toml#jobs.speed"
    assert found(replace(tiny), record) == (Change(path, "unknown", gone=True),)


def test_a_file_is_digested_once(
    tiny: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(tiny, record) == ()

    def again(path: Path) -> str:
        raise AssertionError(f"{path} is digested again")

    monkeypatch.setattr("codewalk.records.digest_file", again)
    assert found(tiny, record) == ()
