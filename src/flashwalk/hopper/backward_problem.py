"""The backward's shared memory and barriers, and the problem as warpgroups see it."""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import mbarrier
from triton.language.core import _aggregate as aggregate

KEYS = gl.constexpr(64)  # keys of one warpgroup: the height of a wgmma
QUERIES = gl.constexpr(64)  # queries of a block
TILE = gl.constexpr(128)  # keys of a thread block


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
    def release(self, i, pred):
        slot = (i + self.SLOTS) % self.SLOTS
        mbarrier.arrive(self.empty.index(slot), count=1, pred=pred)


@aggregate
class KeyTile:
    """K and V of a tile, one half for each key warpgroup."""

    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, k, v, k_full, k_empty, v_full, v_empty):
        self.k, self.v = k, v
        self.k_full, self.k_empty = k_full, k_empty
        self.v_full, self.v_empty = v_full, v_empty


@aggregate
class Exchange:
    """dS on its way to dQ, and dQ on its way out.

    Slot s holds the halves 2 s and 2 s + 1; with a warpgroup for dQ, barriers
    hand them over.
    """

    ds: gl.shared_memory_descriptor
    dq: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    SLOTS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, ds, dq, full, empty, SLOTS):
        self.ds, self.dq, self.full, self.empty = ds, dq, full, empty
        self.SLOTS = gl.constexpr(SLOTS)


# fmt: off
@aggregate
class Problem:
    """What every warpgroup knows: its list of tiles, the sizes, the constants."""

    tiles_ptr: gl.tensor
    first: gl.tensor
    last: gl.tensor
    nheads_k: gl.tensor
    group_size: gl.tensor
    seqlen_k: gl.tensor
    query_blocks: gl.tensor
    keys_after: gl.tensor
    tiles_per_head: gl.tensor
    qk_scale: gl.tensor
    scale: gl.tensor
    HEAD_DIM: gl.constexpr
    HELPER: gl.constexpr
    CAUSAL: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, tiles_ptr, first, last, nheads_k, group_size, seqlen_k,
        query_blocks, keys_after, tiles_per_head, qk_scale, scale,
        HEAD_DIM, HELPER, CAUSAL,
    ):
        self.tiles_ptr, self.first, self.last = tiles_ptr, first, last
        self.nheads_k, self.group_size = nheads_k, group_size
        self.seqlen_k, self.query_blocks = seqlen_k, query_blocks
        self.keys_after, self.tiles_per_head = keys_after, tiles_per_head
        self.qk_scale, self.scale = qk_scale, scale
        self.HEAD_DIM = gl.constexpr(HEAD_DIM)
        self.HELPER = gl.constexpr(HELPER)
        self.CAUSAL = gl.constexpr(CAUSAL)
    # fmt: on

    @gluon.jit
    def locate(self, t):
        """(batch, key head, first key, first block of queries) of the t-th tile."""
        tile = gl.load(self.tiles_ptr + t)
        batch_head = tile // self.tiles_per_head
        key = (tile % self.tiles_per_head) * TILE
        block = 0
        if self.CAUSAL:
            block = gl.maximum(key - self.keys_after, 0) // QUERIES
            block = gl.minimum(block, self.query_blocks)
        return batch_head // self.nheads_k, batch_head % self.nheads_k, key, block
