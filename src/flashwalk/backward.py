"""The backward's two kernels, for any GPU, and their launcher.

The weights are computed again, block by block, from q, k and the lse that the
forward left behind (Dao 2023, arXiv:2307.08691, algorithm 2). With dp = do @ v.T
and delta the row sum of out * do, the gradient of the scores is
ds = p * (dp - delta), and from it

    dv = p.T @ do    dk = softmax_scale * ds.T @ q    dq = softmax_scale * ds @ k

dk and dv sum over queries, dq over keys. So one kernel owns blocks of keys, the
other blocks of queries, and both compute p and ds: seven products where five
would do. In return no program adds to what another one writes, and equal inputs
give bitwise equal gradients on one device.
"""

# Triton's types are not annotations: mypy checks the launchers alone.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from flashwalk.delta import compute_delta
from flashwalk.dropout import keep_mask
from flashwalk.forward import Tile, is_aligned


# fmt: off
# Sizes are not specialised, as in the forward.
@triton.jit(do_not_specialize=[
    "nheads_k", "group_size", "seqlen_q", "seqlen_k",
])
def _attn_bwd_dkdv(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, seed_ptr,
    dk_ptr, dv_ptr,
    softmax_scale, dropout_p,
    stride_qb, stride_qh, stride_qm,
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_dob, stride_doh, stride_dom,
    stride_dkb, stride_dkh, stride_dkn,
    stride_dvb, stride_dvh, stride_dvn,
    nheads_k, group_size, seqlen_q, seqlen_k, head_dim,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
):
    # fmt: on
    # [program] Which block of keys is mine, of which batch and key head?
    num_n_blocks = tl.cdiv(seqlen_k, BLOCK_N)
    start_n = tl.program_id(0) % num_n_blocks * BLOCK_N
    off_bhk = tl.program_id(0) // num_n_blocks
    off_b = (off_bhk // nheads_k).to(tl.int64)
    off_hk = (off_bhk % nheads_k).to(tl.int64)
    if seed_ptr is not None:
        seed = tl.load(seed_ptr)
        rescale = 1.0 / (1.0 - dropout_p)

    # [offsets] An index turns int64 before it meets a stride.
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    offs_bm = tl.arange(0, BLOCK_M)
    in_keys = offs_n < seqlen_k
    in_head = offs_d < head_dim
    keys = offs_n[:, None].to(tl.int64)

    # [load-kv] K and V are read once and stay on chip for the whole loop.
    kv_mask = in_keys[:, None] & in_head[None, :]
    k_base = k_ptr + off_b * stride_kb + off_hk * stride_kh
    k_at = k_base + keys * stride_kn + offs_d[None, :]
    k = tl.load(k_at, mask=kv_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]
    v_base = v_ptr + off_b * stride_vb + off_hk * stride_vh
    v_at = v_base + keys * stride_vn + offs_d[None, :]
    v = tl.load(v_at, mask=kv_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]
    dk = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)  # [BLOCK_N, HEAD_DIM]
    dv = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)  # [BLOCK_N, HEAD_DIM]

    # [bound] Causal: the block's first key is seen by the most queries.
    lo = 0
    if CAUSAL:
        lo = tl.maximum(start_n - (seqlen_k - seqlen_q), 0)
    num_m_blocks = tl.cdiv(seqlen_q - lo, BLOCK_M)

    # [main-loop] A block of queries comes in and leaves its share: all
    # blocks of one query head after the other, for a key head sums what
    # the whole group of its query heads sends back.
    for step in range(0, group_size * num_m_blocks):
        # [block] Which query head of the group, and which of its rows?
        off_h = off_hk * group_size + step // num_m_blocks
        start_m = lo + step % num_m_blocks * BLOCK_M
        lse_base = (off_b * nheads_k * group_size + off_h) * seqlen_q
        q_base = q_ptr + off_b * stride_qb + off_h * stride_qh
        do_base = do_ptr + off_b * stride_dob + off_h * stride_doh

        # [load-q] Rows past the end are zeros in q and do, lse and delta:
        # there p is 1, meets a zero in both products, and leaves nothing.
        in_rows = offs_bm < seqlen_q - start_m
        mask = in_rows[:, None] & in_head[None, :]
        rows = (start_m + offs_bm)[:, None].to(tl.int64)
        q_at = q_base + rows * stride_qm + offs_d[None, :]
        q = tl.load(q_at, mask=mask, other=0.0)  # [BLOCK_M, HEAD_DIM]

        # [scores] The scores of the forward, with keys along the rows.
        s = tl.dot(k, tl.trans(q), input_precision="ieee")
        s = s * softmax_scale  # [BLOCK_N, BLOCK_M]

        # [weights] exp(s - lse) is p, already normalised.
        lse_at = lse_ptr + lse_base + start_m + offs_bm
        lse = tl.load(lse_at, mask=in_rows, other=0.0)  # [BLOCK_M]
        visible = in_keys[:, None]
        if CAUSAL:
            last_key = start_m + offs_bm + (seqlen_k - seqlen_q)
            visible = visible & (offs_n[:, None] <= last_key[None, :])
        s = tl.where(visible, s - lse[None, :], float("-inf"))
        p = tl.exp(s)  # [BLOCK_N, BLOCK_M]

        # [dropout] V met, in place of p, what the mask leaves of it.
        p_kept = p
        if seed_ptr is not None:
            offs_m = start_m + offs_bm
            keep = keep_mask(
                seed, dropout_p, off_b, off_h, offs_m, start_n, BLOCK_N
            )
            keep = tl.trans(keep)
            p_kept = tl.where(keep, p * rescale, 0.0)

        # [dv] dv = p.T @ do: p lies transposed already.
        do_at = do_base + rows * stride_dom + offs_d[None, :]
        do = tl.load(do_at, mask=mask, other=0.0)  # [BLOCK_M, HEAD_DIM]
        dv = tl.dot(p_kept.to(do.dtype), do, dv, input_precision="ieee")

        # [ds] delta comes late: until here its register is free.
        dp = tl.dot(v, tl.trans(do), input_precision="ieee")
        if seed_ptr is not None:
            dp = tl.where(keep, dp * rescale, 0.0)
        delta_at = delta_ptr + lse_base + start_m + offs_bm
        delta = tl.load(delta_at, mask=in_rows, other=0.0)  # [BLOCK_M]
        ds = p * (dp - delta[None, :])  # [BLOCK_N, BLOCK_M]

        # [dk] dk = ds.T @ q, which lacks the scale until the end.
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")

    # [store] A score is softmax_scale * q·k, hence the factor of dk alone.
    dk = dk * softmax_scale
    dk_base = dk_ptr + off_b * stride_dkb + off_hk * stride_dkh
    dk_at = dk_base + keys * stride_dkn + offs_d[None, :]
    tl.store(dk_at, dk.to(dk_ptr.dtype.element_ty), mask=kv_mask)
    dv_base = dv_ptr + off_b * stride_dvb + off_hk * stride_dvh
    dv_at = dv_base + keys * stride_dvn + offs_d[None, :]
    tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=kv_mask)


