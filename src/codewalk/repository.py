"""What git knows of the tree that is being built."""

import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote


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
        return (self._git("rev-parse", "HEAD") or "").strip()

    @cached_property
    def date(self) -> str:
        """The day of that commit, as ISO 8601; empty without git."""
        return (self._git("log", "-1", "--format=%cs") or "").strip()

    @cached_property
    def _shallow(self) -> bool:
        return (
            self._git("rev-parse", "--is-shallow-repository") or ""
        ).strip() == "true"

    @cached_property
    def _edited(self) -> frozenset[str]:
        """Paths that differ from the commit, or that git does not know."""
        listing = (
            self._git("status", "--porcelain", "-z", "--no-renames", "-uall") or ""
        )
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

    def _git(self, *words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), *words],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout
