"""Which answers pass for right."""

import math

import pytest
import torch

from bench.accuracy import (
    Judge,
    WrongAnswer,
    causal_mask,
    make_inputs,
    naive_attention,
)
from bench.cases import Case

CASES = [
    Case(2, 4, 2, 48, 48, 16, "fp16", causal=False),
    Case(2, 4, 2, 48, 48, 16, "bf16", causal=True),
    Case(2, 6, 2, 32, 48, 16, "bf16", causal=True),
]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def inputs(case):
    return make_inputs(case, "cpu")


@pytest.fixture
def judge(case, inputs):
    return Judge.of(case, inputs)


@pytest.fixture
def right(case, inputs):
    hidden = causal_mask(case, "cpu")
    return naive_attention(inputs, case.softmax_scale, hidden)


def test_the_naive_answer_is_within_its_own_budget(judge, right):
    assert 0 < judge.error(right) <= judge.budget


def test_naive_agrees_with_a_loop_over_heads(case, inputs, right):
    q, k, v = (x.double() for x in inputs)
    group_size = case.nheads // case.nheads_k
    for b in range(case.batch):
        for h in range(case.nheads):
            scores = q[b, h] @ k[b, h // group_size].T / math.sqrt(case.head_dim)
            for i in range(case.seqlen_q):
                seen = i + case.seqlen_k - case.seqlen_q + 1
                if case.causal:
                    scores[i, seen:] = -math.inf
            want = scores.softmax(-1) @ v[b, h // group_size]
            assert torch.allclose(right[b, h].double(), want, atol=0.03)


def test_nan_never_passes(judge, right):
    right[-1, -1, -1, -1] = math.nan
    with pytest.raises(WrongAnswer, match="nan"):
        judge.error(right)


def test_one_wrong_element_is_seen(judge, right):
    right[0, 0, 0, 0] += 0.5
    with pytest.raises(WrongAnswer, match="largest error"):
        judge.error(right)


def test_a_fault_in_small_late_rows_is_seen_beside_large_first_rows():
    case = Case(1, 2, 2, 1024, 1024, 16, "bf16", causal=True)
    inputs = make_inputs(case, "cpu")
    judge = Judge.of(case, inputs)
    out = judge.truth.to(torch.bfloat16)
    out[:, :, 256:] *= 0.95
    assert (out.double() - judge.truth).abs().max() < judge.budget
    with pytest.raises(WrongAnswer, match="relative"):
        judge.error(out)


def test_another_shape_or_dtype_is_no_answer(judge, right):
    with pytest.raises(WrongAnswer, match="expected"):
        judge.error(right[:1])
    with pytest.raises(WrongAnswer, match="expected"):
        judge.error(right.float())
