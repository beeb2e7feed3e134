"""Bytes and FLOPs that the first chapter derives, beside other ways to count them."""

import pytest
import torch

from bench import claims_traffic, traffic
from bench.claims_traffic import GIB, MIB, SIZE, at_length
from flashwalk.forward import tile_for


def rows(claims, **case):
    """The values of the claims whose case has these columns."""
    return [values for found, values in claims if case.items() <= found.items()]


def test_bytes_are_those_of_the_job_that_measures_them():
    tensor = claims_traffic.tensor_bytes(SIZE)
    assert traffic.input_bytes(SIZE) == 3 * tensor
    assert traffic.output_bytes(SIZE) == tensor
    assert traffic.score_bytes(SIZE) == claims_traffic.matrix_bytes(SIZE)


def test_issued_loads_are_those_of_the_job_without_the_queries():
    tile = tile_for(SIZE.head_dim, torch.float16)
    (found,) = rows(
        claims_traffic.issued_loads(), block_m=tile.block_m, seqlen_q=SIZE.seqlen_q
    )
    queries = claims_traffic.tensor_bytes(SIZE)
    assert found["issued_gib"] * GIB == traffic.issued_bytes(SIZE, tile) - queries


def test_score_traffic_is_64_times_the_ends_and_grows_with_the_length():
    short, long = (
        rows(claims_traffic.score_traffic(), seqlen_q=s)[0] for s in (4096, 8192)
    )
    assert (short["one_way_gib"], short["ends_mib"], short["times"]) == (4, 128, 64)
    assert long["both_ways_gib"] == 4 * short["both_ways_gib"]
    assert long["times"] == 2 * short["times"]


def test_half_the_tile_doubles_the_loads():
    ours, half = (
        rows(claims_traffic.issued_loads(), block_m=m, seqlen_q=4096)[0]["issued_gib"]
        for m in (128, 64)
    )
    assert (ours, half) == (2, 4)


def test_steps_add_up():
    *steps, together = (values for _, values in claims_traffic.naive_steps())
    for column in ("step_reads", "step_writes"):
        assert sum(values[column] for values in steps) == together[column]


def test_intensity_lies_on_both_sides_of_the_ridge():
    found = {
        case.get("counted", "ridge"): values["flop_per_byte"]
        for case, values in claims_traffic.intensity()
    }
    assert found["decode"] < found["three-steps"] < found["ridge"] < found["one-pass"]
    assert found["decode"] == pytest.approx(1, abs=1e-3)


def test_longest_row_fits_and_one_more_does_not():
    ((case, found),) = claims_traffic.row_on_chip()
    row = case["block_m"] * claims_traffic.SCORE
    assert found["longest"] * row <= found["limit_kib"] * 1024
    assert (found["longest"] + 1) * row > found["limit_kib"] * 1024


def test_averaging_blocks_is_wrong():
    ((_, found),) = claims_traffic.averaged_blocks()
    assert abs(found["out"] - found["right"]) > 1


def test_whole_numbers_are_integers():
    assert isinstance(claims_traffic.whole(32.0), int)
    assert claims_traffic.whole(0.5) == 0.5
    assert claims_traffic.tensor_bytes(at_length(8192)) == 64 * MIB
