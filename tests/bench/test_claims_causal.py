"""The causal claims: blocks by their bounds and by the mask itself, and programs."""

import os
from itertools import product

import pytest
import torch

os.environ.setdefault("TRITON_INTERPRET", "1")

from bench.causal_blocks import (
    DIAGONAL,
    FULL,
    SKIPPED,
    TAIL,
    Blocks,
    makespan,
    schedule,
)
from bench.figures.causal_mask import SHAPES, visible_part

# Triton's interpreter reads the bound of a loop in a way that NumPy is leaving.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)

SIZES = list(product((1, 7, 16, 33), (1, 8, 16, 50), (4, 16), (4, 16), (False, True)))


def kind_by_mask(blocks, m, n):
    """The kind of a block, from every score of it: no corner is trusted."""
    i = torch.arange(m * blocks.block_m, (m + 1) * blocks.block_m)
    j = torch.arange(n * blocks.block_n, (n + 1) * blocks.block_n)
    i = i[i < blocks.seqlen_q]
    in_keys = (j < blocks.seqlen_k)[None, :].expand(len(i), -1)
    seen = (j[None, :] <= i[:, None] + blocks.shift) | (not blocks.causal)
    if not (seen & in_keys).any():
        return SKIPPED
    if not seen[in_keys].all():
        return DIAGONAL
    return FULL if in_keys.all() else TAIL


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_kinds_are_those_of_the_mask(sizes):
    blocks = Blocks(*sizes)
    for m in range(blocks.rows):
        assert blocks.row(m) == [kind_by_mask(blocks, m, n) for n in range(blocks.cols)]


@pytest.mark.parametrize("sizes", SIZES[::3], ids=str)
def test_loop_visits_what_is_not_skipped(sizes):
    blocks = Blocks(*sizes)
    for m in range(blocks.rows):
        kept = [kind for kind in blocks.row(m) if kind != SKIPPED]
        assert blocks.walked(m) == len(kept)
        assert blocks.row(m)[: blocks.unmasked(m)] == [FULL] * blocks.unmasked(m)


def test_ten_of_sixteen():
    blocks = Blocks(256, 256, 64, 64)
    assert blocks.count(FULL, DIAGONAL) == 10
    assert blocks.count(FULL, DIAGONAL, TAIL, SKIPPED) == 16


def test_schedule_gives_each_program_to_the_free_slot():
    spans = schedule([1, 2, 3, 4], 2)
    assert [(s.slot, s.start, s.end) for s in spans] == [
        (0, 0, 1),
        (1, 0, 2),
        (0, 1, 4),
        (1, 2, 6),
    ]
    assert makespan(spans) == 6
    assert makespan(schedule([4, 3, 2, 1], 2)) == 5


@pytest.mark.parametrize("name", SHAPES)
def test_figure_leaves_the_hidden_part_empty(name):
    blocks = SHAPES[name]
    corners = [(0.0, 0.0), (64.0, 0.0), (64.0, 64.0), (0.0, 64.0)]
    for key, query in visible_part(corners, blocks.shift):
        assert key <= query + blocks.shift + 1e-9


def test_wrong_bound_stops_the_job(causal, monkeypatch):
    monkeypatch.setattr(Blocks, "bound", lambda self, m: (m + 1) * self.block_n)
    with pytest.raises(ValueError, match="the bound of program"):
        causal.counted(Blocks(256, 256, 128, 64))


def test_masks_that_lack_a_part_answer_otherwise(causal):
    rows = list(causal.wrong_masks())
    wrong = [v["out"] != pytest.approx(v["right"], rel=1e-5) for _, v in rows]
    assert wrong == [True, True, False, False, True]


def test_share_comes_down_to_a_half(causal):
    rows = [(case, values) for case, values in causal.remaining_blocks()]
    shares = [v["share"] for case, v in rows if case["block_n"] == 32]
    assert shares == sorted(shares, reverse=True)
    assert all(50 < share <= 75 for share in shares)


@pytest.fixture
def causal():
    """bench.claims_causal, where this process interprets kernels."""
    from triton import knobs

    if not knobs.runtime.interpret:
        pytest.skip("this process compiles kernels")
    from bench import claims_causal

    return claims_causal
