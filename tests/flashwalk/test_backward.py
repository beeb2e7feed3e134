"""The backward against fp64: each kind of fault that real kernels had, by name."""

import gradients
import problems
import pytest
import torch
from backward_mutants import low_scores
from gradients import Gradients, check, judge, run, with_gradient
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import random_problem

from flashwalk import attention_ref, backward

CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
# Of dK and dV, then of dQ: rows, keys, warps, stages. All unequal but one.
TILES = [
    ((16, 64, 4, 1), (64, 16, 4, 1)),
    ((64, 16, 4, 1), (16, 64, 4, 1)),
    ((16, 32, 4, 1), (32, 16, 4, 1)),
    ((16, 16, 4, 1), (16, 16, 4, 1)),
]
EACH_TILE = pytest.mark.parametrize(
    "tiles", TILES, ids=lambda t: f"{t[0][0]}x{t[0][1]}"
)
SMALL = TILES[2]


def small_problem(device, dtype, **how):
    """Two query heads on one key head, two blocks of queries and of keys."""
    return random_problem(
        device, dtype, nheads=2, nheads_k=1, seqlen_q=19, seqlen_k=23, **how
    )


@CAUSAL
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128, 256])
def test_matches_reference(dtype, device, causal, head_dim, record_property):
    problem = random_problem(
        device, dtype, nheads=2, nheads_k=2, head_dim=head_dim, causal=causal
    )
    check(backward, with_gradient(problem)).record(record_property)


@CAUSAL
@EACH_TILE
def test_unequal_tiles(dtype, device, causal, tiles, record_property):
    problem = random_problem(
        device, dtype, nheads=2, nheads_k=1, seqlen_q=36, seqlen_k=70, causal=causal
    )
    check(backward, with_gradient(problem, tiles=tiles)).record(record_property)


@pytest.mark.parametrize("seqlens", [(21, 50), (50, 21), (33, 33), (1, 40), (40, 1)])
@CAUSAL
def test_unequal_lengths(dtype, device, seqlens, causal, record_property):
    problem = random_problem(
        device,
        dtype,
        nheads=2,
        nheads_k=1,
        seqlen_q=seqlens[0],
        seqlen_k=seqlens[1],
        causal=causal,
    )
    check(backward, with_gradient(problem, tiles=SMALL)).record(record_property)


@EACH_TILE
def test_empty_rows(dtype, device, tiles, record_property):
    case = with_gradient(problems.empty_rows(device, dtype), tiles=tiles)
    found = run(backward, case)
    judge(case, found).record(record_property)
    assert not found.dq[:, :, :38].any()
    assert all(x.isfinite().all() for x in found)


def test_rising_maximum(dtype, device, record_property):
    case = with_gradient(problems.rising_maximum(device, dtype))
    check(backward, case).record(record_property)


def test_low_scores(dtype, device, record_property):
    check(backward, low_scores(device, dtype)).record(record_property)


@pytest.mark.parametrize("seqlens", [(17, 17), (15, 129), (129, 15)])
def test_tails(dtype, device, seqlens, record_property):
    """dv of K zero and do one is the sum over the rows of 1 / seqlen_k."""
    seqlen_q, seqlen_k = seqlens
    q = torch.ones(2, 2, seqlen_q, 16, device=device, dtype=dtype)
    k = torch.zeros(2, 2, seqlen_k, 16, device=device, dtype=dtype)
    v = torch.ones_like(k)
    case = gradients.Case(gradients.Problem(q, k, v), torch.ones_like(q), tiles=SMALL)
    found = run(backward, case)
    judge(case, found).record(record_property)
    expected = torch.full_like(v, seqlen_q / seqlen_k)
    # A weight is exp(-lse): in fp32 a lse of 5 alone is off by 2 to 3 ulp of it.
    assert torch.allclose(found.dv, expected, rtol=16 * torch.finfo(dtype).eps)
    assert not found.dq.any()


@pytest.mark.parametrize("head_dim", [1, 2, 17, 40, 80, 129, 200])
def test_head_dim_is_no_power_of_two(dtype, device, head_dim, record_property):
    case = with_gradient(problems.last_columns(device, dtype, head_dim))
    check(backward, case).record(record_property)


@pytest.mark.parametrize("heads", [(6, 2), (6, 3), (5, 1), (3, 3)])
def test_group_sizes(dtype, device, heads, record_property):
    nheads, nheads_k = heads
    problem = random_problem(
        device, dtype, nheads=nheads, nheads_k=nheads_k, seqlen_q=5, seqlen_k=19
    )
    check(backward, with_gradient(problem, tiles=SMALL)).record(record_property)


