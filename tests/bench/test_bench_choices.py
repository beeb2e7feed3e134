"""The last rung with a choice taken back: the variant is what runs, and only then."""

from dataclasses import replace

import pytest

from bench import hopper_choices
from bench.accuracy import make_inputs
from bench.cases import Case
from bench.hopper_choices import VARIANTS, Variant
from bench.measure import Unsupported
from flashwalk.hopper import forward, host, schedule

CASE = Case(1, 2, 2, 32, 32, 64, "fp16", causal=True)


@pytest.fixture
def launches(monkeypatch):
    """What each launch had: keys a block, stages, how many heads at once."""
    found = []

    def plan_on_device(tiling, thread_blocks, device):
        return tiling, None

    def launch(recipe, function, tensors, lse):
        assert function is forward._attn_fwd
        tiling = recipe.arguments[0]
        stages = recipe.arguments[-5]
        found.append((tiling.block_n, stages, tiling.heads_at_once))

    monkeypatch.setattr(host, "multiprocessors", lambda device: 3)
    monkeypatch.setattr(host, "describe", lambda *given: None)
    monkeypatch.setattr(host.Recipe, "launch", launch)
    monkeypatch.setattr(forward, "plan_on_device", plan_on_device)
    return found


def prepared(variant, case=CASE):
    return hopper_choices.prepare(variant, case, make_inputs(case, "cpu"))


def test_a_variant_differs_by_what_it_says(launches):
    usual = schedule.heads_in_l2(32, 64, 1)
    asked = [
        Variant(),
        Variant({"stages": 3}),
        Variant(heads_at_once=7),
        Variant({"block_n": 64}),
    ]
    calls = [prepared(variant) for variant in asked]
    # In turns, as they are timed: each keeps what it is.
    for call in (*calls, *reversed(calls)):
        call.run()
    tile = forward.TILES[64]
    once = [
        (tile.block_n, tile.stages, usual),
        (tile.block_n, 3, usual),
        (tile.block_n, tile.stages, 7),
        (64, tile.stages, usual),
    ]
    assert launches == once + once[::-1]


def test_the_usual_order_comes_back_after_an_error(launches, monkeypatch):
    usual = schedule.heads_in_l2

    def fail(*given):
        raise RuntimeError("broke")

    monkeypatch.setattr(forward, "plan_on_device", fail)
    with pytest.raises(RuntimeError, match="broke"):
        prepared(Variant(heads_at_once=7)).run()
    assert schedule.heads_in_l2 is usual


def test_a_block_too_narrow_for_the_diagonal_is_not_run(launches):
    narrow = VARIANTS[256]["32 keys a block"]
    wide = replace(CASE, head_dim=256)
    with pytest.raises(Unsupported, match="diagonal"):
        prepared(narrow, wide)
    prepared(narrow, replace(wide, causal=False)).run()
    assert launches[0][0] == 32