# fmt: off
@triton.jit(do_not_specialize=[
    "nheads", "group_size", "seqlen_q", "seqlen_k",
])
def _attn_bwd_dq(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, seed_ptr, dq_ptr,
    softmax_scale, dropout_p,
    stride_qb, stride_qh, stride_qm,
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_dob, stride_doh, stride_dom,
    stride_dqb, stride_dqh, stride_dqm,
    nheads, group_size, seqlen_q, seqlen_k, head_dim,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
):
    # fmt: on
    # [program] The last block comes first: causal, it has the most to do.
    num_m_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    start_m = num_m_blocks - 1 - tl.program_id(0) % num_m_blocks
    off_bh = tl.program_id(0) // num_m_blocks
    off_b = (off_bh // nheads).to(tl.int64)
    off_h = (off_bh % nheads).to(tl.int64)
    if seed_ptr is not None:
        seed = tl.load(seed_ptr)
        rescale = 1.0 / (1.0 - dropout_p)

    # [offsets] As in the forward.
    off_hk = off_h // group_size
    k_base = k_ptr + off_b * stride_kb + off_hk * stride_kh
    v_base = v_ptr + off_b * stride_vb + off_hk * stride_vh
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    in_rows = offs_m < seqlen_q
    in_head = offs_d < head_dim
    rows = offs_m[:, None].to(tl.int64)

    # [load-rows] All that belongs to the rows is read once.
    mask = in_rows[:, None] & in_head[None, :]
    q_base = q_ptr + off_b * stride_qb + off_h * stride_qh
    q_at = q_base + rows * stride_qm + offs_d[None, :]
    q = tl.load(q_at, mask=mask, other=0.0)  # [BLOCK_M, HEAD_DIM]
    do_base = do_ptr + off_b * stride_dob + off_h * stride_doh
    do_at = do_base + rows * stride_dom + offs_d[None, :]
    do = tl.load(do_at, mask=mask, other=0.0)  # [BLOCK_M, HEAD_DIM]
    lse_at = off_bh.to(tl.int64) * seqlen_q + offs_m
    lse = tl.load(lse_ptr + lse_at, mask=in_rows, other=0.0)  # [BLOCK_M]
    delta = tl.load(delta_ptr + lse_at, mask=in_rows, other=0.0)
    dq = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)  # [BLOCK_M, HEAD_DIM]

    # [bound] Causal: the last row of the block sees the most keys.
    hi = seqlen_k
    if CAUSAL:
        diagonal = (start_m + 1) * BLOCK_M + (seqlen_k - seqlen_q)
        hi = tl.minimum(diagonal, seqlen_k)

    # [main-loop] A block of keys and values comes in and leaves its share.
    for start_n in range(0, hi, BLOCK_N):
        # [load-kv] Keys past the end are read as zeros.
        offs_n = start_n + tl.arange(0, BLOCK_N)
        in_keys = offs_n < seqlen_k
        keys = offs_n[:, None].to(tl.int64)
        kv_mask = in_keys[:, None] & in_head[None, :]
        k_at = k_base + keys * stride_kn + offs_d[None, :]
        k = tl.load(k_at, mask=kv_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]
        v_at = v_base + keys * stride_vn + offs_d[None, :]
        v = tl.load(v_at, mask=kv_mask, other=0.0)  # [BLOCK_N, HEAD_DIM]

        # [weights] p as the forward had it, from its lse.
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        s = s * softmax_scale  # [BLOCK_M, BLOCK_N]
        visible = in_keys[None, :]
        if CAUSAL:
            last_key = offs_m + (seqlen_k - seqlen_q)
            visible = visible & (offs_n[None, :] <= last_key[:, None])
        s = tl.where(visible, s - lse[:, None], float("-inf"))
        p = tl.exp(s)  # [BLOCK_M, BLOCK_N]

        # [ds] The gradient of the scores.
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        if seed_ptr is not None:
            keep = keep_mask(
                seed, dropout_p, off_b, off_h, offs_m, start_n, BLOCK_N
            )
            dp = tl.where(keep, dp * rescale, 0.0)
        ds = p * (dp - delta[:, None])  # [BLOCK_M, BLOCK_N]

        # [dq] dq = ds @ k, which lacks the scale until the end.
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")

    # [store] Rows past the end are not stored.
    dq = dq * softmax_scale
    dq_base = dq_ptr + off_b * stride_dqb + off_h * stride_dqh
    dq_at = dq_base + rows * stride_dqm + offs_d[None, :]
    tl.store(dq_at, dq.to(dq_ptr.dtype.element_ty), mask=mask)