@CAUSAL
@pytest.mark.parametrize("scale", [0.0, -0.5, 1e-30, 3.0])
def test_scale_is_a_value(dtype, device, scale, causal, record_property):
    problem = small_problem(device, dtype, causal=causal, softmax_scale=scale)
    case = with_gradient(problem, tiles=SMALL)
    found = run(backward, case)
    judge(case, found).record(record_property)
    assert found.dq.any() == found.dk.any()
    assert scale or not found.dq.any()


@pytest.mark.parametrize("problem", [small_problem, problems.empty_rows])
def test_gradient_through_lse(dtype, device, problem, record_property):
    case = with_gradient(problem(device, dtype), dlse=True)
    check(backward, case).record(record_property)
    alone = case._replace(do=torch.zeros_like(case.do))
    found = run(backward, alone)
    judge(alone, found)
    assert found.dq.any()
    assert not found.dv.any()


def test_lse_of_an_empty_row_has_no_gradient(device):
    """Merging parts gives such rows NaN, which must not reach dk."""
    case = with_gradient(problems.empty_rows(device, torch.float32), dlse=True)
    expected = run(backward, case)
    case.dlse[:, :, :38] = torch.nan
    found = run(backward, case)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


def test_what_nobody_needs_is_left_alone(dtype, device):
    """None for dq, or for dk and dv: the rest is what it is with all three."""
    case = with_gradient(small_problem(device, dtype), tiles=SMALL)
    whole = run(backward, case)
    q, k, v = case.problem[:3]
    out, lse = attention_ref(q, k, v)
    again = Gradients(*(torch.full_like(x, torch.nan) for x in (q, k, v)))
    how = {"causal": False, "softmax_scale": case.problem.scale}
    backward.launch(q, k, v, out, lse, case.do, None, again.dq, None, None, **how)
    backward.launch(q, k, v, out, lse, case.do, None, None, again.dk, again.dv, **how)
    judge(case, whole)
    judge(case, again)


def test_fp32_is_not_tf32(device):
    """dv = p.T @ do with one key: p is 1, and do comes out with all its bits."""
    q = torch.ones(2, 2, 1, 16, device=device)
    case = gradients.Case(
        gradients.Problem(q, q.clone(), q.clone()), torch.full_like(q, 1 + 2.0**-23)
    )
    assert (run(backward, case).dv == 1 + 2.0**-23).all()


@CAUSAL
def test_runs_are_bitwise_equal(dtype, device, causal):
    problem = random_problem(
        device, dtype, nheads=6, seqlen_q=40, seqlen_k=50, causal=causal
    )
    case = with_gradient(problem, dlse=True)
    first, second = run(backward, case), run(backward, case)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


@settings(max_examples=15)
@given(
    batch=st.integers(1, 2),
    nheads_k=st.integers(1, 2),
    group_size=st.integers(1, 3),
    seqlen_q=st.integers(1, 33),
    seqlen_k=st.integers(1, 33),
    head_dim=st.integers(1, 70),
    causal=st.booleans(),
    scale=st.one_of(st.none(), st.floats(-2, 2)),
    tiles=st.sampled_from(TILES),
    half=st.booleans(),
    dlse=st.booleans(),
)
def test_any_small_problem(device, half, nheads_k, group_size, scale, **shape):
    tiles, dlse = shape.pop("tiles"), shape.pop("dlse")
    problem = random_problem(
        device,
        torch.float16 if half else torch.float32,
        nheads=nheads_k * group_size,
        nheads_k=nheads_k,
        softmax_scale=scale,
        **shape,
    )
    check(backward, with_gradient(problem, dlse=dlse, tiles=tiles))


@CAUSAL
def test_reference_has_the_gradients_of_finite_differences(device, causal):
    """The judge itself: its gradients against its own values, in fp64."""
    p = random_problem(
        device, torch.float64, nheads=2, nheads_k=1, seqlen_q=4, seqlen_k=5, head_dim=3
    )
    inputs = [x.requires_grad_() for x in p[:3]]
    assert torch.autograd.gradcheck(
        lambda q, k, v: attention_ref(q, k, v, causal=causal), inputs
    )


def test_textbook_is_exact_in_fp64(device):
    """What the budget is made of agrees with autograd, empty rows and all."""
    case = with_gradient(problems.empty_rows(device, torch.float32), dlse=True)
    for x, y in zip(
        gradients.textbook(case, torch.float64),
        gradients.exact_gradients(case),
        strict=True,
    ):
        assert torch.allclose(x, y, atol=1e-12)
