"""`attention` as PyTorch sees it: autograd, torch.compile, autocast, functions."""

import problems
import pytest
import torch
from accuracy import largest
from gradients import Gradients, exact_gradients, judge, with_gradient
from problems import random_problem
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from flashwalk import attention

ON_GPU = torch.cuda.is_available()
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
HOW = {"causal": True, "softmax_scale": 0.3}


def leaves_of(case, needed="qkv"):
    """q, k and v by themselves; those that are named require gradients."""
    tensors = zip("qkv", case.problem[:3], strict=True)
    return [x.detach().clone().requires_grad_(name in needed) for name, x in tensors]


def small(device, dtype, **how):
    """Two query heads on one key head, a few more keys than queries.

    So few keys are one tile in any backward, which adds to dq once: even where
    sums may have any order the gradients are bitwise equal.
    """
    sizes = {"nheads": 2, "nheads_k": 1, "seqlen_q": 19, "seqlen_k": 23}
    p = random_problem(device, dtype, **(sizes | HOW | how))
    return with_gradient(p, dlse=True)


def differentiate(function, case, leaves, **how):
    """The gradients of sum(out * do) + sum(lse * dlse), for what requires one."""
    out, lse = function(*leaves, return_lse=True, **(HOW | how))
    wanted = [x for x in leaves if x.requires_grad]
    return torch.autograd.grad((out, lse), wanted, (case.do, case.dlse))


@CAUSAL
def test_gradients(dtype, device, causal, record_property):
    case = small(device, dtype, causal=causal)
    found = differentiate(attention, case, leaves_of(case), causal=causal)
    judge(case, Gradients(*found)).record(record_property)


@pytest.mark.parametrize("needed", ["q", "k", "v", "qv", "kv"])
def test_gradients_of_some_inputs(dtype, device, needed):
    case = small(device, dtype)
    whole = dict(
        zip("qkv", differentiate(attention, case, leaves_of(case)), strict=True)
    )
    some = differentiate(attention, case, leaves_of(case, needed))
    for name, x in zip(needed, some, strict=True):
        assert torch.equal(x, whole[name])


def test_gradient_through_out_alone(dtype, device, record_property):
    """return_lse changes nothing; out.sum() sends a gradient with strides of 0."""
    case = small(device, dtype)
    case = case._replace(do=torch.ones_like(case.do), dlse=None)
    leaves = leaves_of(case)
    attention(*leaves, **HOW).sum().backward()
    judge(case, Gradients(*(x.grad for x in leaves))).record(record_property)
    again = leaves_of(case)
    attention(*again, return_lse=True, **HOW)[0].sum().backward()
    assert all(torch.equal(x.grad, y.grad) for x, y in zip(leaves, again, strict=True))


def test_gradient_through_lse_alone(dtype, device, record_property):
    case = small(device, dtype)
    case = case._replace(do=torch.zeros_like(case.do))
    leaves = leaves_of(case)
    (attention(*leaves, return_lse=True, **HOW)[1] * case.dlse).sum().backward()
    judge(case, Gradients(*(x.grad for x in leaves))).record(record_property)
    assert not leaves[2].grad.any()


def test_merged_parts_have_the_gradients_of_the_whole(device):
    """Two halves of the keys, weighted by exp(lse): lse must be differentiable."""
    case = small(device, torch.float32, causal=False)
    q, k, v = leaves_of(case)
    outs, lses = zip(
        *(
            attention(q, *halves, return_lse=True, softmax_scale=0.3)
            for halves in zip(k.split(12, dim=2), v.split(12, dim=2), strict=True)
        ),
        strict=True,
    )
    weights = torch.stack(lses).softmax(dim=0)[..., None]
    merged = (torch.stack(outs) * weights).sum(dim=0)
    found = torch.autograd.grad(merged, (q, k, v), case.do)
    for x, right in zip(found, exact_gradients(case._replace(dlse=None)), strict=True):
        assert largest(x.double() - right) <= 1e-5 * largest(right)


def test_gradients_of_empty_rows(dtype, device, record_property):
    case = with_gradient(problems.empty_rows(device, dtype))
    leaves = leaves_of(case)
    found = torch.autograd.grad(attention(*leaves, causal=True), leaves, case.do)
    judge(case, Gradients(*found)).record(record_property)


def test_gradients_lie_as_their_inputs_do(dtype, device):
    """Those of views of (batch, seqlen, nheads, head_dim) are such views again."""
    case = small(device, dtype)
    leaves = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in leaves_of(case)]
    leaves = [x.detach().requires_grad_() for x in leaves]
    for x, y in zip(differentiate(attention, case, leaves), leaves, strict=True):
        assert x.stride() == y.stride()


