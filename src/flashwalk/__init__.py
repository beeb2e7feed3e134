"""FlashAttention, line by line: attention kernels in Triton, written to be read.

    from flashwalk import attention, attention_ref

Each name is imported when it is first used, so that importing the package
loads neither PyTorch nor Triton.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashwalk.attention import attention
    from flashwalk.choice import Choice, explain
    from flashwalk.reference import attention_ref

__version__ = "0.1.0"

__all__ = ["Choice", "__version__", "attention", "attention_ref", "explain"]

_HOMES = {
    "Choice": "flashwalk.choice",
    "attention": "flashwalk.attention",
    "attention_ref": "flashwalk.reference",
    "explain": "flashwalk.choice",
}


def __getattr__(name: str) -> Any:
    """Imports a public name from its module on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, those not yet imported among them."""
    return sorted(__all__)


class _Package(ModuleType):
    """Leaves the name `attention` to the function.

    Python binds a submodule in its package once it is imported: the module
    `flashwalk.attention` would hide the function of that name for good.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
