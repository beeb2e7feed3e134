"""Attention written down as its definition, in plain PyTorch: the judge."""

import torch

from flashwalk.arguments import check_flag, check_tensors, resolve_scale


def attention_ref(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(q @ k.T * softmax_scale) @ v, head by head, without tricks.

    Takes what `flashwalk.attention` takes and means the same by it: grouped
    heads, causal aligned bottom-right, 0 and −inf for a row that sees no key.
    Beyond that, any device, any strides, and fp64. Computes in fp64 when given
    fp64, in fp32 otherwise; one (seqlen_q, seqlen_k) matrix is in memory at a
    time.

    Args:
        q: (batch, nheads, seqlen_q, head_dim), floating point.
        k: (batch, nheads_k, seqlen_k, head_dim), dtype and device of q;
            nheads_k divides nheads.
        v: like k.
        causal: query i sees key j when j <= i + seqlen_k - seqlen_q.
        softmax_scale: factor of the scores; None for 1 / sqrt(head_dim).

    Returns:
        out: like q, in its dtype.
        lse: (batch, nheads, seqlen_q), the natural logarithm of the sum of
            exp(scores), fp64 when given fp64, otherwise fp32.

    Raises:
        ValueError: an argument is not as described.
    """
    check_tensors(q, k, v)
    check_flag("causal", causal)
    if not q.dtype.is_floating_point:
        raise ValueError(f"q must be of a floating-point dtype, got {q.dtype}")
    scale = resolve_scale(softmax_scale, q.shape[-1])
    batch, nheads, seqlen_q, _ = q.shape
    group_size = nheads // k.shape[1]
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32

    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = torch.empty(batch, nheads, seqlen_q, dtype=dtype, device=q.device)
    hidden = _hidden(seqlen_q, k.shape[2], q.device) if causal else None
    for b in range(batch):
        for h in range(nheads):
            k_head, v_head = k[b, h // group_size], v[b, h // group_size]
            out[b, h], lse[b, h] = _one_head(
                q[b, h].to(dtype), k_head.to(dtype), v_head.to(dtype), scale, hidden
            )
    return out, lse


def _hidden(seqlen_q: int, seqlen_k: int, device: torch.device) -> torch.Tensor:
    """(seqlen_q, seqlen_k): True where causal hides a key from a query."""
    ones = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool, device=device)
    return ones.triu(diagonal=seqlen_k - seqlen_q + 1)


def _one_head(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    hidden: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of one head: (seqlen_q, head_dim) and (seqlen_q,)."""
    scores = q @ k.T * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    lse = scores.logsumexp(dim=-1)
    # A row that sees no key: its lse is −inf, and exp(−inf − 0) gives it 0.
    finite = lse.masked_fill(lse == float("-inf"), 0.0)
    return (scores - finite[:, None]).exp() @ v, lse
