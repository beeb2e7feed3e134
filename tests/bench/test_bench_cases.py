"""The cells of the forward benchmarks, as the issue lists them."""

from dataclasses import replace

import pytest

from bench import k_transposed
from bench.cases import SEEDS, forward_cases


@pytest.mark.parametrize(("head_dim", "nheads"), [(64, 32), (128, 16), (256, 8)])
def test_equal_tokens_at_each_length_full_and_causal(head_dim, nheads):
    cells = [
        (case.batch, case.seqlen_q, case.causal)
        for case in forward_cases(head_dim)
        if case.nheads == nheads and case.dtype == "bf16"
    ]
    assert cells[:6] == [
        (16, 1024, False),
        (16, 1024, True),
        (4, 4096, False),
        (4, 4096, True),
        (1, 16_384, False),
        (1, 16_384, True),
    ]
    for case in forward_cases(head_dim):
        assert case.head_dim == head_dim
        assert case.nheads == case.nheads_k
        assert case.seqlen_q == case.seqlen_k


def test_the_seeds_own_sizes_stand_with_their_head_dim():
    last = {d: [str(case) for case in forward_cases(d)][6:] for d in (64, 128, 256)}
    assert last == {
        64: ["B4 H16 S4096 D64 fp16 full", "B4 H16 S4096 D64 fp16 causal"],
        128: ["B1 H32 S8192 D128 bf16 full", "B1 H32 S8192 D128 bf16 causal"],
        256: [],
    }


def test_causal_counts_half_of_the_flops():
    full = SEEDS[64]
    assert full.flops == 4 * 4 * 16 * 4096 * 4096 * 64
    assert replace(full, causal=True).flops * 2 == full.flops


def test_the_scale_is_the_usual_one():
    assert SEEDS[64].softmax_scale == 0.125


def test_k_transposed_takes_three_sizes_in_both_dtypes():
    cases = k_transposed.cases()
    assert len(cases) == len(set(cases)) == 12
    assert {(c.batch, c.nheads, c.seqlen_q, c.head_dim) for c in cases} == {
        (4, 16, 4096, 64),
        (1, 32, 8192, 128),
        (4, 8, 4096, 256),
    }
