"""The plan of the Hopper kernel: every tile once, shared out evenly, in order."""

import weakref
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashwalk.hopper.schedule import (
    Tiling,
    heads_in_l2,
    keep_for_graphs,
    plan,
    plan_on_device,
)


def tiling(seqlen_q=1000, seqlen_k=1000, causal=True, block_m=128, **how):
    q = torch.empty(2, how.pop("nheads", 6), seqlen_q, 128, device="meta")
    k = torch.empty(2, 2, seqlen_k, 128, device="meta")
    return Tiling.of(q, k, causal, block_m=block_m, block_n=128)._replace(**how)


def test_tiles_end_with_the_sequence():
    # 1000 rows end at 1024, a multiple of 64; five tiles of 192 begin before 0,
    # six of them at -128.
    assert tiling().row_end == 1024
    assert tiling().tiles_per_head == 8
    assert tiling(block_m=192).tiles_per_head == 6


@settings(max_examples=60)
@given(
    seqlen_q=st.integers(1, 3000),
    more_keys=st.integers(0, 500),
    nheads=st.integers(1, 9),
    causal=st.booleans(),
    block_m=st.sampled_from([128, 192]),
    heads_at_once=st.integers(1, 20),
    thread_blocks=st.integers(1, 140),
)
def test_every_tile_is_walked_once(
    seqlen_q, more_keys, nheads, causal, block_m, heads_at_once, thread_blocks
):
    one = tiling(
        seqlen_q,
        seqlen_q + more_keys,
        causal,
        block_m,
        nheads=nheads,
        heads_at_once=heads_at_once,
    )
    tiles, starts = plan(one, thread_blocks)
    assert sorted(tiles) == list(range(one.heads * one.tiles_per_head))
    assert starts[0] == 0
    assert starts[-1] == len(tiles)
    assert len(starts) == thread_blocks + 1
    assert starts == sorted(starts)


def test_a_causal_tile_costs_what_it_sees():
    one = tiling(seqlen_q=1024, seqlen_k=1024)
    # Tile m ends at row 128 (m + 1), and sees m + 1 blocks of 128 keys.
    assert [round(one.cost(m), 1) for m in range(3)] == [1.7, 2.7, 3.7]
    full = tiling(seqlen_q=1024, seqlen_k=1024, causal=False)
    assert {round(full.cost(m), 1) for m in range(8)} == {8.7}
    # With 500 keys more each row sees them too, and no row more than there are.
    shifted = tiling(seqlen_q=1024, seqlen_k=1524)
    assert shifted.cost(0) == pytest.approx(-(-(128 + 500) // 128) + 0.7)
    assert shifted.cost(7) == pytest.approx(12 + 0.7)


def test_the_longest_come_first_and_the_work_is_even():
    one = tiling(seqlen_q=4096, seqlen_k=4096, nheads=32, heads_at_once=64)
    tiles, starts = plan(one, 132)
    runs = [tiles[a:b] for a, b in pairwise(starts)]
    costs = [[one.cost(t % one.tiles_per_head) for t in run] for run in runs]
    assert all(run == sorted(run, reverse=True) for run in costs)
    totals = [sum(run) for run in costs]
    assert max(totals) <= 1.02 * sum(totals) / len(totals)


def test_few_heads_are_worked_on_at_once():
    one = tiling(seqlen_q=1024, seqlen_k=1024, nheads=8, heads_at_once=4)
    tiles, _ = plan(one, 1)
    heads = [t // one.tiles_per_head for t in tiles]
    assert [set(heads[i : i + 32]) for i in range(0, 128, 32)] == [
        {0, 1, 2, 3},
        {4, 5, 6, 7},
        {8, 9, 10, 11},
        {12, 13, 14, 15},
    ]


def test_heads_that_fit_the_cache():
    # 4096 keys of 128 columns in 16 bits: 2 MiB of K and V; 15 of them, so 8.
    assert heads_in_l2(4096, 128, group_size=1) == 8
    assert heads_in_l2(4096, 128, group_size=4) == 32
    assert heads_in_l2(10**6, 128, group_size=4) == 4


def test_a_plan_is_kept(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    first = plan_on_device(tiling(), 3, torch.device("cpu"))
    assert plan_on_device(tiling(), 3, torch.device("cpu")) is first
    tiles, starts = first
    assert tiles.dtype == starts.dtype == torch.int32


def test_a_new_shape_in_a_capture_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="call attention once with it"):
        plan_on_device(tiling(seqlen_q=77), 3, torch.device("cpu"))


@pytest.mark.parametrize("capturing", [True, False])
def test_a_plan_in_a_graph_outlives_the_cache(monkeypatch, capturing):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    lists = plan_on_device(tiling(seqlen_q=78), 3, torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    keep_for_graphs(lists)
    tiles = weakref.ref(lists[0])
    del lists
    plan_on_device.cache_clear()
    assert (tiles() is not None) == capturing
