"""The forward against fp64: each kind of fault that real kernels had, by name."""

import math

import problems
import pytest
import torch
from accuracy import Problem, check, judge, run
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import TILES, random_problem

from flashwalk import attention, attention_ref

CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


@CAUSAL
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128, 256])
def test_matches_reference(kernel, dtype, device, causal, head_dim, record_property):
    problem = random_problem(device, dtype, head_dim=head_dim, causal=causal)
    check(kernel, problem).record(record_property)


@CAUSAL
@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t[0]}x{t[1]}")
def test_unequal_tiles(kernel, dtype, device, causal, tile, record_property):
    problem = random_problem(
        device, dtype, seqlen_q=70, seqlen_k=90, causal=causal, tile=tile
    )
    check(kernel, problem).record(record_property)


@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t[0]}x{t[1]}")
def test_causal_bound(kernel, dtype, device, tile, record_property):
    check(kernel, problems.tall_tiles(device, dtype, tile)).record(record_property)


@pytest.mark.parametrize("seqlens", [(21, 50), (50, 21), (33, 33), (1, 40), (40, 1)])
def test_causal_is_bottom_right(kernel, dtype, device, seqlens, record_property):
    seqlen_q, seqlen_k = seqlens
    tile = (16, 32, 4, 1)
    problem = problems.bottom_right(device, dtype, seqlen_q, seqlen_k, tile)
    out, lse = run(kernel, problem)
    judge(problem, out, lse).record(record_property)
    # Written out: row i sees `visible` keys, numbered from 0.
    for i in range(seqlen_q):
        visible = max(0, i + 1 + seqlen_k - seqlen_q)
        mean = max(0, visible - 1) / 2
        assert out[..., i, :].double().sub(mean).abs().max() <= 0.01
        count = math.log(visible) if visible else -math.inf
        assert lse[..., i].sub(count).nan_to_num(0.0).abs().max() <= 1e-5


@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t[0]}x{t[1]}")
def test_empty_rows(kernel, dtype, device, tile, record_property):
    problem = problems.empty_rows(device, dtype, tile)
    out, lse = run(kernel, problem)
    judge(problem, out, lse).record(record_property)
    assert not out[..., :38, :].any()
    assert (lse[..., :38] == -math.inf).all()
    assert lse[..., 38:].isfinite().all()


def test_rising_maximum(kernel, dtype, device, record_property):
    check(kernel, problems.rising_maximum(device, dtype)).record(record_property)


def test_soaring_maximum(kernel, dtype, device, record_property):
    check(kernel, problems.soaring_maximum(device, dtype)).record(record_property)


@pytest.mark.parametrize("tile", [None, (16, 32, 4, 1)], ids=["default", "16x32"])
@pytest.mark.parametrize("seqlen_k", [1, 15, 17, 127, 129])
def test_tail_keys(kernel, dtype, device, seqlen_k, tile, record_property):
    problem = problems.tail_keys(device, dtype, seqlen_k, tile)
    out, lse = run(kernel, problem)
    judge(problem, out, lse).record(record_property)
    assert (out == 1).all()


@pytest.mark.parametrize("head_dim", [1, 2, 17, 33, 40, 80, 96, 100, 129, 200])
def test_head_dim_is_no_power_of_two(kernel, dtype, device, head_dim, record_property):
    problem = problems.last_columns(device, dtype, head_dim)
    check(kernel, problem).record(record_property)


def test_default_scale_is_of_the_true_head_dim(dtype, device):
    q, k, v = random_problem(device, dtype, head_dim=40)[:3]
    out = attention(q, k, v)
    assert torch.equal(out, attention(q, k, v, softmax_scale=40**-0.5))
    assert not torch.equal(out, attention(q, k, v, softmax_scale=64**-0.5))


