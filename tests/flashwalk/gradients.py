"""Runs a backward and judges it: against fp64, by the error of naive attention.

The largest absolute error of each gradient may be twice that of the textbook's
backward in the same dtype on the same device, which writes p, dp and ds to
memory, plus one rounding: of the gradient, and of the output. For delta, which
ds is what is left of dp after, comes from the output as it was stored.
"""

import math
from typing import NamedTuple

import torch
from accuracy import EXP_ERROR, Problem, Rejected, largest, matmul

from flashwalk import attention_ref, dropout, forward

Tile4 = tuple[int, int, int, int]


class Dropout(NamedTuple):
    """What is dropped: how to say it to a kernel, and what comes of it."""

    seed: torch.Tensor
    dropout_p: float
    factor: torch.Tensor  # of each weight: 0, or 1 / (1 - dropout_p); in fp64


class Case(NamedTuple):
    """A problem of the forward, what arrives from behind, and two tiles."""

    problem: Problem
    do: torch.Tensor
    dlse: torch.Tensor | None = None
    tiles: tuple[Tile4, Tile4] | None = None  # of dK and dV, of dQ; None: default
    dropout: Dropout | None = None


class Gradients(NamedTuple):
    """One tensor for each input, in its shape."""

    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor


class Share(NamedTuple):
    """The gradient that uses most of what it may be off by."""

    gradient: str
    error: float
    budget: float

    def record(self, record_property) -> None:
        """Leaves error and budget with pytest, for the page of results."""
        record_property("error", self.error)
        record_property("budget", self.budget)


def with_gradient(problem: Problem, *, dlse=False, tiles=None, seed=1) -> Case:
    """The problem with a normal do, and with a normal dlse if asked for one."""
    generator = torch.Generator().manual_seed(seed)
    q = problem.q
    do = torch.randn(q.shape, generator=generator).to(q.device, q.dtype)
    dlse = torch.randn(q.shape[:-1], generator=generator).to(q.device) if dlse else None
    if tiles is None and problem.tile is not None:
        tiles = (problem.tile, problem.tile)
    return Case(problem, do, dlse, tiles)


def run(backward, case: Case, buffers: Gradients | None = None) -> Gradients:
    """What `backward.launch` writes into buffers that were full of NaN."""
    q, k, v, causal, _, _ = case.problem
    how = {"causal": causal, "softmax_scale": case.problem.scale}
    if case.dropout:
        how |= {"seed": case.dropout.seed, "dropout_p": case.dropout.dropout_p}
    out, lse = run_forward(case, how)
    if buffers is None:
        buffers = Gradients(*(x.new_empty(x.shape) for x in (q, k, v)))
    for x in buffers:
        x.fill_(math.nan)
    tiles = case.tiles
    if tiles:
        tiles = backward.Tiles(*(forward.Tile(*tile) for tile in tiles))
    backward.launch(q, k, v, out, lse, case.do, case.dlse, *buffers, tiles=tiles, **how)
    return buffers


