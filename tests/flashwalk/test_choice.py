"""Which kernel a call gets, and that it is said why."""

import math
import re
from types import SimpleNamespace

import problems
import pytest
import torch
from gradients import Gradients, judge, with_gradient
from problems import random_problem

from flashwalk import attention, backward, choice, explain

ON_GPU = torch.cuda.is_available()
HOPPER = ON_GPU and torch.cuda.get_device_capability() == (9, 0)


def tensors(dtype=torch.bfloat16, device="meta", **shape):
    sizes = {"batch": 2, "nheads": 4, "seqlen": 64, "head_dim": 64} | shape
    return [torch.empty(*sizes.values(), dtype=dtype, device=device) for _ in "qkv"]


@pytest.fixture
def compiled(monkeypatch):
    """As on a GPU of this generation, with kernels that are compiled."""

    def of(capability):
        monkeypatch.setattr(choice, "is_interpreted", lambda: False)
        monkeypatch.setattr(choice, "_capability", lambda device: capability)

    return of


def test_the_interpreter_runs_the_kernel_of_the_chapters(device):
    if ON_GPU:
        pytest.skip("kernels are compiled here")
    found = explain(*tensors(torch.float16, device))
    assert found.kernel == "teaching"
    assert "interpreter" in str(found)
    assert explain(*tensors(torch.float16, device), backward=True) == (
        "portable",
        found.reason,
    )


def test_no_gpu(compiled):
    compiled(None)
    expected = ("portable", "there is no GPU behind device meta")
    assert explain(*tensors()) == explain(*tensors(), backward=True) == expected


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0)])
def test_another_gpu(compiled, capability):
    compiled(capability)
    found = explain(*tensors())
    assert found.kernel == "portable"
    assert "sm_{}.{}".format(*capability) in found.reason


def wide(x):
    """Rows of 65 elements, of which the last is left out."""
    return x.new_empty(*x.shape[:3], x.shape[3] + 1)[..., :-1]


def shifted(x):
    """An address that 16 does not divide."""
    return x.new_empty(*x.shape[:3], x.shape[3] + 8)[..., 1:-7]


