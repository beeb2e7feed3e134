"""Dropout on the weights: the mask, and the forward kernel that applies it.

The mask is nowhere in memory. Whether query i keeps key j is a function of a
seed and of (batch, head, i, j), computed where it is needed: Philox turns a
counter into random bits, and the counter is these four numbers (Salmon et al.
2011, "Parallel random numbers: as easy as 1, 2, 3"). So forward and backward
agree, whatever tiles they cut and in whatever order they go.
"""

# Triton's types are not annotations: mypy checks the launcher alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import triton
import triton.language as tl

from flashwalk.forward import Tile


@triton.jit
def keep_mask(seed, dropout_p, b, h, rows, start_n, BLOCK_N: tl.constexpr):
    # [counter] One call makes 4 numbers: those of 4 keys side by side. All
    # four parts of the counter are 32 bits wide, and none is a product.
    quads = start_n // 4 + tl.arange(0, BLOCK_N // 4)
    r0, r1, r2, r3 = tl.philox(
        seed, quads[None, :], rows[:, None], h.to(tl.int32), b.to(tl.int32)
    )

    # [interleave] Number i of a call belongs to key i of its four.
    r = tl.join(tl.join(r0, r2), tl.join(r1, r3))
    r = tl.reshape(r, [rows.shape[0], BLOCK_N])

    # [compare] 24 bits are a whole number that fp32 holds; dropout_p of all
    # such numbers lie below the limit.
    return (r >> 8).to(tl.float32) >= dropout_p * 16777216.0


