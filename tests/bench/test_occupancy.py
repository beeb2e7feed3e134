"""How many programs fit on a multiprocessor."""

import pytest

from bench.occupancy import (
    CHIPS,
    by_registers,
    by_shared,
    by_tensor_memory,
    by_threads,
)

KIB = 1024


@pytest.mark.parametrize(
    ("registers", "threads", "programs"),
    [
        (32, 256, 8),
        (64, 1024, 1),
        (65, 1024, 0),
        (128, 256, 2),
        (81, 256, 2),
        (129, 256, 1),
        (255, 256, 1),
        (255, 128, 2),
        (168, 384, 1),
        (176, 384, 0),
        (96, 128, 5),
    ],
)
def test_registers_come_in_eights_a_thread(registers, threads, programs):
    assert by_registers(registers, threads) == programs


@pytest.mark.parametrize(
    ("target", "shared_kib", "programs"),
    [
        ("sm_90", 227, 1),
        ("sm_90", 113, 2),
        ("sm_90", 113.5, 1),
        ("sm_90", 227.001, 0),
        ("sm_80", 163, 1),
        ("sm_80", 164, 0),
        ("sm_89", 99, 1),
        ("sm_89", 49, 2),
        ("sm_89", 0, 24),
    ],
)
def test_each_program_takes_a_kib_of_shared_memory_besides(
    target, shared_kib, programs
):
    assert by_shared(CHIPS[target], int(shared_kib * KIB + 0.5)) == programs


def test_threads_and_tensor_memory():
    assert by_threads(CHIPS["sm_90"], 256) == 8
    assert by_threads(CHIPS["sm_89"], 256) == 6
    assert by_threads(CHIPS["sm_80"], 32) == 32
    assert by_tensor_memory(CHIPS["sm_100"], 256) == 2
    assert by_tensor_memory(CHIPS["sm_90"], 0) == 32
