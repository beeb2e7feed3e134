"""The tests run on the CPU: the job that runs them asks for no more."""

import os
import sys
from pathlib import Path

# Before anything imports Triton: a kernel is made for the interpreter, or not,
# when it is defined.
os.environ["TRITON_INTERPRET"] = "1"

# pytest by hand knows as little of src as any other program.
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))


def pytest_configure(config):
    """Lets one warning pass: Triton 3.6's interpreter takes int() of an array."""
    config.addinivalue_line(
        "filterwarnings",
        "ignore:Conversion of an array with ndim > 0 to a scalar is deprecated"
        ":DeprecationWarning:triton.runtime.interpreter",
    )