# fmt: off
# The kernel of forward.py, and what dropout adds to it.
@triton.jit(do_not_specialize=[
    "nheads", "group_size", "seqlen_q", "seqlen_k",
])
def _attn_fwd_dropout(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, seed_ptr,
    softmax_scale, dropout_p,
    stride_qb, stride_qh, stride_qm,
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_om,
    nheads, group_size, seqlen_q, seqlen_k, head_dim,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
):
    # fmt: on
    # [program] Which block of queries is mine, of which batch and head?
    num_m_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    start_m = tl.program_id(0) % num_m_blocks
    off_bh = tl.program_id(0) // num_m_blocks
    off_b = (off_bh // nheads).to(tl.int64)
    off_h = (off_bh % nheads).to(tl.int64)
    seed = tl.load(seed_ptr)

    # [offsets] An index turns int64 before it meets a stride.
    off_hk = off_h // group_size
    q_base = q_ptr + off_b * stride_qb + off_h * stride_qh
    k_base = k_ptr + off_b * stride_kb + off_hk * stride_kh
    v_base = v_ptr + off_b * stride_vb + off_hk * stride_vh
    o_base = out_ptr + off_b * stride_ob + off_h * stride_oh
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    in_head = offs_d < head_dim

    # [load-q] Q is read once and stays on chip for the whole loop.
    q_mask = (offs_m < seqlen_q)[:, None] & in_head[None, :]
    rows = offs_m[:, None].to(tl.int64)
    q_at = q_base + rows * stride_qm + offs_d[None, :]
    q = tl.load(q_at, mask=q_mask, other=0.0)  # [BLOCK_M, HEAD_DIM]

    # [state] Per row: the running maximum, the denominator, the numerator.
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # [BLOCK_M]
    l_i = tl.zeros([BLOCK_M], tl.float32)  # [BLOCK_M]
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)  # [BLOCK_M, HEAD_DIM]

    # [bound] Causal: the last row of the block sees the most keys.
    hi = seqlen_k
    if CAUSAL:
        diagonal = (start_m + 1) * BLOCK_M + (seqlen_k - seqlen_q)
        hi = tl.minimum(diagonal, seqlen_k)

    # [main-loop] A block of keys and values comes in and joins the state.
    for start_n in range(0, hi, BLOCK_N):
        # [scores] One block of the scores, scaled; −inf where none counts.
        cols = start_n + offs_n
        in_keys = cols < seqlen_k
        k_cols = cols[None, :].to(tl.int64)
        k_at = k_base + k_cols * stride_kn + offs_d[:, None]
        k_mask = in_head[:, None] & in_keys[None, :]
        k = tl.load(k_at, mask=k_mask, other=0.0)  # [HEAD_DIM, BLOCK_N]
        s = tl.dot(q, k, input_precision="ieee")  # [BLOCK_M, BLOCK_N]
        visible = in_keys[None, :]
        if CAUSAL:
            last_key = offs_m + (seqlen_k - seqlen_q)
            visible = visible & (cols[None, :] <= last_key[:, None])
        s = tl.where(visible, s * softmax_scale, float("-inf"))

        # [softmax] The denominator counts every weight, dropped or not.
        m_new = tl.maximum(m_i, tl.max(s, axis=1))  # [BLOCK_M]
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(s - m_safe[:, None])  # [BLOCK_M, BLOCK_N]
        alpha = tl.exp(m_i - m_safe)  # [BLOCK_M]
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        m_i = m_new

        # [dropout] What is dropped does not meet V.
        keep = keep_mask(
            seed, dropout_p, off_b, off_h, offs_m, start_n, BLOCK_N
        )
        p = tl.where(keep, p, 0.0)  # [BLOCK_M, BLOCK_N]

        # [accumulate] The weights meet V in V's dtype; the sum is in fp32.
        v_rows = cols[:, None].to(tl.int64)
        v_at = v_base + v_rows * stride_vn + offs_d[None, :]
        v_mask = in_keys[:, None] & in_head[None, :]
        v = tl.load(v_at, mask=v_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")

    # [finish] What is kept counts 1 / (1 − dropout_p) times; lse knows of
    # no dropout.
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    out = acc / (l_safe * (1.0 - dropout_p))[:, None]
    lse = m_i + tl.log(l_safe)  # [BLOCK_M]

    # [store] Rows past the end were computed on zeros; they are not stored.
    o_at = o_base + rows * stride_om + offs_d[None, :]
    tl.store(o_at, out.to(out_ptr.dtype.element_ty), mask=q_mask)
    lse_at = lse_ptr + off_bh.to(tl.int64) * seqlen_q + offs_m
    tl.store(lse_at, lse, mask=offs_m < seqlen_q)


# The largest head dim of each entry, and its tile: small enough for whatever
# alignment (tests/flashwalk/test_compile.py), since the mask needs registers too.
_TILES_16_BIT = {
    64: Tile(64, 64, 8, 2),
    128: Tile(64, 32, 8, 2),
    256: Tile(32, 16, 4, 1),
}
_TILES_32_BIT = {
    32: Tile(32, 32, 4, 1),
    64: Tile(32, 16, 4, 1),
    128: Tile(16, 32, 8, 1),
    256: Tile(16, 16, 8, 1),
}


def tile_for(head_dim: int, dtype: torch.dtype) -> Tile:
    """The tile that a launch uses for this head dim (1 to 256) and dtype."""
    tiles = _TILES_32_BIT if dtype == torch.float32 else _TILES_16_BIT
    return tiles[min(limit for limit in tiles if head_dim <= limit)]


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *,
    seed: torch.Tensor,
    dropout_p: float,
    causal: bool,
    softmax_scale: float,
    tile: Tile | None = None,
) -> None:
    """Fills `out` and `lse` as `forward.launch` does, with dropout on the weights.

    seed: (1,), int64, on q's device. dropout_p: at least 0 and below 1.
    """
    batch, nheads, seqlen_q, head_dim = q.shape
    nheads_k, seqlen_k = k.shape[1:3]
    tile = tile_for(head_dim, q.dtype) if tile is None else tile
    grid = (triton.cdiv(seqlen_q, tile.block_m) * batch * nheads,)
    _attn_fwd_dropout[grid](
        q, k, v, out, lse, seed,
        softmax_scale, dropout_p,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        nheads, nheads // nheads_k, seqlen_q, seqlen_k, head_dim,
        CAUSAL=causal,
        BLOCK_M=tile.block_m, BLOCK_N=tile.block_n,
        HEAD_DIM=max(16, triton.next_power_of_2(head_dim)),
        num_warps=tile.num_warps, num_stages=tile.num_stages,
        maxnreg=tile.max_registers,
    )  # fmt: skip
