"""Which files of the tree have names of some form.

tests/flashwalk/**/test_*.py    those in the folder and below it
tests/conftest.py               this one, where it is there
"""

import os
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath


def matching(root: Path, pattern: str) -> list[str]:
    """The files of that form as paths from `root`, sorted.

    Hidden folders, and those of compiled files, are passed by.
    """
    folder, stars, name = pattern.rpartition("**/")
    if not stars:
        return [pattern] if (root / pattern).is_file() else []
    found = []
    for place, folders, files in os.walk(root / folder):
        folders[:] = [one for one in folders if one[0] != "." and one != "__pycache__"]
        inside = PurePosixPath(Path(place).relative_to(root).as_posix())
        found += [str(inside / file) for file in files if fnmatchcase(file, name)]
    return sorted(found)
