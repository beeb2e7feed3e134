"""How the warpgroups of one thread block wait for each other.

A ring carries tiles from the warpgroup that loads to those that multiply. Turns
order the warpgroups that multiply among themselves.
"""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.core import _aggregate as aggregate

# The hardware has 16 named barriers; Triton takes the first ones for itself.
_FIRST_TURN = gl.constexpr(9)


@aggregate
class Ring:
    """Slots in shared memory, filled in turn, each with two barriers.

    The i-th tile of the ring's life lies in slot i % SLOTS. `full` says that
    the slot has been filled for the (i // SLOTS)-th time, `empty` that all
    readers are done with it as often. A barrier knows two phases alone, odd
    and even, so a wait names the parity of the phase that must be over.
    """

    buffers: gl.shared_memory_descriptor  # [SLOTS, 1, 1, rows, HEAD_DIM]
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    SLOTS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, buffers, full, empty, SLOTS):
        self.buffers = buffers
        self.full = full
        self.empty = empty
        self.SLOTS = gl.constexpr(SLOTS)

    @gluon.jit
    def fill(self, i, descriptor, batch, head, row):
        """Starts the load of tile i once its slot is free. One warp runs this."""
        slot = i % self.SLOTS
        mbarrier.wait(self.empty.index(slot), ((i // self.SLOTS) & 1) ^ 1)
        mbarrier.expect(self.full.index(slot), descriptor.block_type.nbytes)
        tma.async_copy_global_to_shared(
            descriptor,
            [batch, head, row, 0],
            self.full.index(slot),
            self.buffers.index(slot),
        )

    @gluon.jit
    def wait(self, i):
        """Tile i, [rows, HEAD_DIM] in shared memory, once it has arrived."""
        slot = i % self.SLOTS
        mbarrier.wait(self.full.index(slot), (i // self.SLOTS) & 1)
        return as_matrix(self.buffers.index(slot))

    @gluon.jit
    def release(self, i, pred=True):
        """Gives the slot of tile i back. i may be −1 where pred is false."""
        slot = (i + self.SLOTS) % self.SLOTS
        mbarrier.arrive(self.empty.index(slot), count=1, pred=pred)


@gluon.jit
def as_matrix(tile):
    """[1, 1, rows, HEAD_DIM] in shared memory, seen as [rows, HEAD_DIM]."""
    return tile.reshape((tile.shape[2], tile.shape[3]))


@gluon.jit
def make_ring(descriptor, SLOTS: gl.constexpr, READERS: gl.constexpr):
    """A ring of SLOTS tiles, each of which READERS warpgroups give back."""
    buffers = gl.allocate_shared_memory(
        descriptor.dtype,
        [SLOTS] + descriptor.block_type.shape,  # noqa: RUF005 - no stars in Gluon
        descriptor.layout,
    )
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=READERS)
    return Ring(buffers, full, empty, SLOTS)


@gluon.jit
def take_turn(ME: gl.constexpr):
    """Waits until the warpgroup before this one has passed the turn on."""
    _named_barrier(_FIRST_TURN + ME, False)


@gluon.jit
def pass_turn(ME: gl.constexpr, GROUPS: gl.constexpr):
    """Passes the turn on to the next warpgroup, and goes on at once."""
    _named_barrier(_FIRST_TURN + (ME + 1) % GROUPS, True)


@gluon.jit
def _named_barrier(ID: gl.constexpr, ARRIVE: gl.constexpr):
    """A barrier of two warpgroups, 256 threads: one arrives, the other waits.

    Gluon 3.6 has no name for it, so it is PTX; the move gives it a result.
    """
    HOW: gl.constexpr = "arrive" if ARRIVE else "sync"
    PTX: gl.constexpr = f"bar.{HOW} {ID}, 256; mov.b32 $0, $1;"
    lanes = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    gl.inline_asm_elementwise(
        PTX, "=r,r", [lanes], dtype=gl.int32, is_pure=False, pack=1
    )