class Tiles(NamedTuple):
    """How a backward cuts the work: the tiles of its two large kernels."""

    dkdv: Tile
    dq: Tile


# The largest head dim of each entry, and its tiles. No entry spills registers
# or serialises its products on sm_90 (tests/flashwalk/test_backward_compile.py).
_TILES_16_BIT = {
    64: Tiles(dkdv=Tile(64, 128, 8, 3), dq=Tile(128, 64, 8, 3)),
    128: Tiles(dkdv=Tile(64, 128, 8, 2), dq=Tile(128, 64, 8, 2)),
    256: Tiles(dkdv=Tile(32, 64, 8, 2), dq=Tile(128, 32, 8, 2)),
}
_TILES_16_BIT_UNALIGNED = {
    64: Tiles(dkdv=Tile(32, 128, 8, 2), dq=Tile(128, 64, 8, 2)),
    128: Tiles(dkdv=Tile(16, 64, 8, 1), dq=Tile(64, 32, 8, 2)),
    256: Tiles(dkdv=Tile(16, 32, 8, 1), dq=Tile(32, 16, 4, 1)),
}
# Left alone, ptxas spills a little so that more programs share an SM; told how
# many registers it may use, it does not.
_TILES_32_BIT = {
    32: Tiles(dkdv=Tile(64, 64, 8, 1), dq=Tile(64, 64, 8, 1)),
    64: Tiles(dkdv=Tile(32, 32, 8, 1), dq=Tile(32, 64, 8, 1)),
    128: Tiles(dkdv=Tile(16, 32, 8, 1), dq=Tile(16, 32, 8, 1, max_registers=224)),
    256: Tiles(
        dkdv=Tile(16, 16, 8, 1, max_registers=168),
        dq=Tile(16, 16, 8, 1, max_registers=128),
    ),
}


