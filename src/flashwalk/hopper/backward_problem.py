"""The backward's shared memory and barriers, and the problem as warpgroups see it."""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

import math

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma
from triton.language.core import _aggregate as aggregate

KEYS = gl.constexpr(64)  # keys of one warpgroup: the height of a wgmma
QUERIES = gl.constexpr(64)  # queries of a block
TILE = gl.constexpr(128)  # keys of a thread block
LN_2 = gl.constexpr(math.log(2))


@builtin
def tma_reduce_add(descriptor, coordinates, source, _semantic=None):
    """global += shared, by the TMA. Gluon 3.6 has it, but no Python name for it."""
    coordinates = _semantic._convert_to_ir_values(coordinates, require_i64=False)
    _semantic.builder.create_async_tma_reduce(
        ir.DESCRIPTOR_REDUCE_KIND.ADD, descriptor.handle, coordinates, source.handle
    )


@gluon.jit
def meet():
    """A barrier of the two key warpgroups, 256 threads."""
    lanes = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    gl.inline_asm_elementwise(
        "bar.sync 9, 256; mov.b32 $0, $1;",
        "=r,r",
        [lanes],
        dtype=gl.int32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def barriers(N: gl.constexpr, ARRIVALS: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [N, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(N):
        mbarrier.init(bars.index(i), count=ARRIVALS)
    return bars


@aggregate
class QueryRing:
    """Slots for blocks of queries.

    Q comes with lse, dO with delta, each pair behind a barrier; one barrier
    gives all four back.
    """

    q: gl.shared_memory_descriptor
    do: gl.shared_memory_descriptor
    lse: gl.shared_memory_descriptor
    delta: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    do_full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    SLOTS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, q, do, lse, delta, q_full, do_full, empty, SLOTS):
        self.q, self.do, self.lse, self.delta = q, do, lse, delta
        self.q_full, self.do_full, self.empty = q_full, do_full, empty
        self.SLOTS = gl.constexpr(SLOTS)

    @gluon.jit
    def release(self, i):
        mbarrier.arrive(self.empty.index(i % self.SLOTS), count=1)


@aggregate
class KeyTile:
    """K and V of a tile, in HALVES parts of 64 keys: one for each key warpgroup.

    K has K_SLOTS slots, V one; slot s holds the parts from s * HALVES on.
    """

    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor
    K_SLOTS: gl.constexpr
    HALVES: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, k, v, k_full, k_empty, v_full, v_empty, K_SLOTS, HALVES):
        self.k, self.v = k, v
        self.k_full, self.k_empty = k_full, k_empty
        self.v_full, self.v_empty = v_full, v_empty
        self.K_SLOTS = gl.constexpr(K_SLOTS)
        self.HALVES = gl.constexpr(HALVES)

    @gluon.jit
    def wait_k(self, n):
        """Waits for K of the n-th tile; returns the number of its first part."""
        slot = n % self.K_SLOTS
        mbarrier.wait(self.k_full.index(slot), (n // self.K_SLOTS) & 1)
        return slot * self.HALVES

    @gluon.jit
    def release_k(self, n):
        mbarrier.arrive(self.k_empty.index(n % self.K_SLOTS), count=1)


@aggregate
class Exchange:
    """dS on its way to dQ, and dQ, dV and dK on their way out.

    Slot s holds the halves 2 s and 2 s + 1; with a warpgroup for dQ, barriers
    hand them over.
    """

    ds: gl.shared_memory_descriptor
    dq: gl.shared_memory_descriptor
    dkv: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    SLOTS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, ds, dq, dkv, full, empty, SLOTS):
        self.ds, self.dq, self.dkv = ds, dq, dkv
        self.full, self.empty = full, empty
        self.SLOTS = gl.constexpr(SLOTS)


# A tile's record, as `KeyTiling.record` writes it: its batch and key head; its first
# key; the first block of queries, the blocks of a query head, and where the first
# one's row lies in a buffer of rows; and how many tiles the thread block had before.
FIELDS = gl.constexpr(8)
BATCH, HEAD_K, KEY, BLOCK, NUMBER, ROW, BLOCKS = (gl.constexpr(n) for n in range(7))


# fmt: off
@aggregate
class Problem:
    """What every warpgroup knows: its list of tiles, the sizes, the constants.

    Registers are what the kernel is short of: of a tile, each number is read when
    it is needed. THREE_QUARTERS: the last quarter of the columns is empty.
    """

    tiles_ptr: gl.tensor
    first: gl.tensor
    last: gl.tensor
    group_size: gl.tensor
    seqlen_k: gl.tensor
    keys_after: gl.tensor
    qk_scale: gl.tensor
    HEAD_DIM: gl.constexpr
    HELPER: gl.constexpr
    CAUSAL: gl.constexpr
    MASKED_BLOCKS: gl.constexpr
    MASK_ALL: gl.constexpr
    THREE_QUARTERS: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, tiles_ptr, first, last, group_size, seqlen_k, keys_after, qk_scale,
        HEAD_DIM, HELPER, CAUSAL, MASKED_BLOCKS, MASK_ALL, THREE_QUARTERS,
    ):
        self.tiles_ptr, self.first, self.last = tiles_ptr, first, last
        self.group_size, self.seqlen_k = group_size, seqlen_k
        self.keys_after, self.qk_scale = keys_after, qk_scale
        self.HEAD_DIM = gl.constexpr(HEAD_DIM)
        self.HELPER = gl.constexpr(HELPER)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.MASKED_BLOCKS = gl.constexpr(MASKED_BLOCKS)
        self.MASK_ALL = gl.constexpr(MASK_ALL)
        self.THREE_QUARTERS = gl.constexpr(THREE_QUARTERS)
    # fmt: on

    @gluon.jit
    def get(self, t, FIELD: gl.constexpr):
        """One number of the t-th tile."""
        return gl.load(self.tiles_ptr + t * FIELDS + FIELD)


@gluon.jit
def multiply_transposed(x, y, zeros, problem):
    """x yᵀ, issued, not awaited. An empty last quarter of a head is left out."""
    if problem.THREE_QUARTERS:
        HALF: gl.constexpr = problem.HEAD_DIM // 2
        y_first = y.slice(0, HALF, dim=1).permute((1, 0))
        y_third = y.slice(HALF, HALF // 2, dim=1).permute((1, 0))
        x_first, x_third = x.slice(0, HALF, dim=1), x.slice(HALF, HALF // 2, dim=1)
        xy = warpgroup_mma(x_first, y_first, zeros, use_acc=False, is_async=True)
        xy = warpgroup_mma(x_third, y_third, xy, is_async=True)
    else:
        y = y.permute((1, 0))
        xy = warpgroup_mma(x, y, zeros, use_acc=False, is_async=True)
    return xy


@gluon.jit
def without_hidden(p, key, query, problem):
    """Weights, keys by queries, with 0 where a query must not see a key."""
    keys = key + gl.arange(0, p.shape[0], layout=gl.SliceLayout(1, p.type.layout))
    visible = (keys < problem.seqlen_k)[:, None]
    if problem.CAUSAL:
        queries = query + gl.arange(
            0, p.shape[1], layout=gl.SliceLayout(0, p.type.layout)
        )
        visible = keys[:, None] <= queries[None, :] + problem.keys_after
    return gl.where(visible, p, 0.0)