def run_forward(case: Case, how: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of the kernel that goes with the case, which may drop weights."""
    q, k, v = case.problem[:3]
    out = torch.full(q.shape, math.nan, dtype=q.dtype, device=q.device)
    lse = torch.full(q.shape[:-1], math.nan, dtype=torch.float32, device=q.device)
    kernel = dropout if case.dropout else forward
    kernel.launch(q, k, v, out, lse, **how)
    return out, lse


def check(backward, case: Case) -> Share:
    """Runs `backward` (a module) on the case; Rejected if it is wrong."""
    return judge(case, run(backward, case))


def judge(case: Case, gradients: Gradients) -> Share:
    """Compares gradients with fp64; Rejected beyond the budget, and for NaN."""
    exact = exact_gradients(case)
    dtype = case.problem.q.dtype
    shares = []
    for name, found, right, naive, rounding in zip(
        Gradients._fields,
        gradients,
        exact,
        textbook(case, dtype),
        roundings(case, exact),
        strict=True,
    ):
        if (found.shape, found.dtype) != (right.shape, dtype):
            raise Rejected(f"{name} has shape {tuple(found.shape)} in {found.dtype}")
        budget = 2 * largest(naive.double() - right) + rounding
        shares.append(Share(name, largest(found.double() - right), budget))
        # Written so that NaN, which compares False with everything, is rejected.
        if not shares[-1].error <= budget:
            raise Rejected(str(shares[-1]))
    empty = case.problem.causal * max(0, -missing_keys(case.problem))
    if gradients.dq[:, :, :empty].any():
        raise Rejected("the dq of a row that sees no key is not 0")
    return max(shares, key=lambda share: share.error / (share.budget or 1.0))


def missing_keys(problem: Problem) -> int:
    """seqlen_k - seqlen_q: as many first rows see no key, if it is negative."""
    return problem.k.shape[2] - problem.q.shape[2]


def exact_gradients(case: Case) -> Gradients:
    """The gradients of the reference in fp64, by PyTorch's autograd."""
    problem, do, dlse, _, _ = case
    leaves = [x.detach().double().requires_grad_() for x in problem[:3]]
    if case.dropout:
        again = case._replace(problem=Problem(*leaves, *problem[3:]))
        _, _, v, _, scores = scores_of(again, torch.float64)
        out = (scores.softmax(dim=-1) * case.dropout.factor) @ v
        lse = scores.logsumexp(dim=-1)
    else:
        out, lse = attention_ref(
            *leaves, causal=problem.causal, softmax_scale=problem.scale
        )
    total = (out * do.double()).sum()
    if dlse is not None:
        # Of a row that sees no key nothing depends on anything.
        total = total + (lse.masked_fill(lse == -math.inf, 0.0) * dlse.double()).sum()
    return Gradients(*torch.autograd.grad(total, leaves))


def roundings(case: Case, exact: Gradients) -> list[float]:
    """What roundings make of each gradient at most that the textbook has not.

    The textbook's delta is the sum of what it is taken from, so that both err
    alike; ours comes from the output, and differs by the output's rounding.
    And the textbook's p comes from scores less their maximum, ours from scores
    less lse, which is rounded in fp32; on a GPU each exp errs too.
    """
    m = Matrices(*(x.abs() for x in matrices(case, torch.float64)))
    *_, scores = scores_of(case, torch.float64)
    eps = torch.finfo(case.problem.q.dtype).eps
    rows = ((m.kept @ m.v) * m.do).sum(dim=-1, keepdim=True)
    of_delta = products(case, m._replace(kept=0.0 * m.kept, ds=m.p * rows))
    lse = scores.logsumexp(dim=-1, keepdim=True).nan_to_num(neginf=0.0)
    of_p = torch.finfo(torch.float32).eps * lse.abs().clamp(min=1.0)
    of_p = of_p + EXP_ERROR * m.q.is_cuda
    ds = m.ds + m.p * (m.kept * (m.do @ m.v.mT)).sum(dim=-1, keepdim=True)
    of_p = products(case, m._replace(kept=of_p * m.kept, ds=of_p * ds))
    return [
        eps * (largest(right) + largest(x)) + largest(y)
        for right, x, y in zip(exact, of_delta, of_p, strict=True)
    ]


class Matrices(NamedTuple):
    """Of every query head: the inputs, the weights, and what comes from behind."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    do: torch.Tensor
    p: torch.Tensor
    kept: torch.Tensor  # p after dropout
    ds: torch.Tensor


def textbook(case: Case, dtype: torch.dtype) -> Gradients:
    """p, dp and ds as matrices of `dtype`, then the three products."""
    return products(case, matrices(case, dtype))


def products(case: Case, m: Matrices) -> Gradients:
    """dq, dk and dv of these matrices, summed over each group of heads."""
    nheads_k, scale = case.problem.k.shape[1], case.problem.scale
    dk, dv = matmul(m.ds.mT, m.q) * scale, matmul(m.kept.mT, m.do)
    return Gradients(
        matmul(m.ds, m.k) * scale,
        *(x.unflatten(1, (nheads_k, -1)).sum(2) for x in (dk, dv)),
    )


def scores_of(case: Case, dtype: torch.dtype):
    """q, k, v, do of every query head, and the scores, all in `dtype`."""
    q, k, v, causal, _, _ = case.problem
    q, k, v, do = (x.to(dtype) for x in (q, k, v, case.do))
    group_size = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group_size, dim=1) for x in (k, v))
    scores = matmul(q, k.mT) * case.problem.scale
    if causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        hidden = ones.triu(k.shape[2] - q.shape[2] + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    return q, k, v, do, scores


def matrices(case: Case, dtype: torch.dtype) -> Matrices:
    """The textbook's matrices, all in `dtype`."""
    q, k, v, do, scores = scores_of(case, dtype)
    scores.requires_grad_()
    p = scores.softmax(dim=-1)
    factor = case.dropout.factor.to(dtype) if case.dropout else torch.ones_like(p)
    (ds,) = torch.autograd.grad(p, scores, matmul(do, v.mT) * factor)
    p = p.detach()
    if case.dlse is not None:
        ds = ds + p * case.dlse[..., None].to(dtype)
    empty = (scores == -math.inf).all(dim=-1, keepdim=True)
    p, ds = p.masked_fill(empty, 0.0), ds.masked_fill(empty, 0.0)
    return Matrices(q, k, v, do, p, p * factor, ds)
