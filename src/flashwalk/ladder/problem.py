"""One launch as the warpgroups of the rungs in Gluon see it: a tile a thread block."""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.core import _aggregate as aggregate

from flashwalk.hopper.problem import ROWS


# fmt: off
@aggregate
class Problem:
    """What every warpgroup knows: the sizes and the constants.

    heads: batch * nheads. row_end: the row after the last tile of a head.
    keys_after: row i sees the keys up to i + keys_after, if CAUSAL. STRADDLE:
    the diagonal may cross two blocks of keys within 64 rows. The last two are
    of the later rungs.
    """

    heads: gl.tensor
    heads_at_once: gl.tensor
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

    @gluon.constexpr_function
    def __init__(
        self, heads, heads_at_once,
        nheads, group_size, seqlen_q, seqlen_k,
        row_end, keys_after, tiles_per_head, qk_scale, stride_lh,
        HEAD_DIM, BLOCK_N, GROUPS, CAUSAL, STRADDLE,
        Q_IN_REGISTERS=False, LAZY=False,
    ):
        self.heads, self.heads_at_once = heads, heads_at_once
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
    # fmt: on

    @gluon.jit
    def locate(self):
        """(batch, head, first row, blocks of keys) of this thread block's tile.

        Thread blocks start in their order: a few heads at a time, so that their
        keys and values stay in L2, and of these the longest tiles first. Tiles
        end with the sequence, so the first row may be negative: where a tile is
        cut short, it is the one that has the least to do.
        """
        per_group = self.heads_at_once * self.tiles_per_head
        first_head = gl.program_id(0) // per_group * self.heads_at_once
        at_once = gl.minimum(self.heads_at_once, self.heads - first_head)
        batch_head = first_head + gl.program_id(0) % per_group % at_once
        later = gl.program_id(0) % per_group // at_once
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