# The mask needs registers too: smaller tiles, for whatever alignment.
_TILES_16_BIT_DROPOUT = {
    64: Tiles(dkdv=Tile(32, 64, 8, 1), dq=Tile(64, 32, 8, 1)),
    128: Tiles(dkdv=Tile(32, 32, 8, 1), dq=Tile(32, 32, 8, 1)),
    256: Tiles(dkdv=Tile(16, 16, 8, 1), dq=Tile(16, 32, 8, 1)),
}
_TILES_32_BIT_DROPOUT = {
    32: Tiles(dkdv=Tile(16, 16, 4, 1), dq=Tile(32, 16, 4, 1)),
    64: Tiles(dkdv=Tile(16, 16, 4, 1), dq=Tile(16, 16, 4, 1)),
    128: Tiles(dkdv=Tile(16, 16, 8, 1), dq=Tile(16, 16, 8, 1)),
    256: Tiles(dkdv=Tile(16, 16, 8, 1), dq=Tile(16, 16, 8, 1)),
}


def tiles_for(
    head_dim: int, dtype: torch.dtype, *, aligned: bool = True, dropout: bool = False
) -> Tiles:
    """The tiles that a launch uses for this head dim (1 to 256) and dtype.

    aligned: whether rows can be read 16 bytes at a time (`forward.is_aligned`).
    """
    if dtype == torch.float32:
        tiles = _TILES_32_BIT_DROPOUT if dropout else _TILES_32_BIT
    elif dropout:
        tiles = _TILES_16_BIT_DROPOUT
    else:
        tiles = _TILES_16_BIT if aligned else _TILES_16_BIT_UNALIGNED
    return tiles[min(limit for limit in tiles if head_dim <= limit)]


def launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    *,
    causal: bool,
    softmax_scale: float,
    seed: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    tiles: Tiles | None = None,
) -> None:
    """Fills `dq`, and `dk` with `dv`; what is None is not computed.

    q, k, v, out, lse: as the forward had them and left them.
    do: the gradient of out, in its shape and dtype; any strides, also 0. Where
    its last one is not 1 it is copied first, for the kernels read whole rows.
    dlse: the gradient of lse, fp32, any strides; None for zeros.
    dq, dk, dv: like q, k and v, the last stride 1.
    seed, dropout_p: as `dropout.launch` had them; None for no dropout.
    """
    if do.shape[-1] > 1 and do.stride(-1) != 1:
        do = do.contiguous()
    if tiles is None:
        aligned = is_aligned(q, k, v, do)
        dropout = seed is not None
        tiles = tiles_for(q.shape[-1], q.dtype, aligned=aligned, dropout=dropout)
    delta = compute_delta(out, lse, do, dlse)
    batch, nheads, seqlen_q, head_dim = q.shape
    nheads_k, seqlen_k = k.shape[1:3]
    tensors = (q, k, v, do, lse, delta, seed)
    strides = [stride for x in (q, k, v, do) for stride in x.stride()[:3]]
    sizes = (nheads // nheads_k, seqlen_q, seqlen_k, head_dim)
    if dk is not None and dv is not None:
        grid = (triton.cdiv(seqlen_k, tiles.dkdv.block_n) * batch * nheads_k,)
        _attn_bwd_dkdv[grid](
            *tensors, dk, dv,
            softmax_scale, dropout_p,
            *strides, *dk.stride()[:3], *dv.stride()[:3],
            nheads_k, *sizes,
            CAUSAL=causal, **_constants(tiles.dkdv, head_dim),
        )  # fmt: skip
    if dq is not None:
        grid = (triton.cdiv(seqlen_q, tiles.dq.block_m) * batch * nheads,)
        _attn_bwd_dq[grid](
            *tensors, dq,
            softmax_scale, dropout_p,
            *strides, *dq.stride()[:3],
            nheads, *sizes,
            CAUSAL=causal, **_constants(tiles.dq, head_dim),
        )  # fmt: skip


def _constants(tile: Tile, head_dim: int) -> dict[str, int | None]:
    """What a tile fixes when a kernel is compiled."""
    return {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "HEAD_DIM": max(16, triton.next_power_of_2(head_dim)),
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
        "maxnreg": tile.max_registers,
    }