REFUSED = {
    "fp32": ({"dtype": torch.float32}, None, None, "not float32"),
    "head-dim": ({"head_dim": 60}, None, None, "head_dim is 60"),
    "scale": ({}, None, -0.5, "positive softmax_scale, not -0.5"),
    "scale-0": ({}, None, 0.0, "positive softmax_scale, not 0.0"),
    "stride": ({}, wide, None, r"strides by 16 bytes, v has .*65"),
    "expanded": ({}, lambda x: x[:1].expand_as(x), None, r"strides .*, v has \(0,"),
    "address": ({}, shifted, None, "addresses that 16 divides, v has another"),
    "tiles": ({"batch": 2**12, "nheads": 2**9}, None, None, "2097152 tiles"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_hopper_kernel_refuses(compiled, name):
    how, layout, scale, told = REFUSED[name]
    compiled((9, 0))
    q, k, v = tensors(**how)
    if layout:
        v = layout(v)
    found = explain(q, k, v, softmax_scale=scale)
    assert found.kernel == "portable"
    assert re.search(told, found.reason), found.reason
    assert explain(q, k, v, softmax_scale=scale, backward=True) == found


def test_what_it_takes(compiled):
    compiled((9, 0))
    for head_dim in (8, 64, 96, 256):
        assert explain(*tensors(head_dim=head_dim)).kernel == "hopper"
    for head_dim in (8, 64, 96, 128, 256):
        assert explain(*tensors(head_dim=head_dim), backward=True).kernel == "hopper"
    wide = tensors(head_dim=136)
    assert explain(*wide, deterministic=True, backward=True).kernel == "hopper"
    q, k, v = (x.transpose(1, 2) for x in tensors())
    assert explain(q, k, v).kernel == "hopper"
    assert explain(q, k, v, backward=True).kernel == "hopper"


def test_what_autocast_makes_of_it(compiled):
    compiled((9, 0))
    single = tensors(torch.float32, "cpu")
    assert explain(*single).kernel == "portable"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert explain(*single).kernel == "hopper"


def test_what_only_the_hopper_backward_refuses(compiled, monkeypatch):
    compiled((9, 0))
    q, k, v = tensors()

    def why(*qkv, **how):
        assert explain(*(qkv or (q, k, v))).kernel == "hopper"
        found = explain(*(qkv or (q, k, v)), **how, backward=True)
        assert found.kernel == "portable"
        return found.reason

    assert "drops no weights" in why(dropout_p=0.1)
    assert explain(q, k, v, dropout_p=0.0, backward=True).kernel == "hopper"
    assert "deterministic" in why(deterministic=True)
    last = tensors(head_dim=128)
    assert "deterministic" in why(*last, deterministic=True)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
        assert "torch.use_deterministic_algorithms is on" in why()
    long = torch.empty(1, 1, 2**20 + 1, 64, dtype=q.dtype, device="meta")
    assert "queries end at 1048576" in why(long, k[:1, :1], v[:1, :1])
    long = q.new_empty(2, 4, 2**25, 64)
    assert "2097152 tiles are too many" in why(q, long, long)
    monkeypatch.setattr(choice._hopper("backward"), "TILES", {32: None})
    assert "head_dim ends at 32" in why()


def test_a_forward_that_drops_weights():
    assert explain(*tensors(), dropout_p=0.5).kernel == "dropout"


def test_another_triton_is_told_once_and_does_not_break(compiled, monkeypatch):
    compiled((9, 0))
    choice._hopper.cache_clear()
    monkeypatch.setattr("triton.__version__", "3.9.1")
    with pytest.warns(RuntimeWarning, match="Triton 3.9.1: it is written for"):
        first = explain(*tensors())
    assert first.kernel == "portable"
    assert explain(*tensors()) == first
    choice._hopper.cache_clear()


def test_a_gluon_that_lacks_a_name_is_told(compiled, monkeypatch):
    compiled((9, 0))
    choice._hopper.cache_clear()

    def broken(name):
        raise ImportError("cannot import name 'warpgroup_mma'")

    monkeypatch.setattr(choice, "import_module", broken)
    with pytest.warns(RuntimeWarning, match="warpgroup_mma"):
        assert explain(*tensors()).kernel == "portable"
    choice._hopper.cache_clear()


def test_a_gluon_that_lacks_what_the_backward_needs_is_told(compiled, monkeypatch):
    compiled((9, 0))
    choice._hopper.cache_clear()
    real = choice.import_module

    def broken(name):
        if name.endswith("backward"):
            raise AttributeError("DESCRIPTOR_REDUCE_KIND")
        return real(name)

    monkeypatch.setattr(choice, "import_module", broken)
    assert explain(*tensors()).kernel == "hopper"
    with pytest.warns(RuntimeWarning, match="DESCRIPTOR_REDUCE_KIND"):
        assert explain(*tensors(), backward=True).kernel == "portable"
    choice._hopper.cache_clear()


def test_bad_arguments_are_refused_as_attention_does():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="k must have q's batch"):
        explain(q, k[:1], v)
    with pytest.raises(ValueError, match="causal must be True or False"):
        explain(q, k, v, causal=1)
    with pytest.raises(ValueError, match="deterministic must be True or False"):
        explain(q, k, v, deterministic=1)
    with pytest.raises(ValueError, match="backward must be True or False"):
        explain(q, k, v, backward="yes")
    with pytest.raises(ValueError, match="dropout_p must be a real number"):
        explain(q, k, v, dropout_p=1.0)


# --- what the Hopper backward is given ---


@pytest.fixture
def as_hopper(monkeypatch):
    """The Hopper backward is chosen; in its place the portable one takes no more."""
    real = choice._hopper
    host = real("backward").host
    calls = []

    def launch(q, k, v, out, lse, do, dlse, dq, dk, dv, **how):
        calls.append(do)
        assert do.stride(-1) == 1
        for x in (do, dk, dv):
            assert host.refusal(x, x, x, how["softmax_scale"]) is None
        assert dq.is_contiguous()
        assert dlse is None or (dlse.is_contiguous() and dlse.isfinite().all())
        backward.launch(q, k, v, out, lse, do, dlse, dq, dk, dv, **how)

    def modules(part="forward"):
        stand_in = SimpleNamespace(launch=launch, host=host)
        return stand_in if part == "backward" else real(part)

    monkeypatch.setattr(choice, "_hopper", modules)
    chosen = choice.Choice("hopper", "for a test")
    monkeypatch.setattr(choice, "choose_backward", lambda *args, **how: chosen)
    return calls


def rows_apart(x):
    return wide(x).copy_(x)


def columns_apart(x):
    return x.repeat_interleave(2, dim=3)[..., ::2]


ANYHOW = {
    "as-it-is": lambda x: x,
    "rows-apart": rows_apart,
    "columns-apart": columns_apart,
    "shifted": lambda x: shifted(x).copy_(x),
    "one-for-all-rows": lambda x: x[:, :, :1].expand_as(x),
    "one-for-all": lambda x: x[:1, :1, :1, :1].expand_as(x),
}


@pytest.mark.parametrize("layout", ANYHOW)
def test_any_gradient_of_the_output(as_hopper, device, layout):
    case = with_gradient(random_problem(device, torch.float16, softmax_scale=0.3))
    case = case._replace(do=ANYHOW[layout](case.do))
    leaves = [x.clone().requires_grad_() for x in case.problem[:3]]
    out = attention(*leaves, softmax_scale=0.3)
    judge(case, Gradients(*torch.autograd.grad(out, leaves, case.do)))
    (given,) = as_hopper
    as_it_was = given.stride() == case.do.stride()
    assert as_it_was == (layout == "as-it-is")


@pytest.mark.parametrize("needed", ["q", "v", "kv"])
def test_gradients_lie_as_their_inputs_do_and_some_are_thrown_away(
    as_hopper, device, needed
):
    case = with_gradient(problems.empty_rows(device, torch.float16), dlse=True)
    case.dlse[:, :, :38] = math.nan  # of rows that see no key
    leaves = [
        x.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_(name in needed)
        for name, x in zip("qkv", case.problem[:3], strict=True)
    ]
    pair = attention(*leaves, causal=True, return_lse=True)
    wanted = [x for x in leaves if x.requires_grad]
    found = torch.autograd.grad(pair, wanted, (case.do, case.dlse))
    for x, y in zip(found, wanted, strict=True):
        assert x.stride() == y.stride()
    whole = [x.detach().requires_grad_() for x in leaves]
    pair = attention(*whole, causal=True, return_lse=True)
    expected = Gradients(*torch.autograd.grad(pair, whole, (case.do, case.dlse)))
    judge(case._replace(dlse=case.dlse.nan_to_num()), expected)
    for name, x in zip(needed, found, strict=True):
        assert torch.equal(x, getattr(expected, f"d{name}"))
    assert len(as_hopper) == 2


@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ({}, (False, False)),
        ({"deterministic": True}, (False, True)),
        ({"dropout_p": 0.1}, (True, False)),
    ],
    ids=["plain", "deterministic", "dropout"],
)
def test_the_choice_knows_the_arguments(monkeypatch, device, how, asked):
    seen = []

    def choose_backward(q, k, v, softmax_scale, *, dropout, deterministic):
        seen.append((softmax_scale, dropout, deterministic))
        return choice.Choice("portable", "for a test")

    monkeypatch.setattr(choice, "choose_backward", choose_backward)
    qkv = random_problem(device, torch.float16, seqlen_q=5, seqlen_k=5)[:3]
    leaves = [x.requires_grad_() for x in qkv]
    attention(*leaves, softmax_scale=0.5, **how).sum().backward()
    assert seen == [(0.5, *asked)]


