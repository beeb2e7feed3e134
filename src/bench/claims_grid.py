"""Which program computes what, and how far an index goes before it wraps.

The programs' table is computed here and asked of the kernel, in the interpreter:
TRITON_INTERPRET must be set before Triton is imported.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import nan
from types import ModuleType

import torch

from bench.cases import SEEDS
from bench.claims_kernel import Edit, kernel_with
from bench.claims_walk import Claim, agree, claim
from bench.rows import Columns, Value
from flashwalk.forward import Tile, tile_for

SIZE = SEEDS[64]
WRAP = 2**31  # the first number that int32 has not
SECOND_AXIS = 65_535  # the most programs along a CUDA grid's second axis

# The example that the page works by hand.
BATCH, NHEADS, NHEADS_K, SEQLEN_Q, HEAD_DIM, BLOCK_M = 2, 6, 2, 10, 16, 4

_WHO = (
    "lse = m_i + tl.log(l_safe)",
    "lse = tl.zeros([BLOCK_M], tl.float32) + tl.program_id(0)",
)
EDITS: dict[str, Edit] = {
    "heads-by-modulo": (
        "off_hk = off_h // group_size",
        "off_hk = off_h % (nheads // group_size)",
    ),
    "value-rows-in-int32": (
        "v_rows = cols[:, None].to(tl.int64)",
        "v_rows = cols[:, None]",
    ),
}


@dataclass(frozen=True)
class Program:
    """One program of the example: what its id says, and the rows that are there."""

    program: int
    start_m: int
    off_b: int
    off_h: int
    off_hk: int
    first_row: int
    last_row: int


def program(index: int) -> Program:
    """The kernel's steps program and offsets, in plain integers."""
    num_m_blocks = -(-SEQLEN_Q // BLOCK_M)
    off_bh, start_m = divmod(index, num_m_blocks)
    off_b, off_h = divmod(off_bh, NHEADS)
    first = start_m * BLOCK_M
    last = min(first + BLOCK_M, SEQLEN_Q) - 1
    off_hk = off_h // (NHEADS // NHEADS_K)
    return Program(index, start_m, off_b, off_h, off_hk, first, last)


def grid_sizes() -> Iterator[Claim]:
    """Programs of one launch, for our tile and for one of 64 rows."""
    for block_m in (64, tile_for(SIZE.head_dim, torch.float16).block_m):
        blocks = -(-SIZE.seqlen_q // block_m)
        heads = SIZE.batch * SIZE.nheads
        found = {"blocks": blocks, "heads_all": heads, "programs_all": blocks * heads}
        named: Mapping[str, Value] = {
            "batch": SIZE.batch,
            "nheads": SIZE.nheads,
            "seqlen_q": SIZE.seqlen_q,
        }
        yield claim("grid", found, block_m=block_m, **named)


def program_ids() -> Iterator[Claim]:
    """The table of the page, for some of the programs; the kernel says the same."""
    q = torch.zeros(BATCH, NHEADS, SEQLEN_Q, HEAD_DIM)
    rows_last = q.transpose(1, 2).contiguous().transpose(1, 2)
    _agree_with_kernel(q)
    for index in (0, 1, 3, 25, 35):
        p = program(index)
        place = (p.off_b, p.off_h, p.first_row)
        values = {name: value for name, value in vars(p).items() if name != "program"}
        offsets = {
            "offset_bhsd": _offset(q, place),
            "offset_bshd": _offset(rows_last, place),
        }
        yield claim(
            "program-id",
            values | offsets,
            program=index,
            batch=BATCH,
            nheads=NHEADS,
            nheads_k=NHEADS_K,
            seqlen_q=SEQLEN_Q,
            head_dim=HEAD_DIM,
            block_m=BLOCK_M,
        )


def _offset(x: torch.Tensor, place: tuple[int, int, int]) -> int:
    """Index times stride; PyTorch's own offset of that row must be the same."""
    offset = sum(i * s for i, s in zip(place, x.stride()[:3], strict=True))
    agree(offset, int(x[place].storage_offset()), "the offset and PyTorch's")
    return offset


def _agree_with_kernel(q: torch.Tensor) -> None:
    """Each row of the output must come from the program that the table names."""
    k = torch.zeros(BATCH, NHEADS_K, 4, HEAD_DIM)
    _, who = run(kernel_with(_WHO), q, k, k, Tile(BLOCK_M, 4, 1, 1))
    programs = BATCH * NHEADS * -(-SEQLEN_Q // BLOCK_M)
    for index in range(programs):
        p = program(index)
        rows = who[p.off_b, p.off_h, p.first_row : p.last_row + 1]
        if not (rows == index).all():
            raise ValueError(f"rows of program {index}: the kernel says {rows}")


def run(
    module: ModuleType, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tile: Tile
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of one launch, not causal, with a scale of 1."""
    out = torch.full(q.shape, nan, dtype=q.dtype)
    lse = torch.full(q.shape[:-1], nan)
    module.launch(q, k, v, out, lse, causal=False, softmax_scale=1.0, tile=tile)
    return out, lse


def second_axis() -> Iterator[Claim]:
    """A grid of (blocks, batch × heads) ends where the second axis does."""
    found = {"largest_batch": SECOND_AXIS // SIZE.nheads}
    yield claim("second-axis", found, axis_limit=SECOND_AXIS, nheads=SIZE.nheads)


def int32_limits() -> Iterator[Claim]:
    """The first row, and the first batch, whose offset int32 cannot hold."""
    for nheads, head_dim in ((16, 64), (32, 128)):
        strides = {
            "bhsd": head_dim,
            "bshd": nheads * head_dim,
            "fused": 3 * nheads * head_dim,
        }
        for layout, stride in strides.items():
            found = {"stride": stride, "first_row_wrong": -(-WRAP // stride)}
            named: Mapping[str, Value] = {"nheads": nheads, "head_dim": head_dim}
            yield claim("int32-row", found, layout=layout, **named)
    nheads, seqlen, head_dim = 32, 8192, 128
    found = {"first_batch_wrong": -(-WRAP // (nheads * seqlen * head_dim))}
    yield claim("int32-base", found, nheads=nheads, seqlen_q=seqlen, head_dim=head_dim)


def heads_by_modulo() -> Iterator[Claim]:
    """Six query heads on two key heads, each value the number of its key head."""
    q, keys = torch.zeros(1, NHEADS, 1, 16), torch.zeros(1, NHEADS_K, 2, 16)
    values = torch.arange(NHEADS_K).view(1, -1, 1, 1).expand(keys.shape) + 0.0
    tile = Tile(1, 2, 1, 1)
    right, _ = run(kernel_with(), q, keys, values, tile)
    wrong, _ = run(kernel_with(EDITS["heads-by-modulo"]), q, keys, values, tile)
    for head in range(NHEADS):
        found = {"right": right[0, head, 0, 0].item()}
        agree(found["right"], head // (NHEADS // NHEADS_K), "a group and its key head")
        found["out"] = wrong[0, head, 0, 0].item()
        found = {name: int(number) for name, number in found.items()}
        yield claim("heads-by-modulo", found, head=head, nheads_k=NHEADS_K)


def wrapped_value() -> Iterator[Claim]:
    """Four keys of equal weight; the row of the last value lies beyond 2**31.

    The tensor begins in the middle of its memory: the wrapped address is inside
    it, and holds a 0. Only the pages that hold a row are ever touched.
    """
    numbers, stride = (10.0, 20.0, 30.0, 40.0), -(-WRAP // 3)
    memory = torch.empty(2 * WRAP + 16, dtype=torch.float16)
    v = memory.as_strided((1, 1, len(numbers), 1), (1, 1, stride, 1), WRAP)
    v.copy_(torch.tensor(numbers).view(v.shape))
    memory[3 * stride - WRAP] = 0.0  # base + row * stride − 2**32
    q, k = torch.zeros(1, 1, 1, 1).half(), torch.zeros(1, 1, 4, 1).half()
    right, wrong = (
        run(module, q, k, v, Tile(1, 2, 1, 1))[0].item()
        for module in (kernel_with(), kernel_with(EDITS["value-rows-in-int32"]))
    )
    agree(right, sum(numbers) / 4, "the kernel and the mean of the values")
    agree(wrong, sum(numbers[:3]) / 4, "the wrapped kernel and the mean with a 0")
    found: Columns = {"right": right, "out": wrong}
    yield claim("value-rows-in-int32", found, row_stride=stride)


def grid_claims() -> Iterator[Claim]:
    yield from grid_sizes()
    yield from program_ids()
    yield from second_axis()
    yield from int32_limits()
    yield from heads_by_modulo()
    yield from wrapped_value()
