"""A source file: its lines, and the spans of it that an address stands for."""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from codewalk.config import Project
from codewalk.errors import CodewalkError, nearest
from codewalk.regions import Region, Regions
from codewalk.text import decode, lines_of, without_comments


@dataclass(frozen=True)
class Span:
    """What an address stands for: a file, and lines of it."""

    file: "SourceFile"
    start: int
    end: int
    region: Region | None = None

    @property
    def lines(self) -> Sequence[str]:
        return self.file.lines[self.start - 1 : self.end]

    @property
    def indent(self) -> str:
        """The white space that all lines with text begin with."""
        indents = [
            line[: len(line) - len(line.lstrip(" \t"))]
            for line in self.lines
            if line.strip()
        ]
        common = min(indents, key=len, default="")
        while not all(indent.startswith(common) for indent in indents):
            common = common[:-1]
        return common


class SourceFile:
    """A text file under one of the project's roots, read once."""

    def __init__(self, path: str, data: bytes):
        """`path` is written from the project's root, with forward slashes."""
        self.path = path
        self.name = path.rpartition("/")[2]
        self.text = decode(path, data)
        self.lines = lines_of(self.text)

    @property
    def regions(self) -> tuple[Region, ...]:
        """Symbols and steps, outer before inner, in the order of the file.

        Raises CodewalkError, with the line, where a step is malformed or the
        file is not Python that parses.
        """
        return self._parsed[0]

    @property
    def docstring(self) -> str:
        """The file's own; empty without one. Raises as `regions` does."""
        return self._parsed[1]

    @cached_property
    def _parsed(self) -> tuple[tuple[Region, ...], str]:
        if not self.name.endswith(".py"):
            return (), ""
        reader = Regions(self.path, self.text)
        return tuple(reader.find()), ast.get_docstring(reader.tree) or ""

    @cached_property
    def code(self) -> list[str | None]:
        """The lines without comments; None where nothing else is on one.

        Raises as `regions` does.
        """
        self.regions  # noqa: B018 (a file that does not parse is an error)
        return without_comments(self.text)

    @cached_property
    def addresses(self) -> dict[str, Region]:
        """Every fragment that leads to exactly one region."""
        found = {region.qualname: region for region in self.regions}
        steps = [region for region in self.regions if region.kind == "step"]
        for step in steps:
            if sum(step.name == other.name for other in steps) == 1:
                found[step.name] = step
        return found

    def span(self, fragment: str) -> Span:
        """The lines that `fragment` (a step, a symbol; empty: all) stands for."""
        if not fragment:
            return Span(self, 1, max(1, len(self.lines)))
        if re.fullmatch(r"L\d+(-L?\d+)?", fragment):
            raise CodewalkError(
                f"{self.path}#{fragment}: lines move, so they are no address; name a "
                f"step or a symbol: {', '.join(self.addresses)}"
            )
        region = self.addresses.get(fragment)
        if region is None:
            raise CodewalkError(f"{self.path}#{fragment}: {self._why_not(fragment)}")
        return Span(self, region.start, region.end, region)

    def enclosing(self, region: Region) -> tuple[Region, ...]:
        """The regions around `region`, from the outermost in."""
        around = [
            other
            for other in self.regions
            if other != region
            and other.start <= region.start
            and region.end <= other.end
        ]
        return tuple(sorted(around, key=lambda other: (other.start, -other.end)))

    def _why_not(self, fragment: str) -> str:
        owners = [
            r.qualname for r in self.regions if r.kind == "step" and r.name == fragment
        ]
        if owners:
            return (
                f"{len(owners)} functions have a step of that name: {', '.join(owners)}"
            )
        return f"no step or symbol of that name; {nearest(fragment, self.addresses)}"


class SourceTree:
    """The project's source files, found by their address and read once."""

    def __init__(self, project: Project):
        self.project = project
        self._files: dict[str, SourceFile] = {}

    def file(self, address: str) -> SourceFile:
        """The file at an address such as `flashwalk/forward.py`."""
        return self.read(self._path(address))

    def read(self, path: Path) -> SourceFile:
        """The file at `path`, which lies under one of the source folders."""
        relative = self.project.relative(path)
        if relative not in self._files:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            self._files[relative] = _file_known(path, relative, stamp)
        return self._files[relative]

    def paths(self) -> list[Path]:
        """Every Python file under the source folders, in order.

        A link that leads out of its folder, or nowhere, is none of them.
        """
        folders = [self.project.root / f for f in self.project.sources.values()]
        return sorted(
            path
            for folder in folders
            for path in folder.rglob("*.py")
            if _is_inside(path, folder.resolve())
        )

    def address(self, path: str) -> str:
        """The address of a file that is given by its path from the root."""
        for prefix, folder in self.project.sources.items():
            if path.startswith(folder + "/"):
                rest = path[len(folder) + 1 :]
                return f"{prefix}/{rest}" if prefix else rest
        raise CodewalkError(f"{path} is under none of the source folders")

    def ambiguous(self, name: str) -> bool:
        """Whether two source files share the name `name`."""
        return self._names[name] > 1

    @cached_property
    def _names(self) -> Counter[str]:
        return Counter(path.name for path in self.paths())

    def _path(self, address: str) -> Path:
        head, _, rest = address.partition("/")
        named = head in self.project.sources and head and rest
        folder = self.project.sources[head if named else ""]
        inside = rest if named else address
        root = (self.project.root / folder).resolve()
        try:
            path = (root / inside).resolve()
            exists = path.is_file()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL
            raise CodewalkError(f"{address}: cannot be followed: {error}") from None
        if not path.is_relative_to(root) or address.startswith("/"):
            raise CodewalkError(f"{address}: leads out of the folder {folder}")
        if not exists:
            known = [self.address(self.project.relative(p)) for p in self.paths()]
            raise CodewalkError(f"{address}: no such file; {nearest(address, known)}")
        return path


@lru_cache(maxsize=4096)
def _file_known(path: Path, relative: str, stamp: tuple[int, int]) -> SourceFile:
    """A file as it was at `stamp`: what a preview knew of it holds in the next."""
    return SourceFile(relative, path.read_bytes())


def _is_inside(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder)
    except (OSError, RuntimeError):  # a loop of links
        return False
