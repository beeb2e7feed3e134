"""What can go wrong, said so that an author can mend it."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class CodewalkError(Exception):
    """Something asked for does not exist or is malformed; the text says what."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing to mend, and where: a path from the root and a line (0: all of it)."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}"


def report(problems: Iterable[Problem]) -> str:
    """All problems in the order of the pages, one a line, each once."""
    lines = [str(problem) for problem in sorted(set(problems))]
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n  ".join([f"{count}:", *lines])


def nearest(name: str, names: Iterable[str]) -> str:
    """A clause that names the likeliest meant of `names`, for the end of a message."""
    close = difflib.get_close_matches(name, sorted(set(names)), n=3, cutoff=0.0)
    return "nearest: " + ", ".join(close) if close else "there are none"
