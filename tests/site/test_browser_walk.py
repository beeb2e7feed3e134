"""The code beside the text, and the light between them, in a browser."""

import pytest
from conftest import Site
from reader_visit import CARD, LAPTOP, box, chip, focused, host, lit, visit
from test_browser import PHONE, WIDE, Visit, browser

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing")

__all__ = ["browser", "host", "visit"]  # fixtures


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
