"""What `attention` refuses, and that it says what was required and what came."""

import math
import os
import subprocess
import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from problems import random_problem

from flashwalk import attention, attention_ref, backward, forward
from flashwalk.attention import _check_sizes

ON_GPU = torch.cuda.is_available()


def tensor(device, *shape, dtype=torch.float16):
    return torch.zeros(*(shape or (2, 4, 5, 16)), dtype=dtype, device=device)


# What is changed in a good call -> what the message must say.
REFUSED = {
    "q-list": ({"q": [1.0]}, "q must be a torch.Tensor, got list"),
    "v-none": ({"v": None}, "v must be a torch.Tensor, got NoneType"),
    "k-3d": ({"k": (4, 5, 16)}, r"k must have the 4 axes .* got 3: \(4, 5, 16\)"),
    "q-no-rows": ({"q": (2, 4, 0, 16)}, r"q must .* 1 element along seqlen, got .*0"),
    "kv-no-keys": (
        {"k": (2, 4, 0, 16), "v": (2, 4, 0, 16)},
        "k must .* 1 element along seqlen",
    ),
    "q-no-batch": ({"q": (0, 4, 5, 16)}, "q must .* 1 element along batch"),
    "k-no-heads": ({"k": (2, 0, 5, 16)}, "k must .* 1 element along nheads"),
    "q-no-dim": ({"q": (2, 4, 5, 0)}, "q must .* 1 element along head_dim"),
    "k-batch": ({"k": (3, 4, 5, 16)}, "k must have q's batch of 2, got 3"),
    "k-head-dim": ({"k": (2, 4, 5, 8)}, "k must have q's head_dim of 16, got 8"),
    "v-length": (
        {"v": (2, 4, 6, 16)},
        r"v must have k's shape \(2, 4, 5, 16\), got \(2, 4, 6, 16\)",
    ),
    # The strides of a good v: nothing but the shape is different.
    "v-batch": ({"v": (1, 4, 5, 16)}, "v must have k's shape"),
    "v-heads": ({"v": (2, 2, 5, 16)}, "v must have k's shape"),
    "heads-3-on-2": (
        {"q": (2, 3, 5, 16), "k": (2, 2, 5, 16), "v": (2, 2, 5, 16)},
        "heads of k must divide those of q, got 2 for k and 3 for q",
    ),
    "more-key-heads": (
        {"k": (2, 8, 5, 16), "v": (2, 8, 5, 16)},
        "must divide those of q, got 8 for k and 4 for q",
    ),
    "head-dim-257": (
        {"q": (2, 4, 5, 257), "k": (2, 4, 5, 257), "v": (2, 4, 5, 257)},
        "head_dim must be between 1 and 256, got 257",
    ),
    "k-dtype": ({"k": torch.float32}, "k must have q's dtype .*16, got torch.float32"),
    "v-dtype": ({"v": torch.float32}, "v must have q's dtype .*16, got torch.float32"),
    "k-device": ({"k": "meta"}, "k must be on q's device .*, got meta"),
    "v-device": ({"v": "meta"}, "v must be on q's device .*, got meta"),
    "causal-int": ({"causal": 1}, "causal must be True or False, got 1"),
    "causal-none": ({"causal": None}, "causal must be True or False, got None"),
    "scale-nan": ({"softmax_scale": math.nan}, "softmax_scale .* finite .*got nan"),
    "scale-inf": ({"softmax_scale": -math.inf}, "softmax_scale .* finite.*got -inf"),
    "scale-fp64": ({"softmax_scale": 1e39}, r"finite in fp32, got 1e\+39"),
    "scale-huge": ({"softmax_scale": 10**400}, "finite in fp32, got inf"),
    "scale-bool": ({"softmax_scale": True}, "softmax_scale .*number.*got bool"),
    "scale-str": ({"softmax_scale": "1"}, "softmax_scale .*number.*got str"),
    "scale-complex": ({"softmax_scale": 1j}, "softmax_scale .*number.*got complex"),
    "scale-tensor": (
        {"softmax_scale": torch.tensor(1.0)},
        "softmax_scale must be a real number or None, got Tensor",
    ),
}


def arguments(device, changes):
    """Keyword arguments of a good call, with these changed."""
    good = {name: tensor(device) for name in "qkv"}
    for name, change in changes.items():
        if isinstance(change, tuple):
            change = tensor(device, *change)
        elif isinstance(change, torch.dtype):
            change = tensor(device, dtype=change)
        elif change == "meta":
            change = tensor("meta")
        good[name] = change
    return good


@pytest.fixture(autouse=True)
def a_good_call_before(device):
    """What is known of the arguments of one call must not let others pass."""
    attention(**arguments(device, {}))


@pytest.mark.parametrize("function", [attention, attention_ref])
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, function, device):
    changes, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        function(**arguments(device, changes))


@pytest.mark.parametrize(
    ("asked", "kernel", "reference"),
    [
        (torch.float64, True, False),
        (torch.int32, True, True),
        (torch.complex64, True, True),
        (torch.bfloat16, not ON_GPU, False),
    ],
    ids=str,
)
def test_dtypes_refused(asked, kernel, reference, device):
    x = tensor(device, dtype=asked)
    for function, refuses in ((attention, kernel), (attention_ref, reference)):
        if refuses:
            with pytest.raises(ValueError, match=f"q must be .*, got {asked}"):
                function(x, x, x)
        else:
            function(x, x, x)


@pytest.mark.parametrize("name", ["return_lse", "deterministic"])
def test_flags(device, name):
    x = tensor(device)
    with pytest.raises(ValueError, match=f"{name} must be True or False, got 'no'"):
        attention(x, x, x, **{name: "no"})


