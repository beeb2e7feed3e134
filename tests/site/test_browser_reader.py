"""The cards of chips and of values, in a browser."""

from reader_visit import CARD, box, chip, focused, host, lit, visit
from test_browser import PHONE, browser

__all__ = ["browser", "host", "visit"]  # fixtures


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
