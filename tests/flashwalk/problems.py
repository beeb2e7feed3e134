"""Inputs that bring out the faults that real forward kernels had, one a kind."""

import torch
from accuracy import Problem

# Tiles unequal in both directions, and equal: rows, keys, warps, stages.
TILES = [(16, 64, 4, 1), (64, 16, 4, 1), (32, 16, 4, 1), (16, 32, 4, 1), (16, 16, 4, 1)]


def random_problem(
    device,
    dtype,
    *,
    batch=2,
    nheads=4,
    nheads_k=2,
    seqlen_q=37,
    seqlen_k=53,
    head_dim=16,
    seed=0,
    **how,
) -> Problem:
    """Normal q, k and v; by default no axis of size 1, no length a multiple."""
    generator = torch.Generator().manual_seed(seed)

    def normal(heads, seqlen):
        x = torch.randn(batch, heads, seqlen, head_dim, generator=generator)
        return x.to(device, dtype)

    q = normal(nheads, seqlen_q)
    return Problem(q, normal(nheads_k, seqlen_k), normal(nheads_k, seqlen_k), **how)


def rising_maximum(device, dtype) -> Problem:
    """Each block of 16 keys scores higher than the one before, by about 1.5.

    The old sums must shrink by alpha in every step: with a maximum that is
    always in the first block nobody notices an alpha that was forgotten.
    """
    p = random_problem(device, dtype, seqlen_q=20, seqlen_k=80, tile=(16, 16, 4, 1))
    block = torch.arange(80, device=device) // 16
    k = 0.1 * p.k + 0.375 * block[:, None].to(dtype)
    q = 0.1 * p.q + 1.0
    return p._replace(q=q.to(dtype), k=k.to(dtype))


def soaring_maximum(device, dtype) -> Problem:
    """The maximum rises by 100 from one block to the next.

    exp(100) is beyond fp16, and in fp32 its sum with the old ones is all that
    is left; relative to the old maximum the weights overflow.
    """
    q = torch.ones(2, 2, 16, 16, device=device, dtype=dtype)
    block = torch.arange(48, device=device) // 16
    k = (block * 100.0 / 16)[:, None].repeat(2, 2, 1, 16).to(dtype)
    v = torch.linspace(-1, 1, 48, device=device)[:, None].repeat(2, 2, 1, 16)
    return Problem(q, k, v.to(dtype), softmax_scale=1.0, tile=(16, 16, 4, 1))


def tail_keys(device, dtype, seqlen_k=17, tile=None) -> Problem:
    """K zero, V one: each output is exactly 1, unless keys beyond the end count."""
    q = torch.ones(2, 2, 5, 16, device=device, dtype=dtype)
    k = torch.zeros(2, 2, seqlen_k, 16, device=device, dtype=dtype)
    return Problem(q, k, torch.ones_like(k), tile=tile)


def bottom_right(device, dtype, seqlen_q=21, seqlen_k=50, tile=None) -> Problem:
    """K zero, V the key's number: each output is the mean of what is visible."""
    q = torch.ones(2, 2, seqlen_q, 16, device=device, dtype=dtype)
    k = torch.zeros(2, 2, seqlen_k, 16, device=device, dtype=dtype)
    v = torch.arange(seqlen_k, device=device, dtype=dtype)[:, None]
    v = v.expand(2, 2, seqlen_k, 16).contiguous()
    return Problem(q, k, v, causal=True, tile=tile)


def grouped_heads(device, dtype) -> Problem:
    """6 query heads on 2 key heads, K zero, V the number of its head.

    3 is no power of two and not the number of key heads: a mapping by modulo,
    or one that is right for square ratios alone, gives other numbers.
    """
    q = torch.ones(2, 6, 5, 16, device=device, dtype=dtype)
    k = torch.zeros(2, 2, 9, 16, device=device, dtype=dtype)
    head = torch.arange(2, device=device, dtype=dtype)[:, None, None]
    return Problem(q, k, head.expand(2, 2, 9, 16).contiguous())


def empty_rows(device, dtype, tile=(16, 32, 4, 1)) -> Problem:
    """Causal with 45 queries on 7 keys: 38 rows, two whole tiles, see no key."""
    return random_problem(
        device, dtype, seqlen_q=45, seqlen_k=7, causal=True, tile=tile
    )


def tall_tiles(device, dtype, tile=(64, 16, 4, 1)) -> Problem:
    """Causal, many keys, tiles of unequal sides: the bound must come from M."""
    return random_problem(
        device, dtype, seqlen_q=100, seqlen_k=100, causal=True, tile=tile
    )


def last_columns(device, dtype, head_dim) -> Problem:
    """All is zero but the last columns: a dim left out, or padded, shows."""
    p = random_problem(device, dtype, head_dim=head_dim, seqlen_q=7, seqlen_k=19)
    for x in (p.q, p.k, p.v):
        x[..., : head_dim - 2] = 0.0
        x *= 3.0
    return p


FAR = 2**31


def far_rows(device, dtype) -> Problem:
    """Rows so far apart that index times stride passes 2**31.

    The tensors begin in the middle of the memory: an offset that wrapped
    around in int32 stays inside it, and reads other numbers, without a crash.
    Only the pages that hold rows are ever touched.
    """
    stride = FAR // 2
    memory = torch.empty(2 * FAR + 256, dtype=dtype, device=device)
    near = random_problem(
        device, dtype, batch=2, nheads=2, seqlen_q=3, seqlen_k=3, tile=(16, 16, 4, 1)
    )

    def spread(x, at):
        strides = (32, 16, stride, 1)
        memory.as_strided(x.shape, strides, at).zero_()  # where a wrapped one lands
        far = memory.as_strided(x.shape, strides, FAR + at)
        return far.copy_(x)

    return near._replace(
        q=spread(near.q, 0), k=spread(near.k, 64), v=spread(near.v, 128)
    )


def far_heads(device, dtype) -> Problem:
    """Like `far_rows`, with batches and heads that lie far apart."""
    stride = FAR // 2
    memory = torch.empty(2 * FAR, dtype=dtype, device=device)
    near = random_problem(
        device,
        dtype,
        batch=3,
        nheads=3,
        nheads_k=3,
        seqlen_q=5,
        seqlen_k=3,
        tile=(16, 16, 4, 1),
    )

    def spread(x, at):
        strides = (stride, stride - 256, 16, 1)
        return memory.as_strided(x.shape, strides, at).copy_(x)

    return near._replace(
        q=spread(near.q, 0), k=spread(near.k, 80), v=spread(near.v, 128)
    )
