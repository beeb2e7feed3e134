"""Git, asked in one way."""

import subprocess
from pathlib import Path


def git(root: Path, *words: str) -> bytes | None:
    """What git says in the folder `root`; None where it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "--literal-pathspecs", *words],
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
