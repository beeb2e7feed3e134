"""Owners, products, walks and bytes of the backward, beside other ways to count."""

from functools import partial

import numpy as np
import pytest

from bench import claims_backward_kernels as kernels
from bench import claims_backward_kernels_cost as cost
from bench import claims_backward_kernels_tiles as tiles


def values(claims, **case):
    """The values of the one claim whose case has these columns."""
    (found,) = (v for c, v in claims if case.items() <= c.items())
    return found


def test_parts_of_dq_add_up():
    claims = list(kernels.by_owner())
    parts = [v["dq_part"] for c, v in claims if c["claim"] == "by-owner"]
    whole = values(claims, claim="by-owner-sum")["dq_sum"]
    assert sum(parts) == pytest.approx(whole)
    assert all(abs(part - whole) > 1 for part in parts)


def test_a_forgotten_delta_is_noticed(monkeypatch):
    forgotten = partial(kernels.softmax_backward, delta=0.0)
    monkeypatch.setattr(kernels, "softmax_backward", forgotten)
    with pytest.raises(ValueError, match="the gradients of a row's scores"):
        list(kernels.by_owner())


def test_seven_products_where_five_are_counted():
    claims = list(kernels.products())
    assert values(claims, design="fused")["of_counted"] == 1
    assert values(claims, design="two-passes")["product_count"] == 7
    # The first pass has all but dQ, the second what dQ needs.
    assert set(kernels.WAYS["two-passes"]) == set(kernels.WAYS["fused"])


def test_walks_mirror_each_other_in_a_square():
    claims = list(kernels.walks())
    for block in range(4):
        keys, queries = (
            values(claims, owner=owner, block=block, seqlen_k=64)["visited"]
            for owner in ("keys", "queries")
        )
        assert keys == 4 - block
        assert queries == block + 1


def test_both_walks_visit_the_same_pairs():
    for seqlens in kernels.SHAPES:
        by_keys = {
            (m, n)
            for n in range(seqlens[1] // 16)
            for m in kernels.walk_of_keys(16 * n, *seqlens)
        }
        by_queries = {
            (m, n)
            for m in range(seqlens[0] // 16)
            for n in kernels.walk_of_queries(16 * m, *seqlens)
        }
        assert by_keys == by_queries


def test_a_bound_aligned_top_left_is_noticed(monkeypatch):
    monkeypatch.setattr(
        kernels, "walk_of_keys", lambda n, seqlen_q, _: range(n // 16, seqlen_q // 16)
    )
    with pytest.raises(ValueError, match="keys 1"):
        list(kernels.walks())


def test_the_order_changes_a_sum_a_little():
    found = values(kernels.orders(), key_tiles=64)
    assert 1 < found["different"] < 1000
    assert 0 < found["relative"] < 1e-5


def test_sums_are_rounded_after_each_addition():
    parts = np.array([1.0, 2**-24, 2**-24], dtype=np.float32)
    assert kernels._one_by_one(parts) == 1.0
    assert kernels._one_by_one(parts[::-1]) > 1.0


def test_a_group_shares_its_gradients():
    found = values(kernels.groups(), nheads_k=8)
    assert found["expanded_mib"] == found["heads_a_group"] * found["grouped_mib"]


def test_storing_takes_longer_up_to_the_head_dim_that_breaks_even():
    even = values(cost.break_even())
    for case, found in cost.recomputing():
        assert case["head_dim"] < even["even_with_exponential"] < even["even_alone"]
        assert found["recompute_ms"] < found["store_ms"]
    at_even = (2 * even["even_with_exponential"] + even["exp_flop"]) / 4
    assert at_even == pytest.approx(cost.RIDGE, rel=0.01)


def test_accumulators_of_128_keys_fill_the_registers_at_head_dim_256():
    found = values(cost.accumulators(), head_dim=256, block_n=128)
    assert found["of_registers"] == 100
    found = values(cost.accumulators(), head_dim=128, block_n=128)
    assert (found["dkdv_kib"], found["by_8_warps"]) == (128, 128)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_a_block_is_the_sum_of_its_products(head_dim):
    claims = list(cost.shared_memory())
    each = [
        v
        for c, v in claims
        if c["claim"] == "shared-read" and c["head_dim"] == head_dim
    ]
    block = values(claims, claim="shared-block", head_dim=head_dim)
    assert sum(v["read_kib"] for v in each) == block["read_kib"]
    assert sum(v["product_clocks"] for v in each) == block["product_clocks"]
    assert len(each) == 5


def test_a_helper_reads_dq_s_factors_once():
    alone, shared = (
        cost.shared_reads(64, helper=helper)["dQ"].read for helper in (True, False)
    )
    assert shared - alone == cost.TILE * cost.QUERIES * cost.ELEMENT


def test_the_blocks_are_the_kernel_s():
    pytest.importorskip("triton")
    from flashwalk.hopper import backward_problem as problem

    ours = (cost.QUERIES, cost.KEYS, cost.TILE)
    assert ours == (problem.QUERIES.value, problem.KEYS.value, problem.TILE.value)


LOG = """\
ptxas info    : Compiling entry function '_attn_bwd_delta' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
ptxas info    : (C7512) Potential Performance Loss: products are serialized
ptxas info    : Compiling entry function '_attn_bwd_dkdv' for 'sm_90a'
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
"""


def test_the_report_is_of_the_large_kernel(monkeypatch):
    monkeypatch.setattr(tiles, "compile_tile", lambda tile: LOG)
    found = values(tiles.tiles(), block_m=64, block_n=128, num_warps=4)
    assert found == {"held": 256, "registers": 255, "spills": 28, "codes": "C7512"}


def test_the_tile_in_use_is_among_those_compiled(monkeypatch):
    monkeypatch.setattr(tiles, "TILES", tiles.TILES[2:])
    with pytest.raises(ValueError, match="the tile in use"):
        next(tiles.tiles())
