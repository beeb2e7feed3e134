"""Dropout: one mask in all kernels, of the right statistics, from one seed."""

import math

import numpy as np
import philox
import pytest
import torch
from gradients import Gradients, check, judge, run, scores_of, with_gradient
from problems import random_problem
from torch.utils.checkpoint import checkpoint

from flashwalk import attention, backward, dropout
from flashwalk.forward import Tile

ON_GPU = torch.cuda.is_available()
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
SEED = 2**40 + 12345  # both halves of it count
P = 0.3
TILES = [(16, 64, 4, 1), (64, 16, 4, 1), (32, 32, 4, 1)]
EACH_TILE = pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t[0]}x{t[1]}")
HOW = {"causal": False, "softmax_scale": 1.0}


def small(device, dtype, **how):
    """Two query heads on one key head, and what SEED drops of them."""
    p = random_problem(
        device, dtype, nheads=2, nheads_k=1, seqlen_q=19, seqlen_k=23, **how
    )
    case = with_gradient(p, dlse=True)
    return case._replace(dropout=philox.dropout_of(p, SEED, P))


def uniform(device, dtype, seqlen_q=37, seqlen_k=53):
    """Every weight is 1 / seqlen_k, and V hands each of them out by itself."""
    q = torch.zeros(2, 3, seqlen_q, 64, device=device, dtype=dtype)
    k = torch.zeros(2, 3, seqlen_k, 64, device=device, dtype=dtype)
    v = torch.eye(seqlen_k, 64, device=device, dtype=dtype).expand_as(k)
    return q, k, v


def test_philox_is_philox():
    """The known answers of its authors, for counters and keys of 0 and of ones."""
    zeros = philox.philox_4x32([0] * 4, [0] * 2)
    ones = philox.philox_4x32([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2)
    assert [int(x) for x in zeros] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(x) for x in ones] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@EACH_TILE
def test_mask_of_the_forward(dtype, device, tile):
    q, k, v = uniform(device, dtype)
    out = torch.full_like(q, math.nan)
    lse = torch.empty(q.shape[:-1], device=device)
    seed = torch.tensor([SEED], device=device)
    dropout.launch(q, k, v, out, lse, seed=seed, dropout_p=P, tile=Tile(*tile), **HOW)
    keep = torch.from_numpy(philox.keep_mask(SEED, P, (2, 3, 37, 53))).to(device)
    assert torch.equal(out[..., :53] != 0, keep)
    kept = out[..., :53][keep].double() * 53 * (1 - P)
    assert (kept - 1).abs().max() <= 2 * torch.finfo(dtype).eps


@EACH_TILE
def test_mask_of_the_backward(dtype, device, tile):
    """dv = kept.T @ do, and do hands each query's weights out by itself."""
    q, k, v = uniform(device, dtype)
    do = torch.eye(37, 64, device=device, dtype=dtype).expand_as(q)
    lse = torch.full(q.shape[:-1], math.log(53), device=device)
    dk, dv = torch.full_like(k, math.nan), torch.full_like(k, math.nan)
    seed = torch.tensor([SEED], device=device)
    tiles = backward.Tiles(Tile(*tile), Tile(*tile))
    how = HOW | {"seed": seed, "dropout_p": P, "tiles": tiles}
    backward.launch(q, k, v, q, lse, do, None, None, dk, dv, **how)
    keep = torch.from_numpy(philox.keep_mask(SEED, P, (2, 3, 37, 53))).to(device)
    assert torch.equal(dv[..., :37].mT != 0, keep)


@CAUSAL
@EACH_TILE
def test_gradients(dtype, device, causal, tile, record_property):
    case = small(device, dtype, causal=causal)
    check(backward, case._replace(tiles=(tile, tile))).record(record_property)


@pytest.mark.parametrize("head_dim", [24, 64, 128, 256])
def test_default_tiles(dtype, device, head_dim, record_property):
    case = small(device, dtype, head_dim=head_dim, causal=True)
    check(backward, case).record(record_property)


