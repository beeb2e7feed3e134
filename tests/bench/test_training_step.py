"""The training step and the memory of attention: on a CPU, with a clock made up."""

import io
import itertools
import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from bench import attention_memory, training_step
from bench.accuracy import WrongAnswer, make_inputs
from bench.attention_memory import Meter
from bench.cases import SEEDS, Case
from bench.measure import ROUNDS, Machine, Unsupported
from bench.rows import Rows
from bench.training import PARTS, Training, silent
from bench.training_step import Clock

# NumPy warns of what Triton's interpreter does with numbers.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)

SMALL = Case(2, 2, 2, 32, 32, 16, "fp16", causal=True)
MACHINE = Machine(lambda run: 0.0, lambda run: 3.0, lambda: None)


@pytest.fixture
def training():
    return Training.of(SMALL, "cpu")


@pytest.fixture
def naive():
    return training_step.attentions(SMALL, "cpu")["naive"]


def ticking():
    """A clock on which every mark is one millisecond after the last."""
    ticks = itertools.count()
    return Clock(lambda: next(ticks), lambda first, last: float(last - first))


def backwards(q, k, v):
    """Not attention at all."""
    return (q + k + v).flip(2)


# --- The step ---


def test_the_marks_of_a_step_come_in_their_order(training, naive):
    marks = []
    training.step(naive, marks.append)
    assert marks == [
        *("begun", "attention", "attended", "forward"),
        *("gradient", "returned", "backward", "updated"),
    ]
    assert {mark for pair in PARTS.values() for mark in pair} == set(marks)


def test_all_compute_the_same_whoever_went_first(training, naive):
    before = training_step.gradient(training, naive).clone()
    for _ in range(3):
        training.step(naive, silent)
    assert training_step.gradient(training, naive).equal(before)
    # It is not the optimiser that does nothing: its state has moved.
    state = training.optimiser.state[training.block.qkv.weight]
    assert state["step"] == 3
    assert state["exp_avg"].any()


def test_the_attention_is_between_the_projections(training):
    """A block is x + attention(norm(x)), and then x + mlp(norm(x))."""
    block, x = training.block, training.x
    seen = []

    def attention(q, k, v):
        seen.append((q, k, v))
        return torch.zeros_like(v)

    out = block(x, attention)
    want = x + block.down(torch.nn.functional.gelu(block.up(block.norm_mlp(x))))
    torch.testing.assert_close(out, want)
    # Head h of q, k and v is its own piece of a row of the projection.
    row = block.qkv(block.norm_attention(x))[1, 5].view(3, 2, 16)
    for found, piece in zip(seen[0], row, strict=True):
        assert found.shape == (2, 2, 32, 16)
        torch.testing.assert_close(found[1, :, 5], piece)


def test_the_naive_weights_are_kept_once_without_autocast(training, naive, monkeypatch):
    seen = []

    def spy(inputs, softmax_scale, hidden):
        seen.append((inputs.q.dtype, torch.is_autocast_enabled("cpu")))
        return inputs.v

    monkeypatch.setattr(training_step, "naive_attention", spy)
    training.differentiate(naive, silent)
    assert seen == [(torch.float16, False)]


# --- Judged and timed ---


def test_another_attentions_gradient_is_no_answer(training, naive):
    judge = training_step.judge_of(naive, training)
    for right in (naive, training_step.attentions(SMALL, "cpu")["flashwalk"]):
        judge.error(training_step.gradient(training, right))
    with pytest.raises(WrongAnswer):
        judge.error(training_step.gradient(training, backwards))


def refuses(q, k, v):
    raise Unsupported("not here")


def test_each_part_of_each_attention_has_a_row(training, naive, monkeypatch):
    monkeypatch.setattr(training_step, "REPEATS", 2)
    found = {"naive": naive, "wrong": backwards, "absent": refuses}
    outcomes = training_step.measure(found, training, ticking(), MACHINE)
    stream = io.StringIO()
    training_step.write(Rows(stream), SMALL, outcomes)
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    by_case = {(row["case"]["impl"], row["case"]["part"]): row for row in rows}
    assert set(by_case) == set(itertools.product(found, PARTS))
    assert by_case["wrong", "step"]["status"] == "failed"
    assert by_case["absent", "forward"]["reason"] == "not here"
    # By the clock's ticks, from mark to mark.
    values = {part: by_case["naive", part]["values"] for part in PARTS}
    assert {part: x["ms"] for part, x in values.items()} == {
        **{"forward": 3, "backward": 3, "optimiser": 1, "step": 7},
        **{"attention-forward": 1, "attention-backward": 1},
    }
    assert values["step"]["rounds"] == ROUNDS
    assert values["step"]["peak_mib"] == 3
    assert "peak_mib" not in values["forward"]