def test_gradients_of_views_that_overlap(device):
    """What is expanded, or a window that slides, gets a gradient of its own."""
    case = small(device, torch.float32)
    line = torch.linspace(-1, 1, 2 * 20, device=device).view(2, 1, 20)
    views = (
        case.problem.q[:1, :1].expand_as(case.problem.q),
        line.unfold(-1, 16, 1),
        line.flip(2).unfold(-1, 16, 1),
    )
    assert views[1].stride()[2:] == (1, 1)
    q, k, v = (x.detach() for x in views)
    problem = case.problem._replace(q=q, k=k, v=v, causal=False)
    leaves = [x.detach().requires_grad_() for x in views]
    found = differentiate(attention, case, leaves, causal=False)
    judge(case._replace(problem=problem), Gradients(*found))


def test_same_output_with_and_without_gradients(dtype, device):
    """Calls that need no gradient do not go through the dispatcher."""
    case = small(device, dtype)
    leaves = leaves_of(case)
    out, lse = attention(*leaves, return_lse=True, **HOW)
    assert out.requires_grad
    assert lse.requires_grad
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            plain = attention(*leaves, return_lse=True, **HOW)
        assert not plain[0].requires_grad
        assert torch.equal(plain[0], out)
        assert torch.equal(plain[1], lse)
    assert not attention(*(x.detach() for x in leaves)).requires_grad


def test_what_is_kept_for_the_backward(dtype, device):
    """q, k, v, out and lse: nothing that grows as the square of the length."""
    leaves = leaves_of(small(device, dtype))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda x: x):
        out, lse = attention(*leaves, return_lse=True)
    shapes = sorted(tuple(x.shape) for x in kept)
    assert shapes == sorted(tuple(x.shape) for x in (*leaves, out, lse))


@CAUSAL
def test_deterministic_gradients(dtype, device, causal):
    """Bitwise equal, by the argument and by PyTorch's own switch.

    On a GPU thousands of programs come in whatever order. The switch makes
    PyTorch refuse, and fill what is not yet written.
    """
    sizes = {"seqlen_q": 19, "seqlen_k": 23}
    if ON_GPU:
        sizes = {"nheads": 8, "seqlen_q": 1500, "seqlen_k": 1700, "head_dim": 64}
    case = small(device, dtype, causal=causal, **sizes)
    leaves = leaves_of(case)
    how = {"causal": causal, "deterministic": True}
    first, *others = (differentiate(attention, case, leaves, **how) for _ in range(3))
    torch.use_deterministic_algorithms(True)
    try:
        others.append(differentiate(attention, case, leaves, causal=causal))
    finally:
        torch.use_deterministic_algorithms(False)
    for found in others:
        assert all(torch.equal(x, y) for x, y in zip(first, found, strict=True))


def test_second_derivatives_are_refused(device):
    case = small(device, torch.float32)
    leaves = leaves_of(case)
    out = attention(*leaves)
    (dq,) = torch.autograd.grad(out, leaves[0], torch.ones_like(out), create_graph=True)
    with pytest.raises(NotImplementedError, match="can be differentiated once"):
        dq.sum().backward()


def test_inputs_changed_in_between_are_noticed(device):
    leaves = leaves_of(small(device, torch.float32))
    q = leaves[0] * 1.0
    out = attention(q, *leaves[1:])
    q.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(dtype, device, reentrant):
    case = small(device, dtype)
    expected = differentiate(attention, case, leaves_of(case))
    leaves = leaves_of(case)
    out, lse = checkpoint(
        lambda *qkv: attention(*qkv, return_lse=True, **HOW),
        *leaves,
        use_reentrant=reentrant,
    )
    torch.autograd.backward((out, lse), (case.do, case.dlse))
    for x, y in zip(leaves, expected, strict=True):
        assert torch.equal(x.grad, y)


def test_autocast(device):
    """fp32 goes in, fp16 is computed and comes out, as for PyTorch's own."""
    case = small(device, torch.float32)
    leaves = leaves_of(case)
    with torch.autocast(device.type, dtype=torch.float16):
        out, lse = attention(*leaves, return_lse=True, **HOW)
        mixed = attention(leaves[0], *(x.half() for x in leaves[1:]), **HOW)
    halves = [x.detach().half().requires_grad_() for x in leaves]
    expected, expected_lse = attention(*halves, return_lse=True, **HOW)
    assert out.dtype == torch.float16
    for x, y in ((out, expected), (mixed, expected), (lse, expected_lse)):
        assert torch.equal(x, y)
    out.sum().backward()
    expected.sum().backward()
    for x, y in zip(leaves, halves, strict=True):
        assert x.grad.dtype == torch.float32
        assert torch.equal(x.grad, y.grad.float())


def test_autocast_leaves_fp64_alone(device):
    x = torch.zeros(2, 2, 5, 16, dtype=torch.float64, device=device)
    with (
        torch.autocast(device.type, dtype=torch.float16),
        pytest.raises(ValueError, match=r"q must be one of .*, got torch.float64"),
    ):
        attention(x, x, x)


def test_vmap(device):
    q, k, v = small(device, torch.float32).problem[:3]
    stacked = torch.stack([q, 2 * q])
    mapped = torch.func.vmap(lambda x: attention(x, k, v))(stacked)
    assert torch.equal(mapped, torch.stack([attention(x, k, v) for x in stacked]))


