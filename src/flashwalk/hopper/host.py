"""The host's part that every kernel with TMA and warpgroups has in common."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

_DTYPES = {
    torch.bfloat16: gl.bfloat16,
    torch.float16: gl.float16,
    torch.float32: gl.float32,
}
# A tile's columns in shared memory; the TMA fills up with zeros.
_PADDED_DIMS = (64, 128, 256)


@dataclass
class Recipe:
    """A launch without its tensors: all that is the same for equal signatures.

    descriptors: of the tensors that the TMA moves. arguments: what follows the
    tensors, in the kernel's order. kernel: as compiled at the first launch.
    """

    grid: tuple[int, int, int]
    descriptors: tuple[TensorDescriptor, ...]
    arguments: tuple[Any, ...]
    kernel: Any = None

    def launch(
        self, function: Any, moved: tuple[torch.Tensor, ...], *others: torch.Tensor
    ) -> None:
        """Launches the kernel on the descriptors of `moved`, and on `others`.

        Triton finds the compiled kernel by all arguments anew in each call; a
        recipe has one, and hands them to it.
        """
        described = map(described_as, self.descriptors, moved)
        arguments = (*described, *others, *self.arguments)
        if self.kernel is None:
            self.kernel = function[self.grid](*arguments, num_warps=4)
        else:
            self.kernel[self.grid](*arguments)


def refusal(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, softmax_scale: float
) -> str | None:
    """Why these kernels cannot take the arguments; None where they can."""
    if q.dtype not in (torch.float16, torch.bfloat16):
        return f"it multiplies fp16 and bf16, not {str(q.dtype)[6:]}"
    if q.shape[3] % 8:
        return f"the TMA writes rows of 16 bytes, and head_dim is {q.shape[3]}"
    if softmax_scale <= 0:
        # The largest score is searched before it is scaled.
        return f"its maximum needs a positive softmax_scale, not {softmax_scale}"
    for name, x in (("q", q), ("k", k), ("v", v)):
        for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True):
            if size > 1 and (stride % 8 or stride == 0):
                return f"the TMA strides by 16 bytes, {name} has {x.stride()}"
    return misaligned(q, k, v)


def misaligned(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str | None:
    """The part of `refusal` that differs between tensors of equal shapes."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.data_ptr() % 16:
            return f"the TMA reads from addresses that 16 divides, {name} has another"
    return None


def without_empty_rows(
    q: torch.Tensor, k: torch.Tensor, out: torch.Tensor, lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, out and lse of the rows that see a key under a causal mask.

    The others, which come first, are filled: 0 and −inf.
    """
    empty = q.shape[2] - k.shape[2]
    if empty <= 0:
        return q, out, lse
    out[:, :, :empty] = 0.0
    lse[:, :, :empty] = -math.inf
    return q[:, :, empty:], out[:, :, empty:], lse[:, :, empty:]


def padded_dim(head_dim: int) -> int:
    """The columns of a tile for this head dim."""
    return min(limit for limit in _PADDED_DIMS if head_dim <= limit)


def has_empty_quarter(head_dim: int) -> bool:
    """Whether the last quarter of the padded columns is empty: 96 of 128.

    64 columns lie in one piece, and are not cut.
    """
    columns = padded_dim(head_dim)
    return columns > 64 and head_dim <= columns // 4 * 3


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the device has."""
    return torch.cuda.get_device_properties(device).multi_processor_count


@functools.cache
def _layout(rows: int, head_dim: int, dtype: torch.dtype) -> gl.NVMMASharedLayout:
    """How a tile lies in shared memory: swizzled, as the products read it."""
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, head_dim], _DTYPES[dtype])


def describe(x: torch.Tensor, rows: int, head_dim: int) -> TensorDescriptor:
    """What the TMA must know of x to move tiles of (rows, head_dim).

    It reads zeros beyond the end of any axis, and writes nothing there: a tile
    never meets another head's rows, nor the memory beside a view. A tile may
    begin before row 0 when it is read, but not when it is written: on an H200
    that is an illegal instruction.
    """
    # An axis of size 1 may have any stride, of which the TMA would complain.
    strides = [
        stride if size > 1 else 8
        for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True)
    ]
    return TensorDescriptor(
        x,
        list(x.shape),
        [*strides, 1],
        [1, 1, rows, head_dim],
        _layout(rows, head_dim, x.dtype),
    )


def described_as(descriptor: TensorDescriptor, x: torch.Tensor) -> TensorDescriptor:
    """`descriptor`, of a tensor that differs from its own in its address alone.

    Making it as usual would check it again, which takes longer than the rest.
    """
    twin = object.__new__(TensorDescriptor)
    vars(twin).update(vars(descriptor), base=x)
    return twin


def describe_line(x: torch.Tensor, size: int) -> TensorDescriptor:
    """As `describe`, for pieces of a contiguous fp32 tensor, end to end."""
    flat = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    return TensorDescriptor(x.view(-1), [x.numel()], [1], [size], flat)
