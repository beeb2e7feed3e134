"""axe-core, with the rules that it has on by default, finds nothing of our making.

What it finds in the elements of plain Material is not ours, as long as it finds
the same in pages of plain Material. Everything else is, also where the rule is
one that Material breaks in an element of its own.
"""

from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from example_copy import copy_example, edit, python
from stock_book import make_stock
from test_browser import PHONE, WIDE, Visit, browser

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing")

__all__ = ["browser"]  # a fixture

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
# Each violation: its rule, the classes of the element, and the element.
RUN = """axe.run(document, {elementRef: true}).then(found =>
  found.violations.flatMap(rule => rule.nodes.map(node =>
    [rule.id, node.element.className.toString().trim(), node.html.slice(0, 300)])))"""
SETTINGS = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
}
PAGES = [
    "en/",
    "en/how-to-read/",
    "en/forward/programs/",
    "en/forward/main-loop/",
    "en/source/",
    "en/source/flashwalk/forward.py/",
    "en/results/",
    "en/results/nvidia-h200/forward-d64/",
    "en/coverage/",
    "en/references/",
    "en/backward/online-softmax/",
    "en/about/how-this-site-works/",
    "zh/",
    "zh/source/flashwalk/forward.py/",
]

Violation = tuple[str, str, str]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Path], str]]:
    """Serves a folder on a free port; its address."""
    servers = []

    def start(folder: Path) -> str:
        handler = partial(_Quiet, directory=str(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module", params=SETTINGS)
def visit(request, browser: "sync_api.Browser") -> Iterator[Visit]:
    one = Visit(browser, **SETTINGS[request.param])
    yield one
    one.context.close()


@pytest.fixture(scope="module")
def stock(serve, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the pages of plain Material."""
    return serve(make_stock(tmp_path_factory.mktemp("stock")))


@pytest.fixture(scope="module")
def material(visit: Visit, stock: str) -> set[tuple[str, str]]:
    """What plain Material breaks here: rules, and elements of its own."""
    found = [v for name in ("", "other/") for v in run_axe(visit, stock + name)]
    own = {(rule, name) for rule, name, _ in found if is_material_s(name)}
    assert own, "nothing: is this plain Material, and did axe run?"
    return own


def is_material_s(classes: str) -> bool:
    return bool(classes) and all(c.startswith("md-") for c in classes.split())


def run_axe(visit: Visit, address: str = "", **how: str) -> list[Violation]:
    """What axe finds in the page at this address, or in the one that is open."""
    if address:
        visit.page.goto(address, **how)
    visit.page.evaluate(AXE.read_text(encoding="utf-8"))
    return [tuple(found) for found in visit.page.evaluate(RUN)]


def beyond(
    found: list[Violation], material: set[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The violations that plain Material has not: rule and element."""
    return [(rule, html) for rule, name, html in found if (rule, name) not in material]


def test_the_book_s_pages(visit: Visit, material, address: str) -> None:
    found = {name: beyond(run_axe(visit, address + name), material) for name in PAGES}
    assert not {name: ours for name, ours in found.items() if ours}


def test_the_page_of_the_languages(visit: Visit, address: str) -> None:
    # For who comes from a page of the site, it does not lead on at once.
    assert not run_axe(visit, address, referer=f"{address}en/")
    assert visit.page.url == address


def test_an_open_card(visit: Visit, material, address: str) -> None:
    run_axe(visit, f"{address}en/forward/programs/")
    for link in ("article a.cw-ref", "article .cw-value > a"):
        visit.page.locator(link).first.focus()
        visit.page.keyboard.press("Enter")
        visit.page.locator(".cw-card").wait_for()
        assert not beyond(run_axe(visit), material)
        visit.page.keyboard.press("Escape")


@pytest.fixture(scope="module")
def behind(serve, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of the example that is behind its code."""
    root = copy_example(tmp_path_factory.mktemp("behind") / "copy")
    edit(root / "src/rmsnorm/kernel.py", "tl.sum(x * x, axis=0)", "tl.sum(x * x)")
    done = python(root, "-m", "mkdocs", "build", "--strict", "--quiet")
    assert done.returncode == 0, done.stderr
    return serve(root / "site") + "one-row/"


def test_marks_of_age(visit: Visit, material, behind: str) -> None:
    assert not beyond(run_axe(visit, behind), material)
    for mark in (".cw-behind", ".cw-unread", ".cw-value[data-state=stale]", ".cw-age"):
        assert visit.page.locator(mark).count(), mark


FAULTS = {
    "image-alt": "article.append(new Image())",
    "color-contrast": "article.querySelector('p').style.color = '#777'",
    "label-content-name-mismatch": "article.querySelector('.cw-ref').ariaLabel = 'No'",
    "button-name": "article.querySelector('.cw-copy').textContent = ''",
    "list": "article.insertAdjacentHTML('beforeend', '<ul><p>No item</p></ul>')",
    "aria-dialog-name": "article.setAttribute('role', 'dialog')",
}


def test_planted_faults_are_found(visit: Visit, material, address: str) -> None:
    visit.page.goto(f"{address}en/forward/main-loop/")
    for fault in FAULTS.values():
        visit.page.evaluate(f"article = document.querySelector('article'); {fault}")
    assert {rule for rule, _ in beyond(run_axe(visit), material)} >= set(FAULTS)
