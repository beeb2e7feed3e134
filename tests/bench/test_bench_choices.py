"""The last rung with a choice taken back: the variant is what runs, and only then."""

from dataclasses import replace

import pytest

from bench import hopper_choices
from bench.accuracy import make_inputs
from bench.cases import Case
from bench.hopper_choices import VARIANTS, Variant
from bench.measure import Call, Unsupported
from flashwalk.hopper import forward, schedule

CASE = Case(1, 2, 2, 32, 32, 64, "fp16", causal=True)


@pytest.fixture
def launches(monkeypatch):
    """What each launch had: its tile, and how many heads at once."""
    found = []

    def launched(kernel, case, inputs):
        tile = kernel.launch.keywords["tile"]
        return Call(lambda: found.append((tile, schedule.heads_in_l2(4096, 64, 1))))

    monkeypatch.setattr(hopper_choices, "launched", launched)
    return found


def run(variant, case=CASE):
    hopper_choices.prepare(variant, case, make_inputs(case, "cpu")).run()


def test_a_variant_differs_by_what_it_says(launches):
    usual = schedule.heads_in_l2(4096, 64, 1)
    run(Variant())
    run(Variant({"stages": 3}))
    run(Variant(heads_at_once=7))
    run(Variant())
    tile = forward.TILES[64]
    assert launches == [
        (tile, usual),
        (tile._replace(stages=3), usual),
        (tile, 7),
        (tile, usual),
    ]


def test_the_usual_order_comes_back_after_an_error(monkeypatch):
    usual = schedule.heads_in_l2

    def fail():
        raise RuntimeError("broke")

    monkeypatch.setattr(hopper_choices, "launched", lambda *given: Call(fail))
    with pytest.raises(RuntimeError, match="broke"):
        run(Variant(heads_at_once=7))
    assert schedule.heads_in_l2 is usual


def test_a_block_too_narrow_for_the_diagonal_is_not_run(launches):
    narrow = VARIANTS[256]["32 keys a block"]
    wide = replace(CASE, head_dim=256)
    with pytest.raises(Unsupported, match="diagonal"):
        run(narrow, wide)
    run(narrow, replace(wide, causal=False))
    assert launches[0][0].block_n == 32
