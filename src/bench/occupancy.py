"""How many programs fit on one SM at once, by each of the things that they share.

The limits are those of the CUDA C++ programming guide, "Compute capabilities".
"""

import math
from typing import NamedTuple

WARP = 32
_SM_REGISTERS = 65_536  # of 32 bits, on every chip below
_WARP_REGISTERS = 256  # the registers of a warp come in so many at once
_SHARED_BYTES = 128  # shared memory comes in so many at once
_RESERVED_BYTES = 1024  # that every program takes for the system besides
_KIB = 1024


class Chip(NamedTuple):
    """What the programs of one SM share, and how many there may be.

    shared_kib: shared memory. tensor_columns: of tensor memory, where it is.
    """

    shared_kib: int
    threads: int
    programs: int
    tensor_columns: int = 0

    @property
    def program_kib(self) -> int:
        """The shared memory that one program can have, when it is alone."""
        return self.shared_kib - _RESERVED_BYTES // _KIB


CHIPS = {
    "sm_80": Chip(164, 2048, 32),
    "sm_89": Chip(100, 1536, 24),
    "sm_90": Chip(228, 2048, 32),
    "sm_100": Chip(228, 2048, 32, tensor_columns=512),
}


def by_registers(registers: int, threads: int) -> int:
    """Programs that the registers are enough for. registers: of a thread."""
    a_warp = _round_up(registers * WARP, _WARP_REGISTERS)
    return _SM_REGISTERS // (a_warp * threads // WARP)


def by_shared(chip: Chip, shared_bytes: int) -> int:
    """Programs that the shared memory is enough for; 0 where not even for one."""
    a_program = _round_up(shared_bytes, _SHARED_BYTES) + _RESERVED_BYTES
    return min(chip.programs, chip.shared_kib * _KIB // a_program)


def by_threads(chip: Chip, threads: int) -> int:
    """Programs that there is room for, as far as threads and programs go."""
    return min(chip.programs, chip.threads // threads)


def by_tensor_memory(chip: Chip, columns: int) -> int:
    """Programs whose columns of tensor memory fit; those with none always do."""
    return chip.tensor_columns // columns if columns else chip.programs


def _round_up(number: int, step: int) -> int:
    return math.ceil(number / step) * step
