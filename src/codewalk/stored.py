"""Files that are written whole or not at all."""

import contextlib
import os
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Puts `data` in place of the file, through a temporary one beside it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    # The new name reaches the disk too, where the file system can do that.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
