"""The built site, as `make site` leaves it."""

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from html_contract import Element, read

ROOT = Path(__file__).parents[2]
LANGUAGES = ("en", "zh")


class Site:
    """The pages of a built site, each read once, and the root of its project."""

    def __init__(self, folder: Path, root: Path = ROOT):
        self.folder = folder
        self.root = root
        self.pages = sorted(folder.rglob("*.html"))
        self._trees: dict[Path, Element] = {}

    def tree(self, page: Path) -> Element:
        if page not in self._trees:
            self._trees[page] = read(page.read_text(encoding="utf-8"))
        return self._trees[page]

    def target(self, page: Path, href: str) -> tuple[Path, str]:
        """The page and the anchor that a relative link on `page` leads to."""
        address, _, anchor = href.partition("#")
        path = (page.parent / address).resolve() if address else page
        return (path / "index.html" if path.is_dir() else path), anchor

    def with_id(self, page: Path, identity: str) -> Element:
        found = [e for e in self.tree(page).with_attribute("id") if e["id"] == identity]
        assert len(found) == 1, f"{page}: {len(found)} elements with id {identity}"
        return found[0]


@pytest.fixture(scope="session")
def site() -> Site:
    folder = ROOT / "site"
    assert (folder / "index.html").is_file(), "there is no built site: run `make site`"
    return Site(folder)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def address(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serves the site under a path of its own and a free port."""
    root = tmp_path_factory.mktemp("host")
    (root / "some").mkdir()
    (root / "some" / "path").symlink_to(site.folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=root))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/some/path/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's program; CI must have one, a laptop may lack it."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, names)), ""
    )
    if not found and not os.environ.get("CI"):
        pytest.skip("no Chromium on this machine: install it, or name it in CHROMIUM")
    assert found, "CI has no Chromium"
    return found
