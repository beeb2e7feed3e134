"""The Hopper kernel under load: odd shapes, repeats, streams, graphs, sanitizers."""

import math
import random
import re
from pathlib import Path

import pytest
import torch
from accuracy import check, judge, run
from problems import random_problem
from sanitizer import NEEDS_SANITIZER, sanitized

from flashwalk import attention

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)),
    reason="needs a Hopper GPU",
)
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
HEAD_DIMS = pytest.mark.parametrize("head_dim", [64, 128, 256])
HALVES = [torch.float16, torch.bfloat16]


@pytest.fixture
def hopper():
    """The kernel's module, which only a GPU can use."""
    from flashwalk.hopper import forward

    return forward


def odd_problem(device, draw):
    """A shape at random, of all that the kernel takes."""
    nheads_k = draw.randint(1, 3)
    return random_problem(
        device,
        draw.choice(HALVES),
        batch=draw.randint(1, 3),
        nheads=nheads_k * draw.randint(1, 4),
        nheads_k=nheads_k,
        seqlen_q=draw.choice([draw.randint(1, 70), draw.randint(71, 700)]),
        seqlen_k=draw.choice([draw.randint(1, 70), draw.randint(71, 700)]),
        head_dim=8 * draw.randint(1, 32),
        causal=draw.random() < 0.6,
        softmax_scale=draw.choice([None, 0.02, 0.3]),
        seed=draw.randint(0, 10**6),
    )


@pytest.mark.parametrize("part", range(10))
def test_500_odd_shapes(hopper, device, part):
    draw = random.Random(part)
    for _ in range(50):
        problem = odd_problem(device, draw)
        shapes = tuple(problem.q.shape), tuple(problem.k.shape), problem.causal
        assert check(hopper, problem), shapes


@CAUSAL
@HEAD_DIMS
def test_ten_runs_are_bitwise_equal(hopper, device, head_dim, causal):
    p = random_problem(
        device,
        torch.bfloat16,
        nheads=12,
        seqlen_q=1500,
        seqlen_k=1500,
        head_dim=head_dim,
        causal=causal,
    )
    out, lse = run(hopper, p)
    judge(p, out, lse)
    for _ in range(9):
        again, lse_again = run(hopper, p)
        assert torch.equal(again, out)
        assert torch.equal(lse_again, lse)


@CAUSAL
@HEAD_DIMS
def test_a_maximum_that_rises_all_along(hopper, device, head_dim, causal):
    """Keys are visited from the last: the first ones score highest, each block
    by more than 8 in base 2 above the one before, so that no rescale is spared."""
    p = random_problem(
        device,
        torch.bfloat16,
        seqlen_q=600,
        seqlen_k=600,
        head_dim=head_dim,
        causal=causal,
        softmax_scale=1.0,
    )
    block = (600 - torch.arange(600, device=device)) // 64
    q = torch.ones_like(p.q)
    k = 0.02 * p.k + (7.0 * block[:, None] / head_dim).to(p.k.dtype)
    p = p._replace(q=q, k=k.to(p.k.dtype))
    check(hopper, p)


def test_two_streams_at_once(device):
    problems = [
        random_problem(
            device, torch.bfloat16, seqlen_q=n, seqlen_k=n, head_dim=128, seed=n
        )
        for n in (500, 900)
    ]
    streams = [torch.cuda.Stream() for _ in problems]
    torch.cuda.synchronize()
    results = [[], []]
    for _ in range(20):
        for p, stream, outputs in zip(problems, streams, results, strict=True):
            with torch.cuda.stream(stream):
                outputs.append(attention(p.q, p.k, p.v, return_lse=True))
    torch.cuda.synchronize()
    for p, outputs in zip(problems, results, strict=True):
        judge(p, *outputs[0])
        assert all(torch.equal(out, outputs[0][0]) for out, _ in outputs)


@CAUSAL
def test_cuda_graph(device, causal):
    p = random_problem(
        device, torch.bfloat16, seqlen_q=700, seqlen_k=700, head_dim=128, causal=causal
    )
    attention(p.q, p.k, p.v, causal=causal)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = attention(p.q, p.k, p.v, causal=causal, return_lse=True)
    out.fill_(math.nan)
    p.q.mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    judge(p, out, lse)


def test_a_graph_of_a_shape_that_is_new(device):
    p = random_problem(device, torch.bfloat16, seqlen_q=643, seqlen_k=643, head_dim=64)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        p.q.mul_(1.0)  # an empty graph would be warned of
        with pytest.raises(RuntimeError, match="call attention once with it"):
            attention(p.q, p.k, p.v)


SMALL_LAUNCHES = Path(__file__).with_name("small_launches.py")


@NEEDS_SANITIZER
def test_memcheck_finds_nothing():
    assert "ERROR SUMMARY: 0 errors" in sanitized("memcheck", SMALL_LAUNCHES)


@NEEDS_SANITIZER
def test_racecheck_finds_nothing_in_our_roles(hopper):
    """Triton itself hands the roles to the warps through shared memory, and the
    tool does not follow the barriers of that. The code that waits for a role has
    the line of the `def`, the code that hands it out that or one of [roles]."""
    lines = Path(hopper.__file__).read_text().splitlines()
    waits = lines.index("def _attn_fwd(") + 1
    roles = next(n for n, line in enumerate(lines) if "# [roles]" in line)
    hands_out = {waits, *range(roles, roles + lines[roles:].index("    # fmt: on"))}
    report = sanitized("racecheck", SMALL_LAUNCHES)
    assert "RACECHECK SUMMARY" in report
    places = re.findall(r"(Read|Write) access at .* in forward\.py:(\d+)", report)
    # What names no line, or another file, could be ours.
    assert report.count("access at") == len(places)
    for access, line in places:
        allowed = {waits} if access == "Read" else hands_out
        assert int(line) in allowed, report[-3000:]