@pytest.mark.parametrize("name", "qkv")
def test_last_stride(name, device):
    changed = tensor(device, 2, 4, 16, 5).transpose(2, 3)
    with pytest.raises(ValueError, match=rf"{name} must .* last stride of 1, got .*5"):
        attention(**arguments(device, {}) | {name: changed})


def test_layouts_refused(device):
    x = tensor(device)
    with pytest.raises(
        ValueError, match=r"q must be a plain strided tensor, got .*coo"
    ):
        attention(x.to_sparse(), x, x)
    negated = torch.zeros(2, 4, 5, 16, dtype=torch.complex64, device=device)
    with pytest.raises(ValueError, match=r"k must .*, got .* pending negation"):
        attention(x, negated.conj().imag, x)
    # As dense as x, which was taken in another call.
    with pytest.raises(ValueError, match=r"v must .*, got .* pending negation"):
        attention(x, x, torch._neg_view(x))


def test_meta_tensors_are_refused():
    x = tensor("meta")
    with pytest.raises(ValueError, match=r"q must be on a GPU.*, got device meta"):
        attention(x, x, x)


@pytest.mark.parametrize(
    ("q", "k", "message"),
    [
        ((1, 1, 2**30, 1), (1, 1, 1, 1), f"q .* at most {2**30 - 1}, got {2**30}"),
        ((1, 1, 1, 1), (1, 1, 2**30, 1), f"k .* at most {2**30 - 1}, got {2**30}"),
        ((2**16, 2**15, 1, 1), (1, 1, 1, 1), f"at most {2**31 - 1}, got {2**31}"),
        ((2, 2**25, 2**9, 1), (1, 1, 1, 1), f"at most {2**31 - 1}, got {2**31}"),
        ((1, 1, 1, 1), (2, 2**25, 2**9, 1), f"k .* at most {2**31 - 1}, got {2**31}"),
    ],
)
def test_sizes_that_would_wrap(q, k, message):
    with pytest.raises(ValueError, match=message):
        _check_sizes(torch.empty(q, device="meta"), torch.empty(k, device="meta"))


def test_largest_sizes_pass():
    q = torch.empty(1, 31, 2**30 - 1, 1, device="meta")
    _check_sizes(q, q)


def test_no_sum_of_int32_wraps_at_the_largest_length():
    """The kernels' own sums, at the bound that `attention` sets."""
    longest = 2**30 - 1
    block = max(max(tile.block_m, tile.block_n) for tile in every_tile())
    rows = -(-longest // block) * block
    for other in (1, longest):
        for value in (rows + block, rows + (longest - other), longest - other):
            assert value < 2**31


def every_tile(module=None):
    """All tiles of the tables: of the forward, of the backward, or of both."""
    cases = product(range(1, 257), (torch.float16, torch.float32), (False, True))
    for head_dim, dtype, aligned in cases:
        if module is not backward:
            yield forward.tile_for(head_dim, dtype, aligned=aligned)
        if module is not forward:
            yield from backward.tiles_for(head_dim, dtype, aligned=aligned)


def test_smallest_tile_bounds_the_grid():
    assert min(tile.block_m for tile in every_tile(forward)) == 16
    assert min(min(tile[:2]) for tile in every_tile(backward)) == 16


@pytest.mark.parametrize("scale", [2, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_any_real_number_is_a_scale(scale, device):
    q, k, v = random_problem(device, torch.float16)[:3]
    expected = attention(q, k, v, softmax_scale=float(scale))
    assert torch.equal(attention(q, k, v, softmax_scale=scale), expected)


def run_python(code: str, **environment: str) -> str:
    """What `code` prints in a process of its own, without the interpreter."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=env | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_cpu_tensors_need_the_interpreter():
    message = run_python(
        "import torch, flashwalk\n"
        "x = torch.zeros(1, 1, 1, 16)\n"
        "try: flashwalk.attention(x, x, x)\n"
        "except ValueError as error: print(error)"
    )
    assert message.startswith("q must be on a GPU, or on the CPU with TRITON_INTERPRET")
    assert message.endswith("got device cpu")


def test_import_is_light():
    loaded = run_python(
        "import sys, flashwalk\n"
        "print(flashwalk.__version__, sorted(dir(flashwalk)))\n"
        "print([name for name in ('torch', 'triton', 'numpy') if name in sys.modules])"
    )
    first, second = loaded.splitlines()
    assert "attention" in first
    assert second == "[]"


def test_a_forward_needs_no_backward():
    """What runs no backward does not hang on its source: results stay fresh."""
    where = "cuda" if ON_GPU else "cpu"
    loaded = run_python(
        "import sys, torch, flashwalk\n"
        f"x = torch.zeros(1, 1, 1, 16, device='{where}')\n"
        "flashwalk.attention(x, x, x)\n"
        "print([name for name in sys.modules if name.startswith('flashwalk.')])",
        TRITON_INTERPRET="0" if ON_GPU else "1",
    )
    assert "flashwalk.operators" in loaded
    assert "flashwalk.backward" not in loaded
    assert "flashwalk.delta" not in loaded
    assert "flashwalk.dropout" not in loaded


def test_reference_needs_no_triton():
    loaded = run_python(
        "import sys, flashwalk; flashwalk.attention_ref\n"
        "print('triton' in sys.modules, 'flashwalk.forward' in sys.modules)"
    )
    assert loaded == "False False"


def test_public_names_are_functions():
    code = "import flashwalk.attention; from flashwalk import *; print(attention)"
    assert run_python(code).startswith("<function attention")


def test_unknown_name():
    import flashwalk

    with pytest.raises(
        AttributeError, match=r"flashwalk.* has no attribute 'sideways'"
    ):
        flashwalk.sideways  # noqa: B018
