"""The backward's jobs on a CPU, with contenders and times made up."""

import io
import json
import math
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from bench import backward_speed, command, implementations_backward, job
from bench.accuracy import WrongAnswer, causal_mask, make_inputs, naive_attention
from bench.cases import SEEDS, Case, forward_cases, other_cases
from bench.gradients import GradientJudge, Gradients, differentiated, make_do
from bench.implementations import RIVALS
from bench.implementations_backward import BACKWARDS
from bench.measure import Call, Machine, Unsupported
from bench.rows import Rows
from flashwalk import attention_ref

# NumPy warns of what Triton's interpreter does with numbers.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)

SMALL = Case(2, 4, 2, 24, 40, 16, "fp16", causal=True)
SQUARE = replace(SMALL, seqlen_q=40)
MACHINE = Machine(lambda run: 0.5, lambda run: 2.0, lambda: None)


def problem(case):
    inputs = make_inputs(case, "cpu")
    return inputs, make_do(inputs)


def textbook(case, inputs, do):
    hidden = causal_mask(case, "cpu")
    return differentiated(
        lambda leaves: naive_attention(leaves, case.softmax_scale, hidden), inputs, do
    )


# --- Which gradients pass for right ---


@pytest.fixture(scope="module", params=[SMALL, replace(SMALL, causal=False)], ids=str)
def judged(request):
    case = request.param
    inputs, do = problem(case)
    return GradientJudge.of(case, inputs, do), textbook(case, inputs, do)


def test_the_truth_is_the_references_gradients_of_all_heads_together():
    inputs, do = problem(SMALL)
    judge = GradientJudge.of(SMALL, inputs, do)
    leaves = [x.double().requires_grad_() for x in inputs]
    out, _ = attention_ref(*leaves, causal=True, softmax_scale=SMALL.softmax_scale)
    want = torch.autograd.grad(out, leaves, do.double())
    for one, gradient in zip(judge.judges, want, strict=True):
        torch.testing.assert_close(one.truth, gradient)


def test_the_textbooks_gradients_are_within_their_own_budgets(judged):
    judge, right = judged
    assert 0 < judge.error(right) <= judge.budget
    errors = [one.error(x) for one, x in zip(judge.judges, right, strict=True)]
    assert judge.error(right) == max(errors)
    assert judge.budget == max(one.budget for one in judge.judges)


@pytest.mark.parametrize("name", Gradients._fields)
@pytest.mark.parametrize("spoil", [0.5, math.nan], ids=["far", "nan"])
def test_one_wrong_element_of_one_gradient_is_seen(judged, name, spoil):
    judge, right = judged
    wrong = getattr(right, name).clone()
    wrong[-1, -1, -1, -1] += spoil
    with pytest.raises(WrongAnswer, match=f"{name}: largest error"):
        judge.error(right._replace(**{name: wrong}))


def test_a_gradient_has_its_own_budget_and_not_the_largest(judged):
    judge, right = judged
    by_name = dict(zip(Gradients._fields, judge.judges, strict=True))
    strict = min(by_name, key=lambda name: by_name[name].budget)
    off = getattr(right, strict).clone()
    off[0, 0, 0, 0] += 0.99 * judge.budget
    assert by_name[strict].budget < 0.9 * judge.budget
    with pytest.raises(WrongAnswer, match=strict):
        judge.error(right._replace(**{strict: off}))


def test_as_much_memory_as_three_gradients_is_poisoned(judged, monkeypatch):
    judge, right = judged
    filled = []

    def full_like(like, value, dtype):
        assert math.isnan(value)
        filled.append((like.shape, dtype))

    monkeypatch.setattr(torch, "full_like", full_like)
    judge.poison()
    assert filled == [(x.shape, x.dtype) for x in right]


# --- The rows ---


def absent(case, inputs, do):
    raise Unsupported("no such wheel")


def forgets_the_scale(case, inputs, do):
    dq, dk, dv = textbook(case, inputs, do)
    return Call(lambda: Gradients(dq, dk / case.softmax_scale, dv))


def naive(case, inputs, do):
    return Call(partial(textbook, case, inputs, do))


def rows_of(cases, contenders):
    stream = io.StringIO()
    measure_one = partial(
        backward_speed.measure_case,
        implementations=contenders,
        machine=MACHINE,
        device="cpu",
    )
    job.run(Rows(stream), cases, measure_one, backward_speed.columns, MACHINE)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_case_has_one_row_of_each_implementation():
    contenders = {"naive": naive, "absent": absent, "wrong": forgets_the_scale}
    rows = rows_of([SMALL, replace(SMALL, causal=False)], contenders)
    assert len(rows) == 6
    assert {row["case"]["mode"] for row in rows} == {"backward"}
    by_name = {row["case"]["impl"]: row for row in rows if row["case"]["causal"]}
    assert by_name["absent"]["status"] == "unsupported"
    assert by_name["wrong"]["status"] == "failed"
    assert "wrong answer: dk: largest error" in by_name["wrong"]["reason"]
    # Five products: 10 operations for each pair and column, half of the pairs.
    flops = 10 * (2 * 4 * 24 * 40) * 16 // 2
    assert by_name["naive"]["values"]["tflops"] == pytest.approx(flops / 0.5 / 1e9)


def test_the_backward_counts_five_products_where_the_forward_has_two():
    for causal in (False, True):
        case = replace(SEEDS[128], causal=causal)
        assert case.backward_flops * 2 == case.flops * 5


