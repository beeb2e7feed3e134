"""Cards, the code beside the text, and the light between them, in a browser."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import Site
from reader_book import make_book
from test_browser import PHONE, WIDE, Visit, browser

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing")
pytest.importorskip("material", reason="Material for MkDocs is not installed")

__all__ = ["browser"]  # a fixture

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


def test_a_card_opens_on_hover_with_the_lines_of_the_source(visit, host) -> None:
    page = visit("reading")
    one = chip(page, "last step")
    assert one.get_attribute("aria-expanded") == "false"
    one.hover()
    assert page.locator(CARD).count() == 0  # not at once
    page.locator(CARD).wait_for()
    assert one.get_attribute("aria-expanded") == "true"
    assert one.get_attribute("aria-controls") == page.locator(CARD).get_attribute("id")
    lines = page.locator(f"{CARD} .cw-line")
    assert lines.all_inner_texts()[0].strip() == "# [last] The last step."
    assert lines.evaluate_all("l => l.map(e => e.dataset.line)") == ["12", "13"]
    assert page.locator(f"{CARD} .cw-k").count() > 0  # in colours
    page.mouse.move(5, 5)
    page.locator(CARD).wait_for(state="detached")
    assert one.get_attribute("aria-expanded") == "false"


def test_a_card_never_covers_the_line_of_its_chip(visit) -> None:
    page = visit("reading")
    for index in (0, 1):
        one = page.locator("a.cw-ref", has_text="the helper").nth(index)
        one.hover()
        page.locator(CARD).wait_for()
        card, link = box(page.locator(CARD)), box(one)
        below = card["y"] >= link["y"] + link["height"]
        assert below or card["y"] + card["height"] <= link["y"]
        page.keyboard.press("Escape")
        page.mouse.move(5, 5)


def test_a_source_page_is_fetched_once(visit, host) -> None:
    page = visit("reading")
    for words in ("the helper", "last step", "helper once more", "last step"):
        chip(page, words).hover()
        page.locator(CARD).wait_for()
        page.keyboard.press("Escape")
        page.locator(CARD).wait_for(state="detached")
    asked = [path for path in host.asked if "/source/" in path]
    assert asked == ["/a/book/source/demo/walked.py/"]


def test_the_keyboard_opens_reads_and_closes_a_card(visit) -> None:
    page = visit("reading")
    one = chip(page, "the other")
    one.focus()
    page.wait_for_timeout(500)
    assert page.locator(CARD).count() == 0  # never by focus alone
    page.keyboard.press("Enter")
    page.locator(CARD).wait_for()
    page.keyboard.press("Tab")
    assert page.locator(CARD).evaluate("e => e.contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert page.locator(CARD).count() == 0
    assert focused(one)
    page.keyboard.press("Enter")
    page.locator(CARD).wait_for()
    page.keyboard.press("Enter")  # the second one follows the link
    page.wait_for_url("**/source/demo/other.py/#L1-L2")


def test_the_focus_leaves_and_the_card_closes(visit) -> None:
    page = visit("reading")
    chip(page, "the other").focus()
    page.keyboard.press("Enter")
    page.locator(CARD).wait_for()
    chip(page, "helper once more").focus()
    assert page.locator(CARD).count() == 0


def test_a_click_follows_the_link_on_a_reading_page(visit) -> None:
    page = visit("reading")
    chip(page, "last step").click()
    page.wait_for_url("**/source/demo/walked.py/#L12-L13")


def test_a_long_press_opens_a_sheet_and_a_tap_follows(visit) -> None:
    page = visit("reading", PHONE, has_touch=True)
    one = chip(page, "the other")
    spot = one.evaluate("e => e.getClientRects()[0].toJSON()")
    at = {"x": spot["x"] + 5, "y": spot["y"] + 5}
    touch = page.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    page.locator(CARD).wait_for()
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    card = box(page.locator(CARD))
    assert card["width"] == PHONE["width"]
    assert card["height"] <= 0.6 * PHONE["height"]
    assert abs(card["y"] + card["height"] - PHONE["height"]) <= 1
    page.locator(f"{CARD} .cw-card-close").click()
    assert page.locator(CARD).count() == 0
    one.tap()
    page.wait_for_url("**/source/demo/other.py/#L1-L2")


def test_lines_in_sight_on_the_page_are_lit_and_need_no_card(visit, host) -> None:
    page = visit("reading")
    one = chip(page, "the middle")
    one.hover()
    assert lit(page) == ["8", "9", "10"]
    page.wait_for_timeout(600)
    assert page.locator(CARD).count() == 0
    assert not [path for path in host.asked if "/source/" in path]
    page.mouse.move(5, 5)
    assert lit(page) == []


def test_cards_work_after_instant_navigation(visit) -> None:
    page = visit("")
    page.locator("article a", has_text="On").click()
    page.wait_for_url("**/reading/")
    chip(page, "the other").hover()
    page.locator(CARD).wait_for()
    page.go_back()
    page.locator(CARD).wait_for(state="detached")


# --- Cards of values ---


def test_a_value_says_where_it_comes_from(visit, host) -> None:
    page = visit("reading")
    value = page.locator(".cw-value > a")
    assert value.get_attribute("role") == "button"
    value.click()
    card = page.locator(CARD)
    card.wait_for()
    text = card.inner_text()
    for part in (
        "412",
        "median of 6, 407.0 to 417.0",
        "GPU One",
        "2026-11-30",
        "n 1024",
    ):
        assert part in text
    assert "python -m demo.speed --all" in text
    assert box(card)["height"] <= 8 * 1.5 * 16  # eight lines
    link = card.locator("a")
    assert link.get_attribute("href").endswith("results/gpu-one/speed/#row-1")
    assert not [path for path in host.asked if "/results/" in path]
    page.keyboard.press("Escape")
    assert card.count() == 0


def test_a_value_by_keyboard(visit) -> None:
    page = visit("reading")
    value = page.locator(".cw-value > a")
    value.focus()
    page.wait_for_timeout(500)
    assert page.locator(CARD).count() == 0
    for key in ("Enter", "Space"):
        page.keyboard.press(key)
        page.locator(CARD).wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        assert focused(value)


def test_a_value_on_a_phone_is_a_sheet(visit) -> None:
    page = visit("reading", PHONE, has_touch=True)
    page.locator(".cw-value > a").tap()
    page.locator(CARD).wait_for()
    assert box(page.locator(CARD))["width"] == PHONE["width"]


def test_without_scripts_links_lead_to_lines_and_rows(visit) -> None:
    page = visit("reading", java_script_enabled=False)
    assert page.locator("article [aria-expanded]").count() == 0
    page.locator(".cw-value > a").click()
    page.wait_for_url("**/results/gpu-one/speed/#row-1")
    page.go_back()
    chip(page, "last step").click()
    page.wait_for_url("**/source/demo/walked.py/#L12-L13")


# --- The walk ---


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_code_stands_beside_the_text_and_stays(visit, scripts: bool) -> None:
    page = visit("walk", java_script_enabled=scripts)
    text = page.locator("#first + p")
    code = page.locator("#first ~ .cw-embed").first
    assert box(code)["x"] > box(text)["x"] + box(text)["width"]
    assert abs(box(code)["y"] - box(page.locator("#first"))["y"]) < 20
    page.mouse.wheel(0, 700)
    page.wait_for_timeout(300)
    assert box(page.locator("#first"))["y"] < 0
    assert 48 <= box(code)["y"] <= 80  # under the header
    assert page.locator("#middle ~ .cw-embed").count() == 2


def test_a_second_embed_goes_across(visit) -> None:
    page = visit("walk")
    first, second = page.locator("#middle ~ .cw-embed").all()
    text, end = page.locator("#middle + p"), page.locator("#middle ~ p").last
    assert box(second)["x"] == box(text)["x"]
    assert box(second)["width"] > box(first)["width"]
    assert box(second)["y"] >= box(first)["y"] + box(first)["height"]
    assert box(end)["y"] > box(second)["y"] + box(second)["height"]


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_narrow_windows_and_paper_have_the_order_of_the_text(visit, size) -> None:
    page = visit("walk", size)
    children = page.locator("#first").locator("xpath=..").locator("> *")
    tops = children.evaluate_all("l => l.map(e => e.getBoundingClientRect().top)")
    assert tops == sorted(tops)
    lefts = [box(page.locator(s).first)["x"] for s in ("#first + p", "#middle + p")]
    assert lefts[0] == lefts[1]
    page.emulate_media(media="print")
    tops = children.evaluate_all("l => l.map(e => e.getBoundingClientRect().top)")
    assert tops == sorted(tops)


def test_nothing_scrolls_sideways_where_the_layout_begins(visit) -> None:
    for width in (1352, 1600, 390, 320):
        page = visit("walk", {"width": width, "height": 800})
        over = page.evaluate(
            "(e => e.scrollWidth - e.clientWidth)(document.documentElement)"
        )
        assert over <= 0, width


def test_pointing_at_a_chip_lights_its_lines_and_the_reverse(visit) -> None:
    page = visit("walk")
    one = chip(page, "second line")
    one.hover()
    assert lit(page) == ["5", "6"]
    page.wait_for_timeout(500)
    assert page.locator(CARD).count() == 0
    page.mouse.move(5, 5)
    assert lit(page) == []
    page.locator("#first ~ .cw-embed .cw-line").first.hover()
    assert "cw-lit" in (one.get_attribute("class") or "")
    one.focus()
    assert lit(page) == ["5", "6"]


def test_a_click_pins_and_escape_releases(visit) -> None:
    page = visit("walk")
    address, height = page.url, page.evaluate("scrollY")
    chip(page, "second line").click()
    page.mouse.move(5, 5)
    assert lit(page) == ["5", "6"]
    assert (page.url, page.evaluate("scrollY")) == (address, height)
    page.keyboard.press("Escape")
    assert lit(page) == []
    chip(page, "second line").click(modifiers=["Alt"])
    assert lit(page) != []  # pointed at, not pinned
    page.mouse.move(5, 5)
    assert lit(page) == []


def test_a_chip_whose_lines_do_not_stand_beside_it_stays_a_link(visit) -> None:
    page = visit("walk")
    chip(page, "a helper").click()
    page.wait_for_url("**/source/demo/walked.py/#L16-L41")


def test_a_narrow_walk_page_has_links_as_any_other(visit) -> None:
    page = visit("walk", LAPTOP)
    chip(page, "second line").click()
    page.wait_for_url("**/source/demo/walked.py/#L5-L6")


def test_following_is_turned_off_and_stays_off(visit) -> None:
    page = visit("walk")
    button = page.locator("button.cw-follow")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    chip(page, "second line").hover()
    assert lit(page) == []
    page.reload()
    assert button.get_attribute("aria-pressed") == "false"
    chip(page, "second line").click()
    page.wait_for_url("**/source/demo/walked.py/#L5-L6")


def test_the_strip_leads_through_the_page(visit) -> None:
    page = visit("walk")
    strip = page.locator("#first ~ .cw-embed .cw-strip").first
    labels = strip.locator("a").evaluate_all("l => l.map(e => e.ariaLabel)")
    assert labels == [
        f"step {n} of 3: {s}" for n, s in enumerate(("first", "middle", "last"), 1)
    ]
    strip.locator("a").first.focus()
    page.keyboard.press("ArrowRight")
    assert focused(strip.locator("a").nth(1))
    for piece in strip.locator("a").all():
        assert min(box(piece)["width"], box(piece)["height"]) >= 24
    page.keyboard.press("Enter")
    page.wait_for_url("**/walk/#middle")


def test_the_navigation_is_in_the_drawer_with_its_button(visit) -> None:
    page = visit("walk")
    side = page.locator(".md-sidebar--primary")
    assert box(side)["x"] + box(side)["width"] <= 0
    page.locator("label.md-header__button[for=__drawer]").click()
    page.wait_for_timeout(400)
    assert box(side)["x"] == 0
    page.locator("label.md-overlay").click(position={"x": 1200, "y": 500})
    page.wait_for_timeout(400)
    side.locator("a:visible").first.focus()
    page.wait_for_timeout(400)
    assert box(side)["x"] == 0


def test_only_the_code_s_own_scroll_position_moves(visit) -> None:
    page = visit("walk", {"width": 1440, "height": 190})
    page.locator("#first").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#first').scrollIntoView()")
    height = page.evaluate("scrollY")
    page.evaluate("document.querySelector('a.cw-ref[data-start=\"5\"]').focus()")
    page.wait_for_timeout(300)
    assert lit(page) == ["5", "6"]
    assert abs(page.evaluate("scrollY") - height) < 400


def test_the_book_s_own_walk_pages_have_code_beside_text(
    site: Site, address: str, browser: "sync_api.Browser"
) -> None:
    walks = [
        page.parent.relative_to(site.folder).as_posix()
        for page in site.pages
        if 'class="cw-walk"' in page.read_text(encoding="utf-8")
    ]
    one = Visit(browser, viewport=WIDE)
    for name in walks:
        one.page.goto(f"{address}{name}/")
        for section in one.page.locator(".cw-walk:has(> .cw-embed)").all():
            text = section.locator("> p").first
            code = section.locator("> .cw-embed").first
            assert box(code)["x"] > box(text)["x"] + box(text)["width"], name
    assert not one.complaints
    one.context.close()