# --- operators and torch.compile ---


@CAUSAL
def test_forward_operator(device, causal):
    """Schema, aliasing, fake tensors and autograd, by PyTorch's own checks."""
    leaves = leaves_of(small(device, torch.float16))
    operator = torch.ops.flashwalk.attention_forward.default
    torch.library.opcheck(operator, (*leaves, causal, 0.3, None, 0.0, False))


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_backward_operator(device, needs):
    case = small(device, torch.float16)
    q, k, v = case.problem[:3]
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    out, lse = attention(q, k, v, return_lse=True, **HOW)
    operator = torch.ops.flashwalk.attention_backward.default
    how = (True, 0.3, None, 0.0, False)
    for dlse in (None, case.dlse):
        arguments = (q, k, v, out, lse, case.do, dlse, *how, *needs)
        torch.library.opcheck(operator, arguments)
        found = operator(*arguments)
        asked = (needs[0], needs[1], needs[1])
        assert [x.numel() > 0 for x in found] == list(asked)


def test_the_compiler_knows_how_gradients_lie(device):
    """Fake tensors say it of transposed, padded, expanded, overlapping inputs."""
    x = torch.rand(2, 3, 8, 16, device=device)
    transposed = x.transpose(1, 2).contiguous().transpose(1, 2)
    padded = torch.rand(2, 3, 8, 17, device=device)[..., :-1]
    window = torch.rand(23, device=device).unfold(0, 16, 1).expand_as(x)
    lse = torch.ones(2, 3, 8, device=device)
    operator = torch.ops.flashwalk.attention_backward.default
    how = (None, False, 0.3, None, 0.0, False, True, True)
    for qkv in ((transposed, padded, x[:1].expand_as(x)), (window, transposed, x)):
        tensors = (*qkv, x, lse, x)
        with FakeTensorMode() as mode:
            fakes = operator(*map(mode.from_tensor, tensors), *how)
        real = operator(*tensors, *how)
        assert [y.stride() for y in fakes] == [y.stride() for y in real]


# PyTorch's own, while it imports its compiler.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(dtype, device, backend):
    """One graph, forward and backward, and the numbers of eager mode."""
    torch._dynamo.reset()
    case = small(device, dtype)
    compiled = torch.compile(attention, fullgraph=True, backend=backend)
    expected = differentiate(attention, case, leaves_of(case))
    found = differentiate(compiled, case, leaves_of(case))
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
    with torch.no_grad():
        assert torch.equal(
            compiled(*case.problem[:3], **HOW), attention(*case.problem[:3], **HOW)
        )


def test_compiled_once_for_all_lengths(device):
    torch._dynamo.reset()
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(attention, fullgraph=True, backend=count, dynamic=True)
    for seqlen in (5, 19, 23):
        p = random_problem(device, torch.float32, seqlen_q=seqlen, seqlen_k=seqlen + 3)
        assert torch.equal(compiled(*p[:3]), attention(*p[:3]))
    assert len(graphs) == 1


def test_compiled_in_autocast(device):
    torch._dynamo.reset()
    leaves = leaves_of(small(device, torch.float32))
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    with torch.autocast(device.type, dtype=torch.float16):
        found = compiled(*leaves, **HOW)
        assert torch.equal(found, attention(*leaves, **HOW))
    assert found.dtype == torch.float16


def test_refusals_survive_compiling(device):
    torch._dynamo.reset()
    q, k, v = small(device, torch.float32).problem[:3]
    compiled = torch.compile(attention, backend="eager")
    with pytest.raises(ValueError, match="k must have q's dtype"):
        compiled(q, k.half(), v)
    with pytest.raises(ValueError, match="causal must be True or False, got 1"):
        compiled(q, k, v, causal=1)


class Watch(TorchDispatchMode):
    """Keeps what goes through the dispatcher."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def test_dispatch_modes_see_the_call(device):
    """Selective checkpointing and counters of operations are such modes."""
    with Watch() as watch:
        attention(*small(device, torch.float32).problem[:3])
    assert torch.ops.flashwalk.attention_forward.default in watch.seen


@pytest.mark.skipif(not ON_GPU, reason="the CPU has no CUDA graphs")
def test_cuda_graph(dtype, device):
    case = small(device, dtype)
    leaves = leaves_of(case)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        differentiate(attention, case, leaves)  # compiles
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = differentiate(attention, case, leaves)
    with torch.no_grad():
        leaves[0].mul_(2.0)
    graph.replay()
    fresh = [x.detach().clone().requires_grad_() for x in leaves]
    expected = differentiate(attention, case, fresh)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_gradients_on_a_gpu_that_is_not_current(dtype, record_property):
    case = small(torch.device("cuda", 1), dtype)
    with torch.cuda.device(0):
        found = differentiate(attention, case, leaves_of(case))
        assert torch.cuda.current_device() == 0
    judge(case, Gradients(*found)).record(record_property)