def test_a_round_takes_the_median_of_the_steps_after_the_first(training, naive):
    # The steps get longer; the first ones are thrown away.
    ticks = itertools.accumulate(i // 8 for i in itertools.count())
    clock = Clock(lambda: next(ticks), lambda first, last: float(last - first))
    times = training_step.times_of_steps(training, naive, clock)
    first = training_step.WARMUP
    # Of the 8 marks of step i, all but the first are i after the one before.
    steps = [7 * i for i in range(first, first + training_step.REPEATS)]
    assert times["step"] == sum(steps) / len(steps)
    assert times["attention-forward"] == times["step"] / 7


def test_the_peak_is_of_a_step_with_its_gradients_and_without_first_times(
    training, naive
):
    judge = training_step.judge_of(naive, training)
    seen = []

    def peak_mib(run):
        weight = training.block.qkv.weight
        seen.append((weight.grad, weight in training.optimiser.state))
        return 4.0

    machine = MACHINE._replace(peak_mib=peak_mib)
    assert training_step.peak_of(naive, training, judge, machine) == 4.0
    assert seen == [(None, True)]


# --- The memory of one attention ---


class Ledger:
    """Memory made up: attention keeps 5 MiB of the 8 that it takes, and going
    back takes 11 above the start."""

    def __init__(self):
        self.used = self.peak = 100

    def meter(self):
        def restart():
            self.peak = self.used

        return Meter(lambda: self.used * 2**20, lambda: self.peak * 2**20, restart)

    def attention(self, inputs):
        self.peak = max(self.peak, self.used + 8)
        self.used += 5
        out = inputs.q * inputs.k.sum() * inputs.v.sum()
        out.register_hook(self.back)
        return out

    def back(self, gradient):
        self.used -= 5
        self.peak = max(self.peak, self.used + 11)


TINY = replace(SEEDS[128], nheads=2, nheads_k=2, seqlen_q=8, seqlen_k=8, dtype="fp16")


def memory_rows(found, ledger):
    stream = io.StringIO()
    attention_memory.run(
        *(Rows(stream), TINY, found, make_inputs(TINY, "cpu")),
        *(ledger.meter(), MACHINE),
    )
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_what_a_forward_takes_what_it_keeps_and_what_both_take():
    ledger = Ledger()

    def large(inputs):
        raise torch.OutOfMemoryError("Tried to allocate 16.00 GiB. GPU 0 has")

    rows = memory_rows({"ours": ledger.attention, "large": large}, ledger)
    assert [(row["case"]["impl"], row["case"]["part"]) for row in rows] == [
        *(("ours", "forward"), ("ours", "forward-backward")),
        *(("large", "forward"), ("large", "forward-backward")),
    ]
    assert [row["values"] for row in rows[:2]] == [
        {"peak_mib": 8, "saved_mib": 5},
        {"peak_mib": 11, "saved_mib": 5},
    ]
    assert rows[3]["status"] == "out-of-memory"


def test_the_first_time_is_not_counted():
    ledger = Ledger()
    first = iter([True])

    def attention(inputs):
        if next(first, False):
            ledger.used += 32  # a library's workspace, kept for good
            ledger.peak = ledger.used
        return ledger.attention(inputs)

    rows = memory_rows({"ours": attention}, ledger)
    assert rows[0]["values"] == {"peak_mib": 8, "saved_mib": 5}


def test_both_attentions_are_differentiable():
    inputs = make_inputs(TINY, "cpu")
    found = attention_memory.attentions(TINY, "cpu")
    assert list(found) == ["flashwalk", "naive"]
    for attention in found.values():
        attention_memory.measured(
            attention,
            inputs,
            torch.ones_like(inputs.q),
            Meter(lambda: 0, lambda: 0, partial(silent, "restart")),
        )
