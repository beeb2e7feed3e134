"""How the backward's tensors lie in memory: strides, distance, size, device."""

import backward_mutants
import pytest
import torch
from gradients import Case, Gradients, check, judge, run, with_gradient
from problems import random_problem
from test_memory import expanded, interleaved, sliced, transposed

from flashwalk import backward, delta
from flashwalk.forward import Tile

NEEDS_GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU: too large to interpret"
)
LAYOUT = pytest.mark.parametrize("layout", [transposed, sliced, expanded, interleaved])


def relaid(case: Case, layout) -> Case:
    """The case with q, k, v and do in that layout."""
    p = case.problem
    problem = p._replace(q=layout(p.q), k=layout(p.k), v=layout(p.v))
    return case._replace(problem=problem, do=layout(case.do))


@LAYOUT
@pytest.mark.parametrize("head_dim", [16, 24])
def test_not_contiguous(dtype, device, layout, head_dim, record_property):
    problem = random_problem(device, dtype, head_dim=head_dim, causal=True)
    case = relaid(with_gradient(problem, dlse=True), layout)
    assert not case.do.is_contiguous()
    check(backward, case).record(record_property)


def columns(x):
    """Rows along the last axis of memory: the head dim has a stride."""
    return x.mT.contiguous().mT


def one_number(x):
    """What out.sum().backward() sends: strides of 0 everywhere."""
    return x[:1, :1, :1, :1].expand_as(x)


def one_row(x):
    """What out.sum(2) sends back: one row for all, whole in memory."""
    return x[:, :, :1].expand_as(x)


@pytest.mark.parametrize("layout", [columns, one_number, one_row])
def test_any_strides_of_do(dtype, device, layout, record_property):
    case = with_gradient(random_problem(device, dtype, causal=True))
    case = case._replace(do=layout(case.do))
    check(backward, case).record(record_property)


def test_any_strides_of_dlse(device):
    case = with_gradient(random_problem(device, torch.float32), dlse=True)
    for dlse in (case.dlse.mT.contiguous().mT, case.dlse[:1, :1, :1].expand(2, 4, 37)):
        check(backward, case._replace(dlse=dlse))


def test_each_gradient_has_its_own_strides(dtype, device, record_property):
    case = with_gradient(random_problem(device, dtype))
    q, k, v = case.problem[:3]
    buffers = Gradients(transposed(q), sliced(k), interleaved(v))
    around = [x._base.clone() for x in buffers]
    found = run(backward, case, buffers)
    judge(case, found).record(record_property)
    for before, x in zip(around, found, strict=True):
        x.fill_(0.0)
        assert torch.equal(before.isnan(), x._base.isnan())


def test_axes_of_size_1_have_any_stride(dtype, device, record_property):
    case = with_gradient(random_problem(device, dtype, batch=1, head_dim=1, nheads=2))
    do = case.do.as_strided(case.do.shape, (7, *case.do.stride()[1:3], 5))
    check(backward, case._replace(do=do)).record(record_property)


@pytest.mark.parametrize("axis", ["rows", "heads"])
def test_offsets_beyond_int32(device, axis, record_property):
    """Also of what is written: the gradients take the places of q, k and v."""
    case = getattr(backward_mutants, f"far_{axis}")(device, torch.float16)
    q, k, v = (x.clone() for x in case.problem[:3])
    buffers = Gradients(*case.problem[:3])
    near = case._replace(problem=case.problem._replace(q=q, k=k, v=v))
    found = run(backward, near, buffers)
    judge(near, found).record(record_property)
    for x, value in zip(buffers, (q, k, v), strict=True):
        x.copy_(value)
    check(backward, case)


class Recorder:
    """Takes a kernel's place and keeps the grid of the launch."""

    def __getitem__(self, grid):
        self.grid = grid
        return lambda *args, **kwargs: None


@pytest.mark.parametrize("heads", [2, 8])
def test_grids_have_one_axis(monkeypatch, heads):
    """Only a grid's first axis goes beyond 65,535."""
    kernels = {}
    for module, name in (
        (delta, "_attn_bwd_delta"),
        (backward, "_attn_bwd_dkdv"),
        (backward, "_attn_bwd_dq"),
    ):
        monkeypatch.setattr(module, name, kernels.setdefault(name, Recorder()))
    q = torch.empty(70_000, heads, 33, 128, dtype=torch.float16, device="meta")
    k = torch.empty(70_000, heads // 2, 65, 128, dtype=torch.float16, device="meta")
    lse = torch.empty(q.shape[:-1], device="meta")
    tiles = backward.Tiles(Tile(64, 32, 4, 1), Tile(16, 64, 4, 1))
    backward.launch(
        q, k, k, q, lse, q, None, q, k, k, causal=False, softmax_scale=1.0, tiles=tiles
    )
    assert [x.grid for x in kernels.values()] == [
        (70_000 * heads * 3,),
        (70_000 * heads // 2 * 3,),
        (70_000 * heads * 3,),
    ]


@NEEDS_GPU
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 80, 128, 192, 256])
def test_long_sequences(dtype, device, head_dim, causal, record_property):
    problem = random_problem(
        device,
        dtype,
        nheads_k=1,
        seqlen_q=1999,
        seqlen_k=2111,
        head_dim=head_dim,
        causal=causal,
    )
    check(backward, with_gradient(problem)).record(record_property)


@NEEDS_GPU
@pytest.mark.parametrize("head_dim", [64, 128])
def test_long_runs_are_bitwise_equal(dtype, device, head_dim):
    """Thousands of programs, in whatever order they come."""
    problem = random_problem(
        device,
        dtype,
        nheads=8,
        seqlen_q=2048,
        seqlen_k=2048,
        head_dim=head_dim,
        causal=True,
    )
    case = with_gradient(problem)
    first = run(backward, case)
    for _ in range(3):
        again = run(backward, case)
        assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


@NEEDS_GPU
def test_more_than_65535_heads(dtype, device, record_property):
    problem = random_problem(
        device, dtype, batch=257, nheads=256, nheads_k=128, seqlen_q=3, seqlen_k=5
    )
    case = with_gradient(problem)
    found = run(backward, case)
    assert all(x.isfinite().all() for x in found)
    tail = problem._replace(q=problem.q[-3:], k=problem.k[-3:], v=problem.v[-3:])
    few = Gradients(*(x[-3:] for x in found))
    judge(Case(tail, case.do[-3:]), few).record(record_property)