def test_all_are_there():
    assert list(BACKWARDS) == ["flashwalk", "portable", "fa2", "cudnn", "fa3", "fa4"]


@pytest.mark.parametrize("option", [["--head-dim", "64"], ["--other"]])
def test_on_sizes_that_nobody_tuned_on_there_are_ours_and_the_rivals(
    monkeypatch, option
):
    measured = []

    def run(rows, cases, measure_one, columns, machine):
        measured.append((list(measure_one.keywords["implementations"]), cases))

    monkeypatch.setattr("sys.argv", ["backward_speed", *option])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(command, "cuda_machine", lambda: MACHINE)
    monkeypatch.setattr(job, "run", run)
    backward_speed.main()
    [(names, cases)] = measured
    if option == ["--other"]:
        assert (names, cases) == (["flashwalk", *RIVALS], other_cases())
    else:
        assert (names, cases) == (list(BACKWARDS), forward_cases(64))


# --- How each is called ---


@pytest.mark.parametrize("name", ["flashwalk", "portable", "fa2"])
def test_the_gradients_of_an_implementation_are_right_each_time(name):
    inputs, do = problem(SQUARE)
    judge = GradientJudge.of(SQUARE, inputs, do)
    call = BACKWARDS[name](SQUARE, inputs, do)
    for _ in range(2):
        judge.error(call.output(call.run()))


def test_ours_is_the_public_function_and_its_forward_is_not_timed(monkeypatch):
    asked = []

    def attention(q, k, v, *, causal):
        asked.append(causal)
        return q * k.sum() * v.sum()

    module = SimpleNamespace(attention=attention)
    monkeypatch.setattr(implementations_backward, "flashwalk", module)
    call = BACKWARDS["flashwalk"](SQUARE, *problem(SQUARE))
    call.run()
    assert asked == [True]


def test_the_portable_kernels_are_launched_by_their_own_module(monkeypatch):
    launched = []
    launch = implementations_backward.backward.launch

    def spy(*tensors, **how):
        launched.append(how)
        launch(*tensors, **how)

    module = SimpleNamespace(launch=spy)
    monkeypatch.setattr(implementations_backward, "backward", module)
    call = BACKWARDS["portable"](SMALL, *problem(SMALL))
    assert launched == []
    first, second = call.run(), call.run()
    assert launched == [{"causal": True, "softmax_scale": 0.25}] * 2
    # As users get them: made anew in each call.
    assert all(x is not y for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize("name", ["fa2", "cudnn"])
def test_a_causal_mask_of_unequal_lengths_is_refused(name):
    with pytest.raises(Unsupported, match="mask"):
        BACKWARDS[name](SMALL, *problem(SMALL))


def test_pytorchs_refusal_is_unsupported():
    if torch.cuda.is_available():
        pytest.skip("there is a cuDNN kernel on a GPU")
    with pytest.raises(Unsupported, match="no CUDNN_ATTENTION kernel"):
        BACKWARDS["cudnn"](SQUARE, *problem(SQUARE))


def peer(monkeypatch, flash_attn_func):
    """Takes FlashAttention-4's place."""
    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace())
    module = SimpleNamespace(flash_attn_func=flash_attn_func)
    monkeypatch.setitem(sys.modules, "flash_attn.cute", module)


def test_a_peer_with_its_own_layout_answers_in_ours(monkeypatch):
    inputs, do = problem(SMALL)
    hidden = causal_mask(SMALL, "cpu")
    strides = []

    def attention(q, k, v, causal):
        assert causal
        assert q.is_contiguous()
        assert q.shape == (SMALL.batch, SMALL.seqlen_q, SMALL.nheads, SMALL.head_dim)
        ours = type(inputs)(*(x.transpose(1, 2) for x in (q, k, v)))
        out = naive_attention(ours, SMALL.softmax_scale, hidden)
        out = out.transpose(1, 2).contiguous()
        out.register_hook(lambda gradient: strides.append(gradient.is_contiguous()))
        return out, "lse"

    peer(monkeypatch, attention)
    call = BACKWARDS["fa4"](SMALL, inputs, do)
    found = call.output(call.run())
    for x, want in zip(found, textbook(SMALL, inputs, do), strict=True):
        torch.testing.assert_close(x, want, rtol=1e-3, atol=2e-3)
    # Nobody is timed while turning the gradient of the output around.
    assert strides
    assert all(strides)


class RefusesItsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q):
        return q.clone()

    @staticmethod
    def backward(ctx, do):
        raise AssertionError("head dim 16 is not built")


def test_a_peer_that_refuses_is_unsupported_in_its_own_words(monkeypatch):
    peer(monkeypatch, lambda q, k, v, causal: RefusesItsBackward.apply(q))
    with pytest.raises(Unsupported, match="refuses: head dim 16 is not built"):
        BACKWARDS["fa4"](SQUARE, *problem(SQUARE))


def test_a_peer_without_a_backward_is_unsupported(monkeypatch):
    peer(monkeypatch, lambda q, k, v, causal: q.detach())
    with pytest.raises(Unsupported, match="forward only"):
        BACKWARDS["fa4"](SQUARE, *problem(SQUARE))
    with pytest.raises(Unsupported, match="forward only"):
        BACKWARDS["fa3"](SQUARE, *problem(SQUARE))
    monkeypatch.setitem(sys.modules, "flash_attn.cute", None)
    with pytest.raises(Unsupported, match="cannot be imported"):
        BACKWARDS["fa4"](SQUARE, *problem(SQUARE))