@CAUSAL
def test_output(dtype, device, causal, record_property):
    """As for the forward: twice the error of the same in plain matrices."""
    case = small(device, dtype, causal=causal)
    out, lse = attention(
        *case.problem[:3], causal=causal, dropout_p=P, seed=SEED, return_lse=True
    )

    philox.judge_output(case, out).record(record_property)
    *_, scores = scores_of(case, torch.float64)
    assert torch.allclose(lse.double(), scores.logsumexp(-1), atol=1e-5)


def test_attention_has_these_gradients(dtype, device, record_property):
    case = small(device, dtype, causal=True)
    leaves = [x.clone().requires_grad_() for x in case.problem[:3]]
    pair = attention(*leaves, causal=True, dropout_p=P, seed=SEED, return_lse=True)
    found = torch.autograd.grad(pair, leaves, (case.do, case.dlse))
    judge(case, Gradients(*found)).record(record_property)


def test_empty_rows(device):
    p = random_problem(device, torch.float32, seqlen_q=45, seqlen_k=7)
    leaves = [x.requires_grad_() for x in p[:3]]
    out = attention(*leaves, causal=True, dropout_p=P, seed=SEED)
    found = torch.autograd.grad(out.sum(), leaves)
    assert not out[:, :, :38].any()
    assert not found[0][:, :, :38].any()
    assert all(x.isfinite().all() for x in found)


def test_runs_are_bitwise_equal(dtype, device):
    case = small(device, dtype)
    first, second = run(backward, case), run(backward, case)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


# --- statistics ---


def test_share_that_is_kept():
    """Of 2**20 weights, within 5 standard deviations; so of each row's quarter."""
    for dropout_p in (0.01, 0.1, 0.5, 0.9):
        keep = philox.keep_mask(7, dropout_p, (4, 4, 256, 256))
        deviation = math.sqrt(dropout_p * (1 - dropout_p) / keep.size)
        assert abs(keep.mean() - (1 - dropout_p)) <= 5 * deviation
        for lane in range(4):
            quarter = keep[..., lane::4].mean()
            assert abs(quarter - (1 - dropout_p)) <= 10 * deviation


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("step", [1, 2, 4, 64])
def test_neighbours_are_independent(axis, step):
    """Two weights that lie `step` apart agree as often as two coins do."""
    shape = [4, 4, 32, 32]
    shape[axis] = step + 64
    keep = philox.keep_mask(11, 0.5, shape)
    first = keep.take(range(shape[axis] - step), axis)
    second = keep.take(range(step, shape[axis]), axis)
    share = (first == second).mean()
    assert abs(share - 0.5) <= 5 * 0.5 / math.sqrt(first.size)


def test_seeds_that_differ_in_one_bit_share_nothing():
    masks = [philox.keep_mask(1 << bit, 0.5, (2, 2, 64, 64)) for bit in (0, 1, 31, 40)]
    for i, first in enumerate(masks):
        for second in masks[:i]:
            share = (first == second).mean()
            assert abs(share - 0.5) <= 5 * 0.5 / math.sqrt(first.size)


def test_mean_over_seeds_is_attention_without_dropout(device):
    p = random_problem(device, torch.float32, batch=1, nheads=2, seqlen_q=5, seqlen_k=9)
    exact = attention(*p[:3])
    seeds = 60
    outs = torch.stack(
        [attention(*p[:3], dropout_p=0.5, seed=seed) for seed in range(seeds)]
    )
    off = (outs.mean(dim=0) - exact) / (outs.std(dim=0) / math.sqrt(seeds))
    assert off.square().mean().sqrt() <= 1.5


# --- seeds ---


def test_seeds(device):
    qkv = small(device, torch.float32).problem[:3]

    def drop(**how):
        return attention(*qkv, dropout_p=P, **how)

    assert torch.equal(drop(seed=5), drop(seed=5))
    assert not torch.equal(drop(seed=5), drop(seed=6))
    torch.manual_seed(3)
    first, second = drop(), drop()
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(drop(), first)
    assert torch.equal(drop(), second)


