"""Which kernel a call gets, and that it is said why."""

import re

import pytest
import torch
from problems import random_problem

from flashwalk import attention, choice, explain

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


def test_no_gpu(compiled):
    compiled(None)
    assert explain(*tensors()) == ("portable", "there is no GPU behind device meta")


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


def test_what_it_takes(compiled):
    compiled((9, 0))
    for head_dim in (8, 64, 96, 256):
        assert explain(*tensors(head_dim=head_dim)).kernel == "hopper"
    q, k, v = (x.transpose(1, 2) for x in tensors())
    assert explain(q, k, v).kernel == "hopper"


def test_an_address_is_looked_at_in_each_call(compiled):
    compiled((9, 0))
    q, k, v = (x.new_empty(*x.shape[:3], 72) for x in tensors())
    even = (q[..., :64], k[..., :64], v[..., :64])
    odd = (q[..., :64], k[..., 1:65], v[..., :64])
    found = [explain(*three).kernel for three in (even, odd, even)]
    assert found == ["hopper", "portable", "hopper"]


def test_a_descriptor_of_another_tensor_differs_in_its_address():
    from flashwalk.hopper import host

    x, y = torch.zeros(2, 1, 3, 3, 64, dtype=torch.float16)
    first = host.describe(x, 64, 64)
    assert host.described_as(first, y) == host.describe(y, 64, 64)
    assert first.base is x


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


def test_bad_arguments_are_refused_as_attention_does():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="k must have q's batch"):
        explain(q, k[:1], v)
    with pytest.raises(ValueError, match="causal must be True or False"):
        explain(q, k, v, causal=1)


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
