"""When something in a file became what it is, as git remembers it."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from codewalk.git import git

UNKNOWN = "unknown"

# The digest of what a file held, given its bytes; None: there is no such thing.
DigestOf = Callable[[bytes | None], str | None]


def when_changed(
    root: Path, path: str, recorded: str | None, now: str | None, digest: DigestOf
) -> str:
    """When a file, or a part of it that `digest` tells, became what it is `now`.

    The ISO date of the commit after which it was no longer `recorded` (None: it
    was not there); "" where the change is in no commit, UNKNOWN where git cannot
    tell.
    """
    head = (git(root, "rev-parse", "--verify", "HEAD") or b"").decode().strip()
    if not head:
        return UNKNOWN
    if digest(_blob(root, head, path)) != now:
        return ""
    if git(root, "rev-parse", "--is-shallow-repository") != b"false\n":
        return UNKNOWN
    day = UNKNOWN
    for commit, date in _log(root, head, path):
        if digest(_blob(root, commit, path)) == recorded:
            return day
        day = date
    # Before its first commit it was not there. What else was recorded was never in
    # a commit, so that none can be named.
    return day if recorded is None else UNKNOWN


@lru_cache(maxsize=256)
def _log(root: Path, head: str, path: str) -> tuple[tuple[str, str], ...]:
    """The commits up to `head` that touched a file, newest first, with their days."""
    words = ("-c", "log.showSignature=false", "log", "--format=%H %cs", head)
    lines = (git(root, *words, "--", path) or b"").decode().splitlines()
    return tuple((line.split()[0], line.split()[1]) for line in lines)


@lru_cache(maxsize=1024)
def _blob(root: Path, commit: str, path: str) -> bytes | None:
    """A file as it was in a commit, None where it was not."""
    return git(root, "cat-file", "blob", f"{commit}:./{path}")