def test_a_seed_leaves_the_generator_alone(device):
    qkv = small(device, torch.float32).problem[:3]
    torch.manual_seed(3)
    expected = torch.rand(4, device=device)
    torch.manual_seed(3)
    attention(*qkv, dropout_p=P, seed=5)
    attention(*qkv)
    assert torch.equal(torch.rand(4, device=device), expected)


def test_nothing_is_dropped_of_probability_0(device):
    qkv = small(device, torch.float32).problem[:3]
    assert torch.equal(attention(*qkv, dropout_p=0.0, seed=5), attention(*qkv))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(device, reentrant):
    """The forward runs again for the backward, and must drop the same."""
    case = small(device, torch.float32)

    def gradients_of(function):
        leaves = [x.clone().requires_grad_() for x in case.problem[:3]]
        torch.manual_seed(3)
        out = function(*leaves)
        torch.rand(7, device=device)  # the generator has moved on by then
        out.backward(case.do)
        return [x.grad for x in leaves]

    def drop(*qkv):
        return attention(*qkv, dropout_p=P)

    plain = gradients_of(drop)
    again = gradients_of(lambda *x: checkpoint(drop, *x, use_reentrant=reentrant))
    assert all(torch.equal(x, y) for x, y in zip(plain, again, strict=True))


def test_operators(device):
    case = small(device, torch.float16)
    q, k, v = (x.clone().requires_grad_() for x in case.problem[:3])
    seed = case.dropout.seed
    operators = torch.ops.flashwalk
    torch.library.opcheck(
        operators.attention_forward.default, (q, k, v, True, 0.3, seed, P, False)
    )
    q, k, v = case.problem[:3]
    out, lse = operators.attention_forward.default(q, k, v, True, 0.3, seed, P, False)
    torch.library.opcheck(
        operators.attention_backward.default,
        (q, k, v, out, lse, case.do, None, True, 0.3, seed, P, False, True, True),
    )


@pytest.mark.parametrize("seed", [SEED, None])
def test_compiled(device, seed):
    torch._dynamo.reset()
    case = small(device, torch.float32)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    found = []
    for function in (attention, compiled):
        leaves = [x.clone().requires_grad_() for x in case.problem[:3]]
        torch.manual_seed(3)
        out = function(*leaves, dropout_p=P, seed=seed)
        found.append((out, *torch.autograd.grad(out, leaves, case.do)))
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@pytest.mark.skipif(not ON_GPU, reason="the CPU has no CUDA graphs")
def test_each_replay_of_a_cuda_graph_drops_others(device):
    qkv = small(device, torch.float32).problem[:3]
    attention(*qkv, dropout_p=P)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(*qkv, dropout_p=P)
    graph.replay()
    first = out.clone()
    graph.replay()
    assert not torch.equal(out, first)


@pytest.mark.parametrize(
    "dropout_p", [-0.1, 1.0, 1, math.nan, math.inf, True, "0.1", None, 1 - 1e-9, 0.1j]
)
def test_probabilities_refused(device, dropout_p):
    qkv = small(device, torch.float32).problem[:3]
    with pytest.raises(ValueError, match=r"dropout_p must be a real number .* got"):
        attention(*qkv, dropout_p=dropout_p)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, "1", torch.tensor(1)])
def test_seeds_refused(device, seed):
    qkv = small(device, torch.float32).problem[:3]
    with pytest.raises(ValueError, match=r"seed must be None or an int .* got"):
        attention(*qkv, dropout_p=P, seed=seed)


@pytest.mark.parametrize("dropout_p", [np.float32(0.25), 1 - 2**-24, 1e-30])
def test_any_real_number_below_1_is_a_probability(device, dropout_p):
    qkv = small(device, torch.float32).problem[:3]
    out = attention(*qkv, dropout_p=dropout_p, seed=0)
    assert out.isfinite().all()
