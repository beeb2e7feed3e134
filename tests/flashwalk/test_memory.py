"""How tensors lie in memory: strides, distance, surroundings, size, device."""

import math

import problems
import pytest
import torch
from accuracy import check, judge, run
from problems import random_problem

from flashwalk import attention, forward

# Under the interpreter NumPy says when a kernel computes with NaN or inf.
NON_FINITE = pytest.mark.filterwarnings(
    "ignore:(invalid value|All-NaN slice) encountered:RuntimeWarning"
)
NEEDS_GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU: too large to interpret"
)


def transposed(x):
    """The same values, laid out as (batch, seqlen, heads, head_dim)."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def sliced(x):
    """The same values inside a larger tensor, which is NaN all around them."""
    around = x.new_full([size + 3 for size in x.shape], math.nan)
    view = around[1:-2, 1:-2, 1:-2, 1:-2]
    return view.copy_(x)


def expanded(x):
    """The first batch and head for all: strides of 0."""
    return x[:1, :1].expand_as(x)


def interleaved(x):
    """Every other row of a tensor that is NaN in between."""
    around = x.new_full([*x.shape[:2], 2 * x.shape[2], x.shape[3]], math.nan)
    return around[:, :, ::2].copy_(x)


@pytest.mark.parametrize("layout", [transposed, sliced, expanded, interleaved])
@pytest.mark.parametrize("head_dim", [16, 24])
def test_not_contiguous(kernel, dtype, device, layout, head_dim, record_property):
    p = random_problem(device, dtype, head_dim=head_dim, causal=True)
    p = p._replace(q=layout(p.q), k=layout(p.k), v=layout(p.v))
    assert not p.k.is_contiguous()
    check(kernel, p).record(record_property)


def test_each_tensor_has_its_own_strides(kernel, dtype, device, record_property):
    p = random_problem(device, dtype)
    p = p._replace(q=transposed(p.q), k=sliced(p.k), v=interleaved(p.v))
    check(kernel, p).record(record_property)


def test_axes_of_size_1_have_any_stride(dtype, device, record_property):
    p = random_problem(device, dtype, batch=1, head_dim=1, nheads=2)
    q = p.q.as_strided(p.q.shape, (7, *p.q.stride()[1:3], 5))
    out, lse = attention(q, p.k, p.v, return_lse=True)
    judge(p, out, lse).record(record_property)


@pytest.mark.parametrize("problem", [problems.far_rows, problems.far_heads])
def test_offsets_beyond_int32(kernel, device, problem, record_property):
    # On the CPU the memory is reserved and never touched: no more than pages.
    far = problem(device, torch.float16)
    check(kernel, far).record(record_property)


class Recorder:
    """Takes the kernel's place and keeps the grid of the launch."""

    def __getitem__(self, grid):
        self.grid = grid
        return lambda *args, **kwargs: None


@pytest.mark.parametrize("heads", [1, 8])
def test_grid_has_one_axis(monkeypatch, heads):
    """Only a grid's first axis goes beyond 65,535."""
    recorder = Recorder()
    monkeypatch.setattr(forward, "_attn_fwd", recorder)
    x = torch.empty(70_000, heads, 33, 16, dtype=torch.float16, device="meta")
    forward.launch(
        x, x, x, x, x, causal=False, softmax_scale=1.0, tile=forward.Tile(16, 32, 4, 1)
    )
    assert recorder.grid == (70_000 * heads * 3,)


@NON_FINITE
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_keys_reach_who_sees_them(kernel, dtype, device, value):
    p = random_problem(device, dtype, causal=True, tile=(16, 32, 4, 1))
    out, lse = run(kernel, p)
    first = 20 + p.q.shape[2] - p.k.shape[2]  # the first query that sees key 20
    p.k[:, :, 20] = value
    bad_out, bad_lse = run(kernel, p)
    assert torch.equal(bad_out[:, :, :first], out[:, :, :first])
    assert torch.equal(bad_lse[:, :, :first], lse[:, :, :first])
    if math.isnan(value):
        assert bad_out[:, :, first:].isnan().all()
        assert bad_lse[:, :, first:].isnan().all()


@NON_FINITE
def test_non_finite_query_reaches_its_row_alone(kernel, dtype, device):
    p = random_problem(device, dtype, tile=(16, 32, 4, 1))
    out, lse = run(kernel, p)
    p.q[:, :, 20, 3] = math.nan
    bad_out, bad_lse = run(kernel, p)
    others = torch.arange(p.q.shape[2], device=device) != 20
    assert bad_out[:, :, 20].isnan().all()
    assert bad_lse[:, :, 20].isnan().all()
    assert torch.equal(bad_out[:, :, others], out[:, :, others])
    assert torch.equal(bad_lse[:, :, others], lse[:, :, others])


@NON_FINITE
def test_non_finite_value_under_the_mask(kernel, dtype, device):
    """Not promised away: 0 * NaN is NaN. The lse does not read V."""
    p = random_problem(device, dtype, causal=True, seqlen_k=37, tile=(16, 32, 4, 1))
    _, lse = run(kernel, p)
    p.v[:, :, 31] = math.nan
    bad_out, bad_lse = run(kernel, p)
    assert bad_out[:, :, 31:].isnan().all()
    assert bad_out[:, :, 0].isnan().all()  # row 0 does not see key 31
    assert torch.equal(bad_lse, lse)


@NEEDS_GPU
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 80, 128, 192, 256])
def test_long_sequences(kernel, dtype, device, head_dim, causal, record_property):
    problem = random_problem(
        device, dtype, seqlen_q=1999, seqlen_k=2111, head_dim=head_dim, causal=causal
    )
    check(kernel, problem).record(record_property)


@NEEDS_GPU
def test_more_than_65535_heads(kernel, dtype, device, record_property):
    problem = random_problem(
        device, dtype, batch=257, nheads=256, nheads_k=128, seqlen_q=3, seqlen_k=5
    )
    # The reference goes head by head: the last batches are enough for it.
    out, lse = run(kernel, problem)
    assert out.isfinite().all()
    tail = problem._replace(q=problem.q[-3:], k=problem.k[-3:], v=problem.v[-3:])
    judge(tail, out[-3:], lse[-3:]).record(record_property)


@NEEDS_GPU
def test_a_tensor_beyond_2_to_the_31(kernel, device, record_property):
    # 2**31 elements and more in q, k, v and out; the last batch is judged.
    problem = random_problem(
        device, torch.float16, batch=2, nheads=2, seqlen_q=8, seqlen_k=8, head_dim=128
    )
    batch = 2**31 // (2 * 4096 * 128) + 2
    q, k, v = (
        torch.zeros(batch, 2, 4096, 128, dtype=torch.float16, device=device)
        for _ in "qkv"
    )
    for whole, few in zip((q, k, v), problem[:3], strict=True):
        whole[-2:] = few.repeat(1, 1, 512, 1)
    out, lse = run(kernel, problem._replace(q=q, k=k, v=v))
    assert not out[0].any()
    tail = problem._replace(q=q[-2:], k=k[-2:], v=v[-2:])
    judge(tail, out[-2:], lse[-2:]).record(record_property)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_gpu_that_is_not_current(dtype, record_property):
    p = random_problem(torch.device("cuda", 1), dtype)
    with torch.cuda.device(0):
        out, lse = attention(p.q, p.k, p.v, return_lse=True)
        assert torch.cuda.current_device() == 0
    assert out.device == p.q.device
    judge(p, out, lse).record(record_property)
