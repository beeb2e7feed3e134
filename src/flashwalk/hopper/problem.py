"""One launch as its warpgroups see it: where tiles are, how they are read, masked
and stored.
"""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    tma,
    warpgroup_mma,
)
from triton.language.core import _aggregate as aggregate

from flashwalk.hopper.pipeline import as_matrix

ROWS = gl.constexpr(64)  # rows of one warpgroup: the height of a wgmma


# fmt: off
@aggregate
class Problem:
    """What every warpgroup knows: its list of tiles, the sizes, the constants.

    The list is tiles_ptr[first:last]. row_end: the row after the last tile of
    a head. keys_after: row i sees the keys up to i + keys_after, if CAUSAL.
    STRADDLE: the diagonal may cross two blocks of keys within 64 rows.
    THREE_QUARTERS: the last quarter of the HEAD_DIM columns is empty.
    """

    tiles_ptr: gl.tensor
    first: gl.tensor
    last: gl.tensor
    nheads: gl.tensor
    group_size: gl.tensor
    seqlen_q: gl.tensor
    seqlen_k: gl.tensor
    row_end: gl.tensor
    keys_after: gl.tensor
    tiles_per_head: gl.tensor
    qk_scale: gl.tensor
    stride_lh: gl.tensor
    HEAD_DIM: gl.constexpr
    BLOCK_N: gl.constexpr
    GROUPS: gl.constexpr
    CAUSAL: gl.constexpr
    STRADDLE: gl.constexpr
    Q_IN_REGISTERS: gl.constexpr
    LAZY: gl.constexpr
    HALVES: gl.constexpr
    THREE_QUARTERS: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, tiles_ptr, first, last,
        nheads, group_size, seqlen_q, seqlen_k,
        row_end, keys_after, tiles_per_head, qk_scale, stride_lh,
        HEAD_DIM, BLOCK_N, GROUPS, CAUSAL, STRADDLE, Q_IN_REGISTERS, LAZY, HALVES,
        THREE_QUARTERS,
    ):
        self.tiles_ptr, self.first, self.last = tiles_ptr, first, last
        self.nheads, self.group_size = nheads, group_size
        self.seqlen_q, self.seqlen_k = seqlen_q, seqlen_k
        self.row_end, self.keys_after = row_end, keys_after
        self.tiles_per_head = tiles_per_head
        self.qk_scale, self.stride_lh = qk_scale, stride_lh
        self.HEAD_DIM = gl.constexpr(HEAD_DIM)
        self.BLOCK_N = gl.constexpr(BLOCK_N)
        self.GROUPS = gl.constexpr(GROUPS)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.STRADDLE = gl.constexpr(STRADDLE)
        self.Q_IN_REGISTERS = gl.constexpr(Q_IN_REGISTERS)
        self.LAZY = gl.constexpr(LAZY)
        self.HALVES = gl.constexpr(HALVES)
        self.THREE_QUARTERS = gl.constexpr(THREE_QUARTERS)
    # fmt: on

    @gluon.jit
    def locate(self, t):
        """(batch, head, first row, blocks of keys) of the t-th tile of the list.

        Tiles end with the sequence, so the first row may be negative: where a
        tile is cut short, it is the one that has the least to do.
        """
        tile = gl.load(self.tiles_ptr + t)
        batch_head = tile // self.tiles_per_head
        later = self.tiles_per_head - 1 - tile % self.tiles_per_head
        end = self.row_end - later * (self.GROUPS * ROWS)
        batch, head = batch_head // self.nheads, batch_head % self.nheads
        return batch, head, end - self.GROUPS * ROWS, self.blocks_before(end)

    @gluon.jit
    def blocks_before(self, end):
        """Blocks of keys that the rows before `end` see."""
        keys = self.seqlen_k
        if self.CAUSAL:
            keys = gl.minimum(keys, end + self.keys_after)
        return (keys + self.BLOCK_N - 1) // self.BLOCK_N


@gluon.jit
def read(q_smem, first, count: gl.constexpr, S: gl.constexpr, problem):
    """Columns of Q as an operand: in registers, or where they lie."""
    q = q_smem.slice(first, count, dim=1)
    if problem.Q_IN_REGISTERS:
        q = q.load(gl.DotOperandLayout(0, S, k_width=2))
    return q


@gluon.jit
def multiply_keys(q, q_third, k, zeros, problem):
    """Q Kᵀ, issued, not awaited. An empty last quarter of a head is left out."""
    COLUMNS: gl.constexpr = q.shape[1]
    k_first = k.slice(0, COLUMNS, dim=1).permute((1, 0))
    s = warpgroup_mma(q, k_first, zeros, use_acc=False, is_async=True)
    if problem.THREE_QUARTERS:
        k_third = k.slice(COLUMNS, COLUMNS // 2, dim=1).permute((1, 0))
        s = warpgroup_mma(q_third, k_third, s, is_async=True)
    return s


@gluon.jit
def mask(s, row, key, problem):
    """−inf for keys that a row must not see. s begins at this row and key."""
    rows = row + gl.arange(0, s.shape[0], gl.SliceLayout(1, s.type.layout))
    keys = key + gl.arange(0, s.shape[1], gl.SliceLayout(0, s.type.layout))
    if problem.CAUSAL:
        visible = keys[None, :] <= rows[:, None] + problem.keys_after
        s = gl.where(visible, s, float("-inf"))
    elif key + problem.BLOCK_N > problem.seqlen_k:
        s = gl.where((keys < problem.seqlen_k)[None, :], s, float("-inf"))
    return s


@gluon.jit
def store_lse(lse_ptr, lse, batch, head, row, problem):
    """Stores the lse of those of the 64 rows that exist."""
    rows = row + gl.arange(0, ROWS, lse.type.layout)
    at = (batch * problem.nheads + head).to(gl.int64) * problem.stride_lh + rows
    gl.store(lse_ptr + at, lse, mask=(rows >= 0) & (rows < problem.seqlen_q))


@gluon.jit
def store_out(out_desc, out, batch, head, row, buffer, HALVES: gl.constexpr):
    """Sends 64 rows on their way; the TMA leaves out those past the end.

    HALVES: the buffer holds half of the columns, and is used twice.
    """
    out = out.to(out_desc.dtype)
    tma.store_wait(0)  # the previous tile has left the buffer
    if HALVES:
        half: gl.constexpr = out.shape[1] // 2
        left, right = out.reshape([ROWS, 2, half]).permute((0, 2, 1)).split()
        send(out_desc, [batch, head, row, 0], buffer, left)
        tma.store_wait(0)
        send(out_desc, [batch, head, row, half], buffer, right)
    else:
        send(out_desc, [batch, head, row, 0], buffer, out)


@gluon.jit
def send(out_desc, at, buffer, x):
    """Copies x to the buffer, and starts its way to global memory."""
    as_matrix(buffer).store(x)
    fence_async_shared()
    tma.async_copy_shared_to_global(out_desc, at, buffer)
