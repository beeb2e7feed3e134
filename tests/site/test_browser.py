"""The built site in a real browser, under a path and a port of its own."""

from collections.abc import Iterator
from urllib.parse import urlparse

import pytest
from conftest import LANGUAGES, Site

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing")

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        yield launched
        launched.close()


class Visit:
    """A page of the browser that remembers what it asked for and complained of."""

    def __init__(self, browser: "sync_api.Browser", **options: object):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.hosts: set[str] = set()
        self.complaints: list[str] = []
        self.page.on("request", self._request)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("response", self._response)

    def _request(self, request: "sync_api.Request") -> None:
        if urlparse(request.url).scheme in ("http", "https"):
            self.hosts.add(urlparse(request.url).netloc)

    def _console(self, message: "sync_api.ConsoleMessage") -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _response(self, response: "sync_api.Response") -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")


def chapters(site: Site) -> list[str]:
    """The addresses of the pages that people read, and one of each other kind."""
    pages = [page.parent.relative_to(site.folder).as_posix() for page in site.pages]
    read = [
        p for p in pages if "/source" not in p and "/results/" not in p and p != "."
    ]
    return [*read, "en/source/flashwalk/forward.py", "zh/source/flashwalk/forward.py"]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_quiet_and_fit(
    site: Site, address: str, browser: "sync_api.Browser", size: dict, scheme: str
) -> None:
    visit = Visit(browser, viewport=size, color_scheme=scheme)
    for name in chapters(site):
        visit.page.goto(f"{address}{name}/")
        overflow = visit.page.evaluate(
            "(e => e.scrollWidth - e.clientWidth)(document.documentElement)"
        )
        assert overflow <= 0, f"{name} scrolls sideways by {overflow} px"
    assert visit.hosts == {urlparse(address).netloc}
    assert not visit.complaints
    visit.context.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_every_chip_of_a_chapter_lands_and_lights(
    address: str, browser: "sync_api.Browser", scripts: bool
) -> None:
    visit = Visit(browser, viewport=WIDE, java_script_enabled=scripts)
    page = visit.page
    chapter = f"{address}en/forward/the-end/"
    page.goto(chapter)
    count = page.locator("a.cw-ref").count()
    assert count >= 5
    for index in range(count):
        page.goto(chapter)
        chip = page.locator("a.cw-ref").nth(index)
        for closed in chip.locator("xpath=ancestor::details/summary").all():
            closed.click()
        start, end = chip.get_attribute("data-start"), chip.get_attribute("data-end")
        chip.click()
        page.wait_for_url(f"**#L{start}-L{end}")
        landed = page.locator(f"[id='L{start}-L{end}']")
        first = landed.locator(f"[id='L{start}']")
        box = first.bounding_box()
        assert box is not None
        assert 0 <= box["y"] <= WIDE["height"], f"chip {index} is not in view"
        if scripts:
            lit = first.evaluate("e => getComputedStyle(e).backgroundColor")
            plain = page.locator(".cw-line").first.evaluate(
                "e => getComputedStyle(e).backgroundColor"
            )
            region = landed.evaluate("e => getComputedStyle(e).backgroundColor")
            assert lit != plain or region != plain, f"chip {index} is not lit"
    visit.context.close()


def test_the_root_page_picks_a_language(
    address: str, browser: "sync_api.Browser"
) -> None:
    for locale, language in (("en-GB", "en"), ("zh-CN", "zh")):
        visit = Visit(browser, locale=locale)
        visit.page.goto(address)
        visit.page.wait_for_url(f"{address}{language}/")
        visit.context.close()


def test_the_root_page_without_scripts(
    address: str, browser: "sync_api.Browser"
) -> None:
    visit = Visit(browser, java_script_enabled=False)
    visit.page.goto(address)
    hrefs = [a.get_attribute("href") for a in visit.page.locator("a").all()]
    for language in LANGUAGES:
        assert any((href or "").strip("./") == language for href in hrefs)
    visit.context.close()


def test_the_language_switch_leads_to_the_twin(
    address: str, browser: "sync_api.Browser"
) -> None:
    visit = Visit(browser, viewport=WIDE)
    visit.page.goto(f"{address}en/source/flashwalk/forward.py/")
    href = visit.page.locator("a[hreflang^=zh]").first.get_attribute("href")
    visit.page.goto(visit.page.evaluate("h => new URL(h, location.href).href", href))
    assert urlparse(visit.page.url).path.endswith("/zh/source/flashwalk/forward.py/")
    visit.context.close()


@pytest.mark.parametrize(("language", "query"), [("en", "rescale"), ("zh", "承诺")])
def test_search_finds_a_word(
    address: str, browser: "sync_api.Browser", language: str, query: str
) -> None:
    visit = Visit(browser, viewport=WIDE)
    visit.page.goto(f"{address}{language}/")
    field = visit.page.locator("input[data-md-component=search-query]")
    field.click()
    # The index is loaded in the background; what is typed before is not heard.
    visit.page.wait_for_function(
        "!/Initializing|初始化/.test("
        "document.querySelector('.md-search-result__meta').textContent)"
    )
    field.fill(query)
    field.press("End")  # the search listens to keys
    visit.page.locator(".md-search-result__link").first.wait_for(state="attached")
    visit.context.close()


def test_math_is_typeset(address: str, browser: "sync_api.Browser") -> None:
    visit = Visit(browser, viewport=WIDE)
    visit.page.goto(f"{address}en/forward/main-loop/")
    if visit.page.locator(".arithmatex").count():
        visit.page.locator(".katex").first.wait_for()
    visit.context.close()
