"""The Hopper backward: what ptxas makes of it, and on a GPU what it computes."""

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import compile_hopper_backward
import pytest
import torch
from gradients import Case, Gradients, judge, with_gradient
from problems import random_problem
from sanitizer import NEEDS_SANITIZER, sanitized

from flashwalk import forward
from flashwalk.hopper.schedule import KeyTiling, QueryTiling

PROGRAM = Path(compile_hopper_backward.__file__)
NEEDS_HOPPER = pytest.mark.skipif(
    not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)),
    reason="needs a Hopper GPU",
)
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
HEAD_DIMS = pytest.mark.parametrize("head_dim", compile_hopper_backward.HEAD_DIMS)
HALVES = [torch.float16, torch.bfloat16]
# Bytes, stores and loads together. They lie outside the loops over blocks, but for
# those of dQ's second warpgroup at head dim 256.
SPILL_BUDGET = {"attn_bwd": 600, "dkdv": 120, "dq": 760}


@pytest.fixture(scope="module")
def kernels() -> list[dict]:
    """Every case, compiled once: a process without the interpreter."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    result = subprocess.run(
        [sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@HEAD_DIMS
def test_products_are_not_serialised_and_spills_are_few(kernels, head_dim):
    mine = [k for k in kernels if k["head_dim"] == head_dim]
    assert {k["causal"] for k in mine} == {False, True}
    assert {k["kernel"] for k in mine} == set(compile_hopper_backward.KERNELS[head_dim])
    assert not [k for k in mine if k["warnings"]]
    assert not [k for k in mine if k["spill_bytes"] > SPILL_BUDGET[k["kernel"]]]


def test_shared_memory_fits(kernels):
    assert max(k["shared_bytes"] for k in kernels) <= 227 * 1024


@pytest.mark.parametrize("keys_after", [None, 0, 64, 128, -64, -256, 1, -37, 100])
@pytest.mark.parametrize("block_n", [64, 128])
def test_tiles_of_keys_visit_what_sees_them(block_n, keys_after):
    """And only the first blocks of a tile are cut by the diagonal."""
    seqlen_q = 500
    seqlen_k = seqlen_q + keys_after if keys_after is not None else 300
    masked_blocks = 1
    if keys_after is not None:
        masked_blocks = block_n // 64 + (keys_after % 64 != 0)
    tiling = KeyTiling(
        heads=6,
        nheads_k=3,
        group_size=2,
        query_blocks=8,
        seqlen_k=seqlen_k,
        block_m=64,
        block_n=block_n,
        keys_after=keys_after,
        masked_blocks=masked_blocks,
        heads_at_once=2,
    )
    for tile in range(tiling.heads * tiling.tiles_per_head):
        batch, head_k, key, block, number, row, blocks, _ = tiling.record(tile, 3)
        assert batch * 3 + head_k == tile // tiling.tiles_per_head
        assert (number, row) == (3, ((batch * 3 + head_k) * 2 * 8 + block) * 64)
        assert block + blocks == 8
        assert blocks >= masked_blocks
        if keys_after is not None:
            first_to_see = max(0, key - keys_after)
            assert block * 64 <= first_to_see
            first_uncut = (block + masked_blocks) * 64
            if blocks > masked_blocks:
                assert first_uncut + keys_after >= key + block_n - 1
        else:
            assert block == 0


@pytest.mark.parametrize("keys_after", [None, 0, 64, -64, -256, 1, -37, 100])
def test_tiles_of_queries_visit_what_they_see(keys_after):
    seqlen_q = 500
    seqlen_k = seqlen_q + keys_after if keys_after is not None else 300
    tiling = QueryTiling(
        heads=12,
        nheads=6,
        group_size=2,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        block_m=128,
        block_n=64,
        keys_after=keys_after,
        heads_at_once=2,
    )
    for tile in range(tiling.heads * tiling.tiles_per_head):
        batch, head, head_k, row, line, blocks, blocks_1, number = tiling.record(
            tile, 2
        )
        assert (number, head_k) == (2, head // 2)
        assert batch * 6 + head == tile // tiling.tiles_per_head
        assert line == (batch * 6 + head) * 512 + row
        for first, visited in ((row, blocks), (row + 64, blocks_1)):
            seen = seqlen_k
            if keys_after is not None:
                last = min(first + 63, seqlen_q - 1)
                seen = max(0, last + 1 + keys_after)
            assert 1 <= visited <= -(-seqlen_k // 64)
            assert visited * 64 >= seen
        assert blocks <= blocks_1


@pytest.fixture
def hopper():
    """The kernel's module, which only a GPU can use."""
    from flashwalk.hopper import backward

    return backward