# --- on Hopper ---


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 128, 192])
def test_dk_and_dv_of_the_hopper_backward_are_bitwise_equal(device, head_dim, causal):
    """Up to 128 columns many blocks of keys add to each dq, in any order."""
    p = random_problem(
        device, torch.bfloat16, nheads=8, seqlen_q=1500, seqlen_k=1700,
        head_dim=head_dim, causal=causal,
    )  # fmt: skip
    case = with_gradient(p, dlse=True)
    assert explain(*p[:3], causal=causal, backward=True).kernel == "hopper"
    leaves = [x.requires_grad_() for x in p[:3]]
    pair = attention(*leaves, causal=causal, return_lse=True)

    def differentiate():
        return Gradients(
            *torch.autograd.grad(pair, leaves, (case.do, case.dlse), retain_graph=True)
        )

    first = differentiate()
    judge(case, first)
    for _ in range(5):
        again = differentiate()
        assert torch.equal(again.dk, first.dk)
        assert torch.equal(again.dv, first.dv)
        assert head_dim <= 128 or torch.equal(again.dq, first.dq)


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")
def test_the_choice_does_not_change_the_answer(device):
    p = random_problem(device, torch.float16, head_dim=64, seqlen_q=300)
    assert explain(p.q, p.k, p.v).kernel == "hopper"
    fast, fast_lse = attention(p.q, p.k, p.v, return_lse=True)
    q = wide(p.q).copy_(p.q)
    assert explain(q, p.k, p.v).kernel == "portable"
    slow, slow_lse = attention(q, p.k, p.v, return_lse=True)
    assert (fast - slow).abs().max() <= 2e-3
    assert (fast_lse - slow_lse).abs().max() <= 1e-5
