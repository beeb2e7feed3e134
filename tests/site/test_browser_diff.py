"""What has changed from one file to another, in a browser."""

import re

import pytest
from reader_book import BEFORE, KERNEL
from reader_visit import CARD, box, chip, host, lit, visit
from test_browser import PHONE, WIDE, browser

__all__ = ["browser", "host", "visit"]  # fixtures

ROW = ".cw-diff .cw-row"
SEEN = "lines => lines.filter(e => e.checkVisibility()).map(e => e.textContent)"


def seen(page, selector: str = f"{ROW} .cw-line") -> list[str]:
    return page.locator(selector).evaluate_all(SEEN)


def contrast(target, ground: str) -> float:
    """Of a text's colour with that of the nearest element like `ground`."""
    colours = target.evaluate(
        "(e, ground) => [getComputedStyle(e).color,"
        " getComputedStyle(e.closest(ground)).backgroundColor]",
        ground,
    )

    def light(colour: str) -> float:
        parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
        linear = [
            n / 12.92 if n <= 0.04045 else ((n + 0.055) / 1.055) ** 2.4 for n in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(light, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_fold_opens_and_closes(visit, scripts: bool) -> None:
    page = visit("diff", java_script_enabled=scripts)
    folds = page.locator(".cw-diff details")
    names = folds.locator("summary").all_inner_texts()
    assert names == ["3 lines unchanged", "− 8 lines", "29 lines unchanged"]
    before = seen(page)
    assert not [line for line in before if "x * 11" in line]
    folds.nth(1).locator("summary").click()
    after = seen(page)
    assert len(after) == len(before) + 8
    assert [line for line in after if "x * 11" in line] == ["    x = x * 11\n"]
    folds.nth(1).locator("summary").press("Enter")
    assert seen(page) == before


def test_a_fold_is_large_enough_and_stays_at_the_left(visit) -> None:
    page = visit("diff", PHONE)
    for summary in page.locator(".cw-diff summary").all():
        size = box(summary)
        assert min(size["width"], size["height"]) >= 24
        assert size["x"] == 0
    pane = page.locator(".cw-diff .cw-pre")
    assert pane.evaluate("e => { e.scrollLeft = 60; return e.scrollLeft }") == 60
    for part in (".cw-diff summary", f"{ROW} .cw-mark"):
        assert box(page.locator(part).first)["x"] == 0


def test_numbers_and_signs_stand_in_columns_beside_the_code(visit) -> None:
    page = visit("diff")
    lefts = page.locator(f"{ROW} .cw-line").evaluate_all(
        "l => l.filter(e => e.checkVisibility() && e.textContent.trim())"
        ".map(e => Math.round(e.getClientRects()[0].left))"
    )
    # Each line begins where the text of the page does: white space is inside it.
    assert set(lefts) == {round(box(page.locator("article h1"))["x"])}
    columns = page.locator(f"{ROW} .cw-mark").evaluate_all(
        "l => l.map(e => ['::before', '::after'].map("
        "p => getComputedStyle(e, p).content.split('/')[0].trim()))"
    )
    assert columns[5:8] == [['"6"', '" "'], ['" "', '"6"'], ['"7"', '"7"']]


def test_on_a_phone_the_old_numbers_go_away(visit) -> None:
    page = visit("diff", PHONE)
    shown = page.locator(f"{ROW} .cw-mark").evaluate_all(
        "l => l.map(e => ['::before', '::after'].map("
        "p => getComputedStyle(e, p).display !== 'none'))"
    )
    assert set(map(tuple, shown)) == {(False, True)}
    signs = page.locator(f"{ROW}.cw-new .cw-mark > [aria-hidden]")
    assert signs.first.inner_text() == "+"
    assert box(signs.first)["x"] < 50
    over = page.evaluate(
        "(e => e.scrollWidth - e.clientWidth)(document.documentElement)"
    )
    assert over <= 0


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_on_paper_everything_is_open(visit, scripts: bool) -> None:
    page = visit("diff", java_script_enabled=scripts)
    page.emulate_media(media="print")
    assert len(seen(page)) == page.locator(ROW).count() > 40
    assert seen(page, ".cw-diff summary") == []
    assert "−" in seen(page, f"{ROW}.cw-gone [aria-hidden]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_new_and_gone_lines_differ_and_can_be_read(visit, scheme: str) -> None:
    page = visit("diff", color_scheme=scheme)
    page.evaluate(
        "s => document.body.setAttribute('data-md-color-scheme', s)",
        {"light": "default", "dark": "slate"}[scheme],
    )
    grounds = {}
    for kind in ("same", "new", "gone"):
        line = page.locator(f"{ROW}.cw-{kind}").filter(visible=True).first
        grounds[kind] = line.evaluate("e => getComputedStyle(e).backgroundColor")
        for part in line.locator(".cw-line, .cw-line > span, .cw-mark").all():
            assert contrast(part, ".cw-row") >= 4.5, (kind, part)
    assert len(set(grounds.values())) == 3
    bar = page.locator(f"{ROW}.cw-new .cw-mark").first
    assert bar.evaluate("e => getComputedStyle(e).borderLeftWidth") == "3px"
    gone = page.locator(f"{ROW}.cw-gone .cw-line").first
    assert "line-through" not in gone.evaluate(
        "e => getComputedStyle(e).textDecorationLine"
    )


def test_the_copy_is_the_new_file(visit) -> None:
    page = visit("diff", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".cw-diff .cw-copy").click()
    page.locator(".cw-diff .cw-copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == KERNEL
    assert BEFORE != KERNEL


def test_a_chip_lights_the_new_lines_and_opens_a_card_for_folded_ones(visit) -> None:
    page = visit("diff")
    chip(page, "first line").hover()
    assert lit(page) == ["5", "6"]
    plain, shown = (
        page.locator(f"{ROW}:has([data-line='{n}'])").evaluate(
            "e => getComputedStyle(e).backgroundColor"
        )
        for n in (7, 5)
    )
    assert plain != shown
    page.wait_for_timeout(500)
    assert page.locator(CARD).count() == 0
    chip(page, "the helper").hover()
    page.locator(CARD).wait_for()


def test_it_hangs_beside_the_text_as_an_embed_does(visit) -> None:
    for width in (WIDE["width"], 1024, 768):
        page = visit("diff", {"width": width, "height": 900})
        figure = box(page.locator(".cw-diff"))
        heading = box(page.locator("article h1"))
        assert 0 <= figure["x"] < heading["x"]
        edge = heading["x"] + heading["width"]
        assert round(figure["x"] + figure["width"]) == round(edge)


def test_what_it_costs_and_buys_is_one_line_right_below(visit) -> None:
    for size in (WIDE, PHONE):
        page = visit("diff", size)
        line = page.locator(".cw-consequence")
        figure = box(page.locator(".cw-diff"))
        assert 0 <= box(line)["y"] - figure["y"] - figure["height"] <= 24
        assert box(line)["x"] == box(page.locator("article h1"))["x"]
        for value in line.locator(".cw-value").all():
            assert value.evaluate("e => e.getClientRects().length") == 1
            assert contrast(value.locator("a"), "body") > contrast(line, "body")
    assert box(page.locator(".cw-consequence"))["height"] <= 2 * 1.6 * 15