def saved(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """out and lse, by the forward that every other one is judged by."""
    q, k, v, causal = case.problem[:4]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    forward.launch(q, k, v, out, lse, causal=causal, softmax_scale=case.problem.scale)
    return out, lse


def run(hopper, case: Case) -> Gradients:
    """What the kernel writes into buffers that were full of NaN."""
    q, k, v, causal = case.problem[:4]
    grads = Gradients(*(x.new_full(x.shape, math.nan) for x in (q, k, v)))
    hopper.launch(
        q, k, v, *saved(case), case.do, case.dlse, *grads,
        causal=causal, softmax_scale=case.problem.scale,
    )  # fmt: skip
    return grads


SHAPES = {  # nheads, nheads_k, seqlen_q, seqlen_k
    "blocks": (2, 2, 256, 256),
    "no-multiple": (3, 3, 333, 333),
    "more-keys": (4, 2, 200, 457),
    "empty-rows": (4, 1, 457, 200),
    "one-query": (6, 3, 1, 130),
    "one-key": (2, 1, 130, 1),
    "one-each": (2, 2, 1, 1),
    "groups": (12, 3, 192, 320),
    "more-tiles-than-blocks": (100, 100, 150, 150),
    "long": (1, 1, 2049, 2047),
}


# Each dtype is another kernel of the same text: bf16 in all shapes, fp16 in one.
ASKED = [(shape, torch.bfloat16) for shape in SHAPES] + [("no-multiple", torch.float16)]


@NEEDS_HOPPER
@CAUSAL
@pytest.mark.parametrize("head_dim", [64, 128, 256, 96, 40])
@pytest.mark.parametrize(("shape", "half"), ASKED, ids=str)
def test_gradients(hopper, device, record_property, shape, head_dim, half, causal):
    nheads, nheads_k, seqlen_q, seqlen_k = SHAPES[shape]
    p = random_problem(
        device,
        half,
        nheads=nheads,
        nheads_k=nheads_k,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        head_dim=head_dim,
        causal=causal,
    )
    case = with_gradient(p)
    judge(case, run(hopper, case)).record(record_property)


@NEEDS_HOPPER
@CAUSAL
@HEAD_DIMS
def test_a_gradient_of_lse(hopper, device, head_dim, causal):
    p = random_problem(
        device,
        torch.bfloat16,
        seqlen_q=150,
        seqlen_k=170,
        head_dim=head_dim,
        causal=causal,
    )
    case = with_gradient(p, dlse=True)
    judge(case, run(hopper, case))


@NEEDS_HOPPER
@HEAD_DIMS
def test_strides(hopper, device, head_dim):
    """(batch, seqlen, heads, dim) in memory, and columns of wider rows."""
    p = random_problem(
        device, torch.bfloat16, seqlen_q=150, seqlen_k=170, head_dim=head_dim
    )
    q = p.q.transpose(1, 2).contiguous().transpose(1, 2)
    k, v = torch.cat([p.k, p.v], dim=-1).chunk(2, dim=-1)
    case = with_gradient(p._replace(q=q, k=k, v=v))
    case = case._replace(do=case.do.transpose(1, 2).contiguous().transpose(1, 2))
    judge(case, run(hopper, case))


@NEEDS_HOPPER
@pytest.mark.parametrize("part", range(5))
def test_100_odd_shapes(hopper, device, part):
    draw = random.Random(part)
    for _ in range(20):
        nheads_k = draw.randint(1, 3)
        p = random_problem(
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
        case = with_gradient(p, dlse=draw.random() < 0.3)
        shapes = tuple(p.q.shape), tuple(p.k.shape), p.causal
        assert judge(case, run(hopper, case)), shapes


@NEEDS_HOPPER
@CAUSAL
@HEAD_DIMS
def test_ten_runs_are_bitwise_equal_but_for_dq(hopper, device, head_dim, causal):
    """Where dQ is summed up by many thread blocks, the order of its sum varies."""
    p = random_problem(
        device,
        torch.bfloat16,
        nheads=12,
        seqlen_q=1500,
        seqlen_k=1500,
        head_dim=head_dim,
        causal=causal,
    )
    case = with_gradient(p)
    first = run(hopper, case)
    judge(case, first)
    for _ in range(9):
        again = run(hopper, case)
        assert torch.equal(again.dk, first.dk)
        assert torch.equal(again.dv, first.dv)
        assert head_dim < 256 or torch.equal(again.dq, first.dq)


@NEEDS_HOPPER
@CAUSAL
@HEAD_DIMS
def test_cuda_graph(hopper, device, head_dim, causal):
    p = random_problem(
        device,
        torch.bfloat16,
        seqlen_q=700,
        seqlen_k=700,
        head_dim=head_dim,
        causal=causal,
    )
    case = with_gradient(p)
    run(hopper, case)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gradients = run(hopper, case)
    for x in gradients:
        x.fill_(math.nan)
    p.q.mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    judge(case, gradients)


@NEEDS_HOPPER
@NEEDS_SANITIZER
def test_memcheck_finds_nothing():
    program = Path(__file__).with_name("small_backward_launches.py")
    assert "ERROR SUMMARY: 0 errors" in sanitized("memcheck", program)
