"""Rounds, and what becomes of contenders that are wrong, too large or absent."""

from collections import Counter
from itertools import pairwise

import pytest
import torch

from bench.accuracy import Judge, make_inputs
from bench.cases import Case
from bench.measure import (
    ROUNDS,
    Call,
    Contender,
    Machine,
    Timing,
    Unmeasured,
    Unsupported,
    measure,
    round_order,
)

CASE = Case(1, 2, 2, 32, 32, 16, "fp16", causal=False)
FLOPS = 10**9


@pytest.fixture(scope="module")
def judge():
    return Judge.of(CASE, make_inputs(CASE, "cpu"))


class Clock:
    """A machine whose times are made up, and which remembers what it timed."""

    def __init__(self) -> None:
        self.timed: list[str] = []
        self.released = 0

    def machine(self) -> Machine:
        return Machine(self._time, lambda run: 1.5, self._release)

    def _time(self, run):
        self.timed.append(run.__name__)
        run()
        return float(len(self.timed))

    def _release(self):
        self.released += 1


def contender(name, answer):
    """One whose every run calls `answer`."""

    def run():
        return answer()

    run.__name__ = name
    return Contender(name, lambda: Call(run))


def right(judge):
    return lambda: judge.truth.to(judge.dtype)


def raising(error):
    def step():
        raise error

    return step


def only(contenders, judge, clock):
    [(_, outcome)] = measure(contenders, judge, FLOPS, clock.machine())
    return outcome


NAMES = ["a", "b", "c", "d"]


def test_every_round_has_every_name_once():
    for index in range(ROUNDS):
        assert Counter(round_order(NAMES, index)) == Counter(NAMES)


def test_every_other_round_goes_in_reverse():
    for index in range(0, ROUNDS, 2):
        assert round_order(NAMES, index)[::-1] == round_order(NAMES, index + 1)


def test_not_always_the_same_ones_follow_themselves():
    orders = [round_order(NAMES, index) for index in range(ROUNDS)]
    twice = [last[-1] for last, first in pairwise(orders) if last[-1] == first[0]]
    assert max(Counter(twice).values()) == 1


def test_contenders_are_timed_side_by_side(judge):
    clock = Clock()
    contenders = [contender(name, right(judge)) for name in NAMES]
    outcomes = dict(measure(contenders, judge, FLOPS, clock.machine()))
    orders = [round_order(NAMES, index) for index in range(ROUNDS)]
    assert clock.timed[1:] == [name for order in orders for name in order]
    assert ROUNDS >= 5
    assert list(outcomes) == NAMES
    assert outcomes["a"]["rounds"] == ROUNDS


def test_the_first_measurement_is_thrown_away(judge):
    clock = Clock()
    values = only([contender("a", right(judge))], judge, clock)
    assert len(clock.timed) == ROUNDS + 1
    assert values["ms_low"] == 2.0


def test_the_values_of_a_right_answer(judge):
    values = only([contender("a", right(judge))], judge, Clock())
    assert set(values) == {
        *("ms", "ms_low", "ms_high", "tflops", "tflops_low", "tflops_high"),
        *("error", "budget", "peak_mib", "rounds"),
    }
    assert values["error"] <= values["budget"]
    assert values["peak_mib"] == 1.5


def test_the_median_the_spread_and_the_rates():
    timing = Timing.over([3.0, 1.0, 2.0, 4.0, 100.0])
    assert timing == Timing(3.0, 1.0, 100.0, 5)
    values = timing.values(flops=6 * 10**9)
    assert (values["tflops"], values["tflops_low"], values["tflops_high"]) == (
        2.0,
        0.06,
        6.0,
    )


@pytest.mark.parametrize("spoil", [1.0, float("nan")], ids=["far", "nan"])
def test_a_wrong_answer_is_failed_and_not_timed(judge, spoil):
    clock = Clock()
    outcome = only([contender("bad", lambda: right(judge)() + spoil)], judge, clock)
    assert outcome.status == "failed"
    assert "budget" in outcome.reason
    assert clock.timed == []


def test_a_wrong_answer_does_not_keep_the_others_from_being_timed(judge):
    clock = Clock()
    pair = [
        contender("bad", lambda: torch.zeros_like(judge.truth, dtype=judge.dtype)),
        contender("good", right(judge)),
    ]
    outcomes = dict(measure(pair, judge, FLOPS, clock.machine()))
    assert isinstance(outcomes["bad"], Unmeasured)
    assert set(clock.timed) == {"good"}


def test_too_little_memory_is_recorded_and_given_back(judge):
    clock = Clock()
    error = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 16.00 GiB. GPU 0 has ... Process 4711"
    )
    outcome = only([contender("large", raising(error))], judge, clock)
    assert outcome == Unmeasured("out-of-memory", "Tried to allocate 16.00 GiB")
    assert clock.timed == []
    assert clock.released == 1


def test_an_absent_peer_is_unsupported(judge):
    absent = Contender("peer", raising(Unsupported("No module named 'peer'")))
    outcome = only([absent], judge, Clock())
    assert outcome == Unmeasured("unsupported", "No module named 'peer'")


def test_another_error_is_failed_with_its_reason_and_no_folder(judge):
    error = RuntimeError("no symbol in\n  /opt/some/where/lib.so: nothing")
    outcome = only([contender("broken", raising(error))], judge, Clock())
    assert outcome == Unmeasured("failed", "RuntimeError: no symbol in lib.so: nothing")


def test_one_that_breaks_between_rounds_is_not_timed_on(judge):
    clock = Clock()
    calls = iter(range(100))

    def answer():
        if next(calls) > 3:
            raise RuntimeError("broke")
        return right(judge)()

    outcomes = dict(
        measure(
            [contender("breaks", answer), contender("good", right(judge))],
            judge,
            FLOPS,
            clock.machine(),
        )
    )
    assert outcomes["breaks"] == Unmeasured("failed", "RuntimeError: broke")
    assert outcomes["good"]["rounds"] == ROUNDS


def test_a_fault_of_the_device_ends_the_job(judge):
    fault = torch.AcceleratorError("CUDA error: an illegal memory access")
    with pytest.raises(torch.AcceleratorError):
        only([contender("faulty", raising(fault))], judge, Clock())