def test_grouped_heads(kernel, dtype, device, record_property):
    problem = problems.grouped_heads(device, dtype)
    out, lse = run(kernel, problem)
    judge(problem, out, lse).record(record_property)
    for h in range(6):
        assert (out[:, h] == h // 3).all()


@pytest.mark.parametrize("heads", [(6, 2), (6, 3), (5, 1), (3, 3)])
def test_group_sizes(kernel, dtype, device, heads, record_property):
    nheads, nheads_k = heads
    problem = random_problem(
        device, dtype, batch=3, nheads=nheads, nheads_k=nheads_k, seqlen_q=5
    )
    check(kernel, problem).record(record_property)


@pytest.mark.parametrize("seqlens", [(1, 1), (1, 37), (37, 1)])
@CAUSAL
def test_one_query_or_one_key(kernel, dtype, device, seqlens, causal, record_property):
    problem = random_problem(
        device, dtype, seqlen_q=seqlens[0], seqlen_k=seqlens[1], causal=causal
    )
    check(kernel, problem).record(record_property)


@CAUSAL
@pytest.mark.parametrize("scale", [0.0, -0.5, 1e-30, 3.0])
def test_scale_is_a_value(kernel, dtype, device, scale, causal, record_property):
    p = random_problem(device, dtype, causal=causal, softmax_scale=scale)
    check(kernel, p).record(record_property)


@pytest.mark.parametrize("function", [attention, attention_ref])
def test_scale_zero_weighs_all_keys_alike(function, device):
    # Written out: kernel and reference resolve the scale by the same function.
    p = random_problem(device, torch.float32, nheads=2, nheads_k=2)
    out = function(p.q, p.k, p.v, softmax_scale=0.0)
    out = out if isinstance(out, torch.Tensor) else out[0]
    assert torch.allclose(out, p.v.mean(dim=2, keepdim=True), atol=1e-6)
    out = function(p.q, p.k, p.v, softmax_scale=-1e4)
    out = out if isinstance(out, torch.Tensor) else out[0]
    least = (p.q @ p.k.mT).argmin(dim=-1, keepdim=True)
    assert torch.allclose(out, p.v.take_along_dim(least, dim=2), atol=1e-6)


def test_lse_is_a_natural_logarithm(kernel, dtype, device):
    # Two equal keys of score 16 * 0.25: lse = 4 + ln 2, in base 2 it is 5.
    ones = torch.ones(2, 2, 3, 16, device=device, dtype=dtype)
    k = ones[:, :, :2]
    _, lse = run(kernel, Problem(ones, k, k, softmax_scale=0.25))
    assert lse.dtype == torch.float32
    assert (lse - (4 + math.log(2))).abs().max() <= 4 * torch.finfo(lse.dtype).eps


def test_fp32_is_not_tf32(kernel, device):
    # One key has weight 1: V comes out as it went in, with all its 23 bits.
    q = torch.ones(2, 2, 5, 16, device=device)
    v = torch.full((2, 2, 1, 16), 1 + 2.0**-23, device=device)
    out, _ = run(kernel, Problem(q, q[:, :, :1], v))
    assert (out == 1 + 2.0**-23).all()
    # The scores keep theirs: q·k = 1 + 2**-20, which TF32 rounds to 1.
    q = torch.zeros(2, 2, 5, 16, device=device)
    q[..., 0] = 1 + 2.0**-20
    k = torch.zeros(2, 2, 1, 16, device=device)
    k[..., 0] = 1.0
    _, lse = run(kernel, Problem(q, k, v, softmax_scale=1.0))
    assert (lse == 1 + 2.0**-20).all()


def test_runs_are_bitwise_equal(kernel, dtype, device):
    p = random_problem(device, dtype, seqlen_q=130, seqlen_k=150, causal=True)
    first, second = run(kernel, p), run(kernel, p)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def test_out_alone_or_with_lse(dtype, device):
    q, k, v = random_problem(device, dtype)[:3]
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    out = attention(q, k, v)
    pair = attention(q, k, v, return_lse=True)
    assert isinstance(pair, tuple)
    assert torch.equal(out, pair[0])
    assert out.is_contiguous()
    assert (out.shape, out.dtype, out.device) == (q.shape, dtype, q.device)
    assert pair[1].shape == q.shape[:-1]


@settings(max_examples=25)
@given(
    batch=st.integers(1, 2),
    nheads_k=st.integers(1, 2),
    group_size=st.integers(1, 3),
    seqlen_q=st.integers(1, 40),
    seqlen_k=st.integers(1, 40),
    head_dim=st.integers(1, 70),
    causal=st.booleans(),
    scale=st.one_of(st.none(), st.floats(-2, 2)),
    tile=st.sampled_from(TILES),
    half=st.booleans(),
)
def test_any_small_problem(kernel, device, half, nheads_k, group_size, scale, **shape):
    problem = random_problem(
        device,
        torch.float16 if half else torch.float32,
        nheads=nheads_k * group_size,
        nheads_k=nheads_k,
        softmax_scale=scale,
        **shape,
    )
    check(kernel, problem)


def test_reference_agrees_with_the_definition(device):
    """The judge itself, against three lines that share none of its code."""
    p = random_problem(device, torch.float64, nheads=2, nheads_k=2, seqlen_k=37)
    out, lse = attention_ref(p.q, p.k, p.v, causal=True)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    assert torch.allclose(out, sdpa(p.q, p.k, p.v, is_causal=True), atol=1e-12)
    last_row = (p.q[:, :, -1:] @ p.k.mT / 4).exp().sum(-1).log()
    assert torch.allclose(lse[..., -1:], last_row, atol=1e-12)
    assert (out.dtype, lse.dtype) == (torch.float64, torch.float64)


def test_reference_computes_16_bits_in_fp32(dtype, device):
    p = random_problem(device, dtype, nheads=6)
    out, lse = attention_ref(p.q, p.k, p.v)
    exact, exact_lse = attention_ref(p.q.double(), p.k.double(), p.v.double())
    assert (out.dtype, lse.dtype) == (dtype, torch.float32)
    assert (out.double() - exact).abs().max() <= 8 * torch.finfo(dtype).eps
    assert (lse.double() - exact_lse).abs().max() <= 1e-5


def test_reference_empty_rows(device):
    p: Problem = problems.empty_rows(device, torch.float64)
    out, lse = attention_ref(p.q, p.k, p.v, causal=True)
    assert not out[..., :38, :].any()
    assert (lse[..., :38] == -math.inf).all()
    assert out[..., 38:, :].all()
