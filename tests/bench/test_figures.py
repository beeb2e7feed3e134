"""The drawings: what is committed is what the code draws, with all its words."""

import re
import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.figures import (
    FIGURES,
    backward_bill,
    backward_blocks,
    backward_warps,
    drawing,
    faster_roles,
)
from bench.figures.__main__ import main
from bench.figures.lazy_base import GROWTH, MAXIMA, bases
from bench.figures.register_bars import USED

FOLDER = Path(__file__).parents[2] / "docs/figures"
SVG = "{http://www.w3.org/2000/svg}"
EACH = pytest.mark.parametrize("name", FIGURES)


@EACH
def test_committed_figure_is_what_the_code_draws(name):
    committed = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert committed == FIGURES[name](), "run: PYTHONPATH=src python -m bench.figures"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda p: p.stem)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_word_has_a_text(path, language):
    words = tomllib.loads(path.with_suffix(".toml").read_text(encoding="utf-8"))
    wanted = set(re.findall(r"\{\{(.+?)\}\}", path.read_text(encoding="utf-8")))
    assert {"title", "desc"} <= wanted
    assert set(words[language]) == wanted
    assert all(words[language].values())


@EACH
def test_shapes_lie_on_the_sheet(name):
    svg = ElementTree.fromstring(FIGURES[name]())
    _, _, width, height = map(float, svg.get("viewBox").split())
    assert width == drawing.WIDTH
    for box in svg.iter(SVG + "rect"):
        x, y, w, h = (float(box.get(key)) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width + 1e-6
        assert 0 <= y <= y + h <= height + 1e-6


@EACH
def test_colours_are_the_site_s_own(name):
    svg = FIGURES[name]()
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgba?\(", svg, re.IGNORECASE)
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", svg)


def test_tensors_are_drawn_to_scale():
    svg = ElementTree.fromstring(FIGURES["three-passes"]())
    data = [b for b in svg.iter(SVG + "rect") if b.get("class") == "data"]
    widths = sorted(float(box.get("width")) for box in data)
    assert len({box.get("height") for box in data}) == 1
    assert widths[-1] / widths[0] == pytest.approx(4096 / 64)


def test_grid_numbers_every_program_once():
    svg = ElementTree.fromstring(FIGURES["program-grid"]())
    programs = [t for t in svg.iter(SVG + "text") if not t.get("class")]
    numbers = sorted(int(t.text) for t in programs if t.text.isdecimal())
    assert numbers == list(range(36))


def test_registers_are_those_of_the_tiles_in_use():
    from flashwalk.hopper.forward import TILES

    for tile in USED:
        used = TILES[tile.head_dim]
        assert (tile.block_n, tile.limit) == (used.block_n, used.registers)
        # Q is in registers where they leave room for more than the four tiles.
        room = tile.limit - sum(size for _, size in tile.parts())
        assert used.q_in_registers == (room >= 32)


def test_the_base_moves_once_while_the_maximum_rises_six_times():
    from flashwalk.hopper.forward import GROWTH as OURS

    assert OURS.value == GROWTH
    assert len(set(MAXIMA)) - 1 == 6
    assert bases(MAXIMA, GROWTH) == [3, 3, 3, 3, 3, 12, 12, 12]
    assert bases(MAXIMA, 0) == list(MAXIMA)


def test_the_plan_has_every_tile_once():
    svg = ElementTree.fromstring(FIGURES["tile-order"]())
    names = [
        t.text for t in svg.iter(SVG + "text") if re.fullmatch("[a-f][0-9]", t.text)
    ]
    assert sorted(names) == [f"{head}{n}" for head in "abcdef" for n in range(4)]


def test_arrows_follow_an_axis():
    assert "M0 0L10 0M4 -5L10 0L4 5" in drawing.arrow(0, 0, 10, 0)
    assert "M0 10L0 0M-5 6L0 0L5 6" in drawing.arrow(0, 10, 0, 0)
    with pytest.raises(ValueError, match="follows an axis"):
        drawing.arrow(0, 0, 1, 1)


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kinds are of"):
        drawing.box(0, 0, 1, 1, "no-such")


def test_main_writes_every_figure(tmp_path):
    main(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(FIGURES)


def test_the_timeline_of_roles_keeps_the_rules_of_rings_and_cores():
    spans = faster_roles.Run().spans
    for lane in faster_roles.LANES:
        mine = sorted(span[2:] for span in spans if span.lane == lane)
        assert all(end <= start for (_, end), (start, _) in pairwise(mine))
    start = {s.name: s.start for s in spans if s.lane == "loader"}
    for group in range(faster_roles.GROUPS):
        mine = {s.name: s for s in spans if s.lane == f"group-{group}"}
        for step, ring in (("S", "K"), ("O", "V")):
            for j in range(faster_roles.BLOCKS):
                arrived = start[f"{ring}{j}"] + faster_roles.LOAD
                assert mine[f"{step}{j}"].start >= arrived
                next_in_slot = start.get(f"{ring}{j + faster_roles.SLOTS}")
                assert next_in_slot is None or next_in_slot >= mine[f"{step}{j}"].end


def test_swizzled_the_piece_is_in_every_column_once():
    svg = ElementTree.fromstring(FIGURES["swizzle"]())
    found = [b for b in svg.iter(SVG + "rect") if b.get("class") == "full"]
    places = Counter(float(box.get("x")) for box in found)
    assert sorted(places.values()) == [1] * 8 + [8]


def test_registers_that_change_hands_are_as_many_as_before():
    with pytest.raises(ValueError, match="504 registers became 512"):
        faster_roles.registers_moved(loader=32)


def test_squares_of_the_bill_have_the_areas_of_the_bytes():
    side = backward_bill.sides()
    assert (side["P"] / side["Q"]) ** 2 == pytest.approx(64)
    assert (side["P"] / side["lse"]) ** 2 == pytest.approx(4096)


def test_three_matrices_are_alive_at_once_and_none_of_ours():
    def most(rows):
        matrices = [row[1:3] for row in rows if row[3] == 2]
        return max(
            (sum(a <= at < b for a, b in matrices) for at, _ in matrices), default=0
        )

    assert most(backward_bill.NAIVE) == 3
    assert most(backward_bill.OURS) == 0


def test_bars_of_the_row_weigh_what_they_should():
    assert backward_blocks.answer(backward_blocks.alone()) == 1.0
    row = backward_blocks.weights(backward_blocks.SCORES)
    assert sum(row) == pytest.approx(1)
    assert backward_blocks.answer(row) == pytest.approx(backward_blocks.share(10))
    with pytest.raises(ValueError, match="no sign for a weight"):
        backward_blocks._weight(0.3)


def test_every_order_ends_with_all_four_blocks():
    svg = ElementTree.fromstring(FIGURES["any-order"]())
    kinds = Counter(b.get("class") for b in svg.iter(SVG + "rect"))
    assert kinds == {"tile": 3 * 6, "full": 3}


def test_both_walks_of_the_backward_have_every_block_that_is_seen():
    svg = ElementTree.fromstring(FIGURES["backward-walks"]())
    numbers = [t.text for t in svg.iter(SVG + "text") if t.text.isdecimal()]
    # Of 4 rows the first sees 3 blocks of keys, each further one a block more.
    assert len(numbers) == 2 * (3 + 4 + 5 + 6)
    boxes = Counter(b.get("class") for b in svg.iter(SVG + "rect"))
    assert boxes["diagonal"] == 2 * 4
    assert boxes["skipped"] == 2 * (3 + 2 + 1)


def test_a_weight_is_computed_again_in_less_time_than_it_is_stored_but_at_512():
    svg = ElementTree.fromstring(FIGURES["backward-recompute"]())
    (line,) = (p for p in svg.iter(SVG + "path") if p.get("class") == "now")
    edge = float(re.match(r"M([\d.]+)", line.get("d"))[1])
    ends = [
        float(b.get("x")) + float(b.get("width"))
        for b in svg.iter(SVG + "rect")
        if b.get("class") == "tile"
    ]
    assert [end < edge for end in ends] == [True, True, True, False]


def test_what_a_key_warpgroup_holds_fits_its_registers():
    for group in backward_warps.groups():
        assert sum(size for _, size in group.parts) < group.limit
    # 64 rows of fp32 take half a register of each thread for each column.
    held = dict(backward_warps.groups()[0].parts)
    assert held["dK"] == held["dV"] == 128 / 2


def test_the_products_of_the_timeline_do_not_overlap():
    for lanes in (backward_warps._shared_dq(), backward_warps._helper()):
        for _, spans in lanes:
            ends = [span.start + span.length for span in spans]
            starts = [span.start for span in spans[1:]]
            assert all(e <= s + 1e-9 for e, s in zip(ends[:-1], starts, strict=True))


def test_registers_of_the_backward_are_those_that_its_roles_ask_for():
    source = Path(__file__).parents[2] / "src/flashwalk/hopper/backward.py"
    asked = re.findall(r"\], \[[4, ]+\], \[([\d, ]+)\]\)", source.read_text("utf-8"))
    drawn = [group.limit for group in backward_warps.groups()]
    assert asked == [f"{drawn[1]}, {drawn[1]}, {drawn[2]}", f"{drawn[0]}, {drawn[0]}"]
