"""Where the tests of the kernels run: a GPU if there is one, else interpreted."""

import os
import sys
from pathlib import Path

import torch

# The kernels of this tree, whether or not they are installed: a machine with a
# GPU may have no more than PyTorch and pytest.
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

if not torch.cuda.is_available():
    # Before anything imports Triton: a kernel is made for the interpreter, or
    # not, when it is defined.
    os.environ["TRITON_INTERPRET"] = "1"

import pytest
from hypothesis import settings

# The same examples in every run, and no clock: the interpreter is slow.
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")

ON_GPU = torch.cuda.is_available()
# Under the interpreter Triton gets bf16 wrong, and `attention` refuses it.
DTYPES = [torch.float16, torch.float32] + [torch.bfloat16] * ON_GPU


def pytest_configure(config):
    """Lets one warning pass: Triton 3.6's interpreter takes int() of an array."""
    config.addinivalue_line(
        "filterwarnings",
        "ignore:Conversion of an array with ndim > 0 to a scalar is deprecated"
        ":DeprecationWarning:triton.runtime.interpreter",
    )


def pytest_generate_tests(metafunc):
    """A test that asks for `dtype` runs in every dtype that works here."""
    if "dtype" in metafunc.fixturenames:
        dtypes = DTYPES
        if metafunc.module.__name__ == "test_ladder" and not ON_GPU:
            dtypes = DTYPES[:1]  # a rung is the same code in fp32: time matters
        metafunc.parametrize("dtype", dtypes, ids=lambda dtype: str(dtype)[6:])


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The device that the kernels run on."""
    return (
        torch.device("cuda", torch.cuda.current_device())
        if ON_GPU
        else (torch.device("cpu"))
    )


@pytest.fixture(scope="session")
def kernel():
    """The kernel under test: the teaching kernel, and in test_ladder each rung."""
    from flashwalk import forward

    return forward
