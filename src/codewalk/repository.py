"""What git knows of the tree that is being built."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from codewalk.git import git


@dataclass(frozen=True)
class Permalink:
    """A link to lines in the repository, or why there is none (`url` empty)."""

    url: str
    reason: str = ""  # a key of render.words


class Repository:
    """The state of the working tree, asked of git once a build."""

    def __init__(self, root: Path, address: str):
        """`address` is where the repository is published; empty: nowhere."""
        self.root = root
        self.address = address

    @cached_property
    def commit(self) -> str:
        """The commit that is checked out; empty without git."""
        return self._git("rev-parse", "HEAD").strip()

    @cached_property
    def _shallow(self) -> bool:
        return (self._git("rev-parse", "--is-shallow-repository")).strip() == "true"

    @cached_property
    def _edited(self) -> frozenset[str]:
        """Paths that differ from the commit, or that git does not know."""
        listing = self._git("status", "--porcelain", "-z", "--no-renames", "-uall")
        return frozenset(entry[3:] for entry in listing.split("\0") if entry)

    def permalink(self, path: str, start: int, end: int) -> Permalink:
        """A link to these lines at the built commit, where they are the same there."""
        if not self.address:
            return Permalink("")
        if not self.commit:
            return Permalink("", "no-git")
        if self._shallow:
            return Permalink("", "shallow")
        if path in self._edited:
            return Permalink("", "edited")
        place = f"{quote(path)}#L{start}-L{end}"
        return Permalink(f"{self.address}/blob/{self.commit}/{place}")

    def _git(self, *words: str) -> str:
        """What git says as text; empty where it says nothing."""
        return (git(self.root, *words) or b"").decode()
