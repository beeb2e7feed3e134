"""All of a call's tensors but their addresses and values.

Whether arguments are valid, which kernel takes them and how it is launched
depends on nothing else. So this is worked out once a signature, and then looked
up: for a short sequence it would take longer than the kernel.
"""

from typing import NamedTuple

import torch


class Signature(NamedTuple):
    """Of q, k and v, whose dtype and device are the same, v's shape being k's."""

    q_shape: torch.Size
    q_strides: tuple[int, ...]
    k_shape: torch.Size
    k_strides: tuple[int, ...]
    v_strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> "Signature":
        return cls(
            q.shape, q.stride(), k.shape, k.stride(), v.stride(), q.dtype, q.device
        )

    def q(self) -> torch.Tensor:
        """A tensor like q, without memory."""
        return without_memory(self.q_shape, self.q_strides, self.dtype)

    def k(self) -> torch.Tensor:
        return without_memory(self.k_shape, self.k_strides, self.dtype)

    def v(self) -> torch.Tensor:
        return without_memory(self.k_shape, self.v_strides, self.dtype)


class BackwardSignature(NamedTuple):
    """Of a backward: of q, k and v, and how out, do, dq, dk and dv lie."""

    forward: Signature
    out_strides: tuple[int, ...]
    do_strides: tuple[int, ...]
    dq_strides: tuple[int, ...]
    dk_strides: tuple[int, ...]
    dv_strides: tuple[int, ...]

    @classmethod
    def of(
        cls,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *others: torch.Tensor,
    ) -> "BackwardSignature":
        """others: out, do, dq, dk, dv."""
        return cls(Signature.of(q, k, v), *(x.stride() for x in others))

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Tensors like q, k, v, out, do, dq, dk, dv, without memory."""
        q, k, v = self.forward.q(), self.forward.k(), self.forward.v()
        like = (q, q, q, k, k)
        others = (
            without_memory(x.shape, strides, x.dtype)
            for x, strides in zip(like, self[1:], strict=True)
        )
        return (q, k, v, *others)


def without_memory(
    shape: torch.Size, strides: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """What can be asked for its shape, strides and dtype."""
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")
