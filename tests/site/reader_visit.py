"""The small book in a browser: what the tests of cards and walk pages share."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from reader_book import make_book
from test_browser import WIDE, Visit

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing")
pytest.importorskip("material", reason="Material for MkDocs is not installed")


LAPTOP = {"width": 1340, "height": 900}
CARD = ".cw-card"


class _Counting(SimpleHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadingHTTPServer]:
    """The small book, under a path of its own and a free port."""
    site = make_book(tmp_path_factory.mktemp("book"))
    root = tmp_path_factory.mktemp("host")
    (root / "a").mkdir()
    (root / "a" / "book").symlink_to(site)
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Counting, directory=str(root))
    )
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def visit(
    host: ThreadingHTTPServer, browser: "sync_api.Browser"
) -> Iterator[Callable[..., "sync_api.Page"]]:
    """Opens a page of the book; at the end, nothing was complained of."""
    visits = []

    def open_page(name: str, size: dict = WIDE, **options: object) -> "sync_api.Page":
        found = Visit(browser, viewport=size, **options)
        visits.append(found)
        host.asked.clear()  # type: ignore[attr-defined]
        found.page.goto(f"http://127.0.0.1:{host.server_port}/a/book/{name}/")
        return found.page

    yield open_page
    for one in visits:
        assert one.hosts == {f"127.0.0.1:{host.server_port}"}
        assert not one.complaints
        one.context.close()


def chip(page: "sync_api.Page", words: str) -> "sync_api.Locator":
    return page.locator("a.cw-ref", has_text=words).first


def lit(page: "sync_api.Page") -> list[str]:
    return page.locator(".cw-line.cw-lit").evaluate_all(
        "lines => lines.map(line => line.dataset.line)"
    )


def focused(target: "sync_api.Locator") -> bool:
    return target.evaluate("e => document.activeElement === e")


def box(target: "sync_api.Locator") -> dict[str, float]:
    found = target.bounding_box()
    assert found is not None
    return found


# --- Cards of chips ---
