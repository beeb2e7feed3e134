"""NVIDIA's compute-sanitizer, which watches a program of small launches."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def _sanitizer() -> str | None:
    """The tool, where there is one."""
    places = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
    return shutil.which("compute-sanitizer") or (str(places[-1]) if places else None)


NEEDS_SANITIZER = pytest.mark.skipif(
    _sanitizer() is None, reason="compute-sanitizer is not installed"
)


def sanitized(tool: str, program: Path) -> str:
    """What one of its tools says of the program, which must end well."""
    done = subprocess.run(
        [_sanitizer(), "--tool", tool, sys.executable, program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "COMPUTE-SANITIZER" in done.stdout
    return done.stdout
