"""Files of other projects at a commit, from what there is on this machine."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from codewalk.errors import CodewalkError
from codewalk.upstream.places import COMMIT


@dataclass(frozen=True)
class Clone:
    """A git directory that has a certain commit, or a folder of the files in it."""

    folder: Path
    commit: str
    archive: bool = False

    def read(self, path: str) -> bytes | None:
        """A file's bytes as they were in the commit; None: it was not there."""
        if not self.archive:
            return _git(self.folder, "show", f"{self.commit}:{path}")
        file = (self.folder / path).resolve()
        inside = file.is_relative_to(self.folder.resolve())
        return file.read_bytes() if inside and file.is_file() else None

    @cached_property
    def date(self) -> str:
        """The day of the commit; empty where only its files are here."""
        if self.archive:
            return ""
        found = _git(self.folder, "show", "-s", "--format=%cs", self.commit)
        return (found or b"").decode().strip()


class Clones:
    """The folders where clones are looked for.

    For owner/name each may be a git directory of it, or hold one as
    `owner+name`, `owner/name` or `name` (with the git directory there, or in a
    folder `repo` below), or hold as `name-COMMIT` files of that commit at their
    paths in the repository: GitHub's archive, or what else was found of them. A
    git directory counts if it has the commit, whatever it is called.
    """

    def __init__(self, folders: Sequence[Path]):
        for folder in folders:
            if not folder.is_dir():
                raise CodewalkError(f"--from {folder}: no such folder")
        self.folders = [folder.resolve() for folder in folders]
        self._known: dict[tuple[str, str], Clone | None] = {}

    def find(self, repo: str, commit: str) -> Clone | None:
        """A clone of `repo` that has `commit`, if there is one."""
        key = (repo, commit)
        if key not in self._known:
            self._known[key] = next(self._found(repo, commit), None)
        return self._known[key]

    def resolve(self, repo: str, commit: str) -> Clone:
        """The same for a commit that may be written short, or as a branch or tag."""
        for folder in self._folders(repo):
            words = ("rev-parse", "--verify", "--quiet", "--end-of-options")
            found = _git(folder, *words, f"{commit}^{{commit}}")
            if found:
                return Clone(folder, found.decode().strip())
        for archive in self._archives(repo, commit):
            return archive
        raise CodewalkError(f"no clone of {repo} with a commit {commit}; say --from")

    def _found(self, repo: str, commit: str) -> Iterator[Clone]:
        for folder in self._folders(repo):
            if _git(folder, "cat-file", "-e", f"{commit}^{{commit}}") is not None:
                yield Clone(folder, commit)
        yield from self._archives(repo, commit)

    def _archives(self, repo: str, commit: str) -> Iterator[Clone]:
        """Folders of files; their name holds the whole commit, nothing shorter."""
        for folder in self.folders if COMMIT.fullmatch(commit) else ():
            archive = folder / f"{repo.rpartition('/')[2]}-{commit}"
            if archive.is_dir():
                yield Clone(archive, commit, archive=True)

    def _folders(self, repo: str) -> Iterator[Path]:
        for folder in self.folders:
            for name in ("", repo.replace("/", "+"), repo, repo.rpartition("/")[2]):
                for place in (folder / name, folder / name / "repo"):
                    if place.is_dir():
                        yield place


def _git(folder: Path, *words: str) -> bytes | None:
    """What git says; None where it fails or is not there."""
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
