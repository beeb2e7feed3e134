"""What a run depended on: which files count, and that they held still."""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import codewalk
from codewalk.config import Project
from codewalk.digest import digest_file
from codewalk.errors import CodewalkError

# Settings of many tools at once: a change of a linter's options must not make
# every record stale. What a job's outcome hangs on belongs in its command or in
# files of its own (conftest.py and pytest.ini count).
_SHARED_SETTINGS = frozenset({"pyproject.toml", "setup.cfg", "tox.ini"})
# What is built or installed rather than written.
_TOP_FOLDERS = frozenset({"site", "build", "dist"})
_FOLDERS = frozenset({"__pycache__", "site-packages", "node_modules"})
_SUFFIXES = (".egg-info", ".dist-info")

Stamp = tuple[int, int]


class Tree:
    """The files under the root that can be inputs, and when each was changed."""

    def __init__(self, project: Project, results: Path):
        """`results` is where this run's records go; nothing there is an input."""
        self.root = project.root
        self._left_out = {
            project.root / project.results,
            results,
            # The interpreter's environment, whatever its folder is called.
            Path(sys.prefix),
            # The machinery that records is not what is measured: a new word in
            # a message of ours would make every record stale.
            Path(codewalk.__file__).parent.resolve(),
        }

    def counts(self, path: str) -> bool:
        """Whether a file, named from the root, can be an input."""
        folders = PurePosixPath(path).parents[:-1]
        if not folders:
            return path not in _SHARED_SETTINGS
        top = folders[-1].name
        return top not in _TOP_FOLDERS and all(map(self._is_source, folders))

    def stamps(self) -> dict[str, Stamp]:
        """The size and the time of change of every file that counts."""
        return dict(self._walk(self.root, ""))

    def _walk(self, folder: Path, prefix: str) -> Iterator[tuple[str, Stamp]]:
        # What goes while we look, or may not be looked at, has no stamp.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if self.counts(f"{path}/x"):
                        yield from self._walk(folder / entry.name, f"{path}/")
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        yield path, _stamp(entry.stat())

    def _is_source(self, folder: PurePosixPath) -> bool:
        name = folder.name
        if name.startswith(".") or name in _FOLDERS or name.endswith(_SUFFIXES):
            return False
        return self.root / folder not in self._left_out


def read_lists(folder: Path) -> set[str]:
    """The files that the processes of a job listed.

    Raises a CodewalkError where there is no list: then nobody knows.
    """
    lists = sorted(folder.glob("*.json"))
    if not lists:
        raise CodewalkError("it left no list of its inputs: did it end by os._exit?")
    return {path for one in lists for path in json.loads(one.read_text("ascii"))}


def read_listings(folder: Path) -> dict[str, tuple[str, ...]]:
    """What a job looked for, and found when it began: see codewalk.listing."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.listings")):
        for pattern, names in json.loads(path.read_text("ascii")).items():
            found.setdefault(pattern, set()).update(names)
    return {pattern: tuple(sorted(names)) for pattern, names in sorted(found.items())}


def digests(
    tree: Tree, listed: Iterable[str], before: Mapping[str, Stamp]
) -> dict[str, str]:
    """The inputs with their digests.

    Raises a CodewalkError if one is not as it was `before` the run: part of the
    run may have seen the old text and part the new.
    """
    found, changed = {}, []
    for path in sorted(filter(tree.counts, listed)):
        try:
            found[path] = digest_file(tree.root / path)
            # After the digest, so that it is of the text that the run saw.
            now = _stamp((tree.root / path).stat())
        except OSError:
            now = None
        if now is None or before.get(path) != now:
            changed.append(path)
    if changed:
        raise CodewalkError(f"changed while it ran: {', '.join(changed[:5])}")
    return found


def _stamp(stat: os.stat_result) -> Stamp:
    return stat.st_mtime_ns, stat.st_size
