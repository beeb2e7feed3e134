"""Places in other projects, against clones made for the purpose."""

import json
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from codewalk.cli import main
from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.upstream.places import format_upstream, read_upstream, upstream_path

HEADER = """\
// scale is mentioned first
template <typename T>
__device__ float scale(T x) {
    return 2 * x;
}
float y = scale(1);
"""
MODULE = "import math\n\n\ndef grid(n):\n    return n\n"


class Peer:
    """A clone of another project with a file in each of two languages."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "-q")
        self.first = self.commit({"a.h": HEADER, "b.py": MODULE})

    def commit(self, files: dict[str, str]) -> str:
        for name, text in files.items():
            (self.folder / name).write_bytes(text.encode())
        self._git("add", "-A")
        who = ("-c", "user.name=n", "-c", "user.email=n@example.org")
        self._git(*who, "commit", "-qm", "c", "--no-gpg-sign")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout


def hash_of(text: str, start: int, end: int) -> str:
    lines = text.splitlines(keepends=True)[start - 1 : end]
    return sha256("".join(lines).encode()).hexdigest()


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    return Peer(tmp_path / "clones" / "someone+peer")


@pytest.fixture
def table(project: Project, peer: Peer):
    """upstream.json as a table; writing it back is one call."""
    scale = {
        "id": "scale",
        "label": "peer",
        "path": "a.h",
        "symbol": "scale",
        "role": "definition",
        "symbol_line": 3,
        "start_line": 2,
        "end_line": 5,
        "sha256": hash_of(HEADER, 2, 5),
        "concept": "c",
        "what": "w",
    }
    grid = {
        **scale,
        "id": "grid",
        "path": "b.py",
        "symbol": "def grid",
        "symbol_line": 4,
        "start_line": 4,
        "end_line": 5,
        "sha256": hash_of(MODULE, 4, 5),
    }
    pinned = {
        "name": "Peer",
        "repo": "someone/peer",
        "commit": peer.first,
        "license": "MIT",
    }
    made = {"projects": {"peer": pinned}, "places": [scale, grid]}
    write(project, made)
    return made


def write(project: Project, table: object) -> None:
    upstream_path(project).write_text(json.dumps(table), encoding="utf-8")


@pytest.fixture
def say(project: Project, peer: Peer, monkeypatch, capsys):
    """Runs `codewalk upstream …` in the project: the status and what it says."""
    monkeypatch.chdir(project.root)

    def run(*words: str, folder: Path | None = None) -> tuple[int, str]:
        clones = folder or peer.folder.parent
        status = main(["upstream", *words, "--from", str(clones)])
        out = capsys.readouterr()
        return status, out.out + out.err

    return run


Say = Callable[..., tuple[int, str]]


def test_all_is_as_it_says(table, say: Say) -> None:
    assert say("verify") == (0, "2 hold, 0 fail, 0 not checked\n")


def test_ids_and_labels_choose(table, say: Say) -> None:
    assert say("verify", "grid")[1].startswith("1 hold")
    assert say("verify", "peer")[1].startswith("2 hold")
    assert say("verify", "gird") == (
        2,
        "codewalk: gird: no such place; nearest: grid, peer, scale\n",
    )


def test_a_git_directory_itself_is_a_clone(table, say: Say, peer: Peer) -> None:
    assert say("verify", folder=peer.folder)[0] == 0


def test_an_unpacked_archive_is_one_too(table, say: Say, peer: Peer, tmp_path) -> None:
    archive = tmp_path / "archives" / f"peer-{peer.first}"
    archive.mkdir(parents=True)
    (archive / "a.h").write_text(HEADER)
    status, text = say("verify", folder=archive.parent)
    assert status == 1
    assert "fails: grid (b.py): no file b.py in" in text
    assert "1 hold, 1 fail" in text


def test_files_of_a_commit_are_enough_to_bump(
    project, table, say: Say, tmp_path: Path
) -> None:
    new = "d" * 40
    files = tmp_path / "files" / f"peer-{new}"
    files.mkdir(parents=True)
    (files / "a.h").write_text("\n" + HEADER)
    status, text = say("bump", "peer", new, "--write", folder=files.parent)
    assert (status, "0 same, 1 moved, 0 changed, 1 gone" in text) == (1, True)
    upstream = read_upstream(upstream_path(project))
    assert upstream.places["scale"].commit == new
    assert upstream.places["scale"].start_line == 3
    short = say("bump", "peer", new[:12], folder=files.parent)
    assert (short[0], "no clone of someone/peer" in short[1]) == (2, True)


def test_what_no_clone_is_given_for_is_not_called_fine(
    table, say: Say, tmp_path: Path
) -> None:
    status, text = say("verify", folder=tmp_path)
    assert status == 1
    assert "not checked: scale (a.h): no clone of someone/peer with" in text
    assert text.endswith("0 hold, 0 fail, 2 not checked\n")


def test_a_clone_without_the_commit_checks_nothing(project, table, say: Say) -> None:
    table["projects"]["peer"]["commit"] = "c" * 40
    write(project, table)
    assert "0 hold, 0 fail, 2 not checked" in say("verify")[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "c.h"}, "no file c.h"),
        ({"sha256": "0" * 64}, "lines 2 to 5 have another hash"),
        ({"start_line": 1, "end_line": 4}, "another hash; they stand at 2"),
        ({"end_line": 50}, "line 50 of 6 is asked for"),
        (
            {"symbol_line": 4},
            "'scale' stands not as a definition on line 4; it does on 3",
        ),
        ({"symbol": "scal"}, "'scal' stands not as a definition on line 3"),
        (
            {"role": "use"},
            "stands as a definition and not as a use on line 3; it does on 6",
        ),
        (
            {"symbol_line": 6, "start_line": 6, "end_line": 6},
            "stands as a use and not as a definition on line 6; it does on 3",
        ),
        (
            {"symbol_line": 1, "start_line": 1},
            "stands as text and not as a definition on line 1; it does on 3",
        ),
    ],
)
def test_failures(project, table, say: Say, changes, message: str) -> None:
    table["places"][0] |= changes
    write(project, table)
    status, text = say("verify", "scale")
    assert status == 1
    assert message in text


def test_all_failures_are_told(project, table, say: Say) -> None:
    table["places"][0] |= {"sha256": "0" * 64, "symbol_line": 4}
    table["places"][1] |= {"path": "gone.py"}
    write(project, table)
    text = say("verify")[1]
    assert text.count("fails: scale") == 2
    assert text.count("fails: grid") == 1
    assert "0 hold, 2 fail" in text


def test_bump_says_what_moved_and_what_changed(
    project, table, say: Say, peer: Peer
) -> None:
    new = peer.commit(
        {"a.h": "// a new line\n\n" + HEADER, "b.py": MODULE.replace("n\n", "n + 1\n")}
    )
    before = upstream_path(project).read_text()
    status, text = say("bump", "peer", new)
    assert status == 1
    assert f"peer: {peer.first[:12]} to {new[:12]}" in text
    assert "moved: scale (a.h 2–5): now 4–7" in text
    assert "changed: grid (b.py 4–5): 'def grid' stands on 4" in text
    assert "0 same, 1 moved, 1 changed, 0 gone" in text
    assert upstream_path(project).read_text() == before


def test_bump_writes_what_merely_moved(project, table, say: Say, peer: Peer) -> None:
    new = peer.commit({"a.h": "\n" + HEADER, "b.py": MODULE.replace("n\n", "n + 1\n")})
    assert "1 left at the old commit" in say("bump", "peer", new[:10], "--write")[1]
    upstream = read_upstream(upstream_path(project))
    scale, grid = upstream.places["scale"], upstream.places["grid"]
    assert (scale.commit, scale.symbol_line) == (new, 4)
    assert (scale.start_line, scale.end_line) == (3, 6)
    assert (grid.commit, grid.start_line) == (peer.first, 4)
    assert upstream.projects["peer"].commit == new
    assert say("verify")[0] == 0


def test_bump_where_nothing_moved(project, table, say: Say, peer: Peer) -> None:
    new = peer.commit({"c.txt": "x\n"})
    status, text = say("bump", "peer", "HEAD", "--write")
    assert (status, "2 same" in text) == (0, True)
    assert (
        '"commit"'
        not in format_upstream(read_upstream(upstream_path(project))).partition(
            '"places"'
        )[2]
    )
    assert new in upstream_path(project).read_text()


def test_bump_where_a_file_is_gone(table, say: Say, peer: Peer) -> None:
    (peer.folder / "b.py").unlink()
    new = peer.commit({})
    assert "gone: grid (b.py 4–5): no such file" in say("bump", "peer", new)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bump", "pear", "HEAD"), "no project 'pear'; nearest: peer"),
        (("bump", "peer", "nowhere"), "no clone of someone/peer with a commit nowhere"),
        (("bump", "peer", "--output=x"), ""),
    ],
)
def test_what_cannot_be_bumped(table, say: Say, words, message: str) -> None:
    if not message:
        with pytest.raises(SystemExit):
            say(*words)
    else:
        status, text = say(*words)
        assert (status, message in text) == (2, True)


def test_a_folder_that_is_none(table, say: Say, tmp_path: Path) -> None:
    assert "no such folder" in say("verify", folder=tmp_path / "none")[1]


def test_the_text_of_the_file_is_one_place_a_line(project, table) -> None:
    text = format_upstream(read_upstream(upstream_path(project)))
    assert text.count("\n") == 9
    upstream_path(project).write_text(text, encoding="utf-8")
    assert format_upstream(read_upstream(upstream_path(project))) == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "grid"}, "two places have the id 'grid'"),
        ({"label": "pear"}, "scale: no project 'pear'; nearest: peer"),
        ({"role": "call"}, "role 'call' is none of definition, use, text"),
        ({"symbol_line": 9}, "symbol_line 9 is not within 2 to 5"),
        ({"start_line": 0}, "is not within"),
        ({"start_line": True}, "expected int, got True"),
        ({"commit": "main"}, "'main' is no full commit"),
        ({"colour": "red"}, "no 'colour'"),
        ({"what": None}, "expected str, got None"),
    ],
)
def test_malformed_files(project, table, changes, message: str) -> None:
    table["places"][0] |= changes
    write(project, table)
    with pytest.raises(CodewalkError, match=message):
        read_upstream(upstream_path(project))
