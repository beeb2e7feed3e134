"""What a live preview need not make again: source pages that came out the same.

Filling in the theme's template takes most of a page's time. A page whose own
HTML is as it was is written as it was, unless something may have changed that
all pages share: another page's title, the theme, the configuration.
"""

import os
from collections.abc import Iterable
from pathlib import Path

Stamps = dict[str, tuple[int, int]]


class Preview:
    """Whole pages by their address, each with the HTML that it was made from."""

    def __init__(self) -> None:
        self._frame: tuple[str, Stamps] = ("", {})
        self._bodies: dict[str, str] = {}
        self._pages: dict[str, tuple[str, str]] = {}

    def begin(self, build: str, shared: Iterable[Path]) -> None:
        """A build begins; `shared` are the files and folders that all pages use."""
        frame = (build, dict(stamp for path in shared for stamp in _stamps(path)))
        if frame != self._frame:
            self._pages.clear()
        self._frame = frame
        self._bodies = {}

    def page(self, uri: str, body: str) -> str | None:
        """The whole page, if it was made of the same HTML before."""
        self._bodies[uri] = body
        before, output = self._pages.get(uri, (None, ""))
        return output if before == body else None

    def keep(self, uri: str, output: str) -> None:
        """Keeps what the template made of a page."""
        if uri in self._bodies:
            self._pages[uri] = (self._bodies[uri], output)


def _stamps(path: Path) -> Iterable[tuple[str, tuple[int, int]]]:
    """When the file, or each file of the folder, was changed."""
    folders = [path] if path.is_dir() else []
    for file in [path, *(f for folder in folders for f in folder.rglob("*"))]:
        try:
            stat = os.stat(file)
        except OSError:
            continue  # it went while we looked
        yield str(file), (stat.st_mtime_ns, stat.st_size)
