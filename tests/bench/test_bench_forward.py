"""The forward job on a CPU, with contenders and times made up."""

import io
import json
import sys
from dataclasses import replace
from functools import partial

import pytest

from bench import forward_speed as forward
from bench import implementations, job
from bench.accuracy import causal_mask, make_inputs, naive_attention
from bench.cases import Case, forward_cases, ladder_cases, other_cases
from bench.measure import Call, Machine, Unsupported
from bench.rows import Rows

# NumPy warns of what Triton's interpreter does with numbers.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)

SMALL = Case(2, 2, 1, 24, 24, 16, "fp16", causal=False)
MACHINE = Machine(lambda run: 0.5, lambda run: 2.0, lambda: None)


def absent(case, inputs):
    raise Unsupported("no such wheel")


def wrong(case, inputs):
    return Call(lambda: inputs.q)


def rows_of(cases, contenders):
    stream = io.StringIO()
    measure_one = partial(
        forward.measure_case,
        implementations=contenders,
        machine=MACHINE,
        device="cpu",
    )
    job.run(Rows(stream), cases, measure_one, forward.columns, MACHINE)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_case_has_one_row_of_each_implementation():
    cases = [SMALL, replace(SMALL, causal=True)]
    contenders = {"naive": implementations.naive, "absent": absent, "wrong": wrong}
    rows = rows_of(cases, contenders)
    assert len(rows) == 6
    assert {row.get("status", "measured") for row in rows if row["case"]["causal"]} == {
        "measured",
        "unsupported",
        "failed",
    }
    [timed] = [r for r in rows if "values" in r and r["case"]["causal"]]
    assert list(timed["case"]) == [
        *("impl", "mode", "batch", "nheads", "nheads_k", "seqlen_q", "seqlen_k"),
        *("head_dim", "dtype", "causal"),
    ]
    assert timed["case"]["impl"] == "naive"
    assert timed["case"]["mode"] == "forward"
    assert timed["values"]["ms"] == 0.5


def test_all_are_there():
    assert list(implementations.IMPLEMENTATIONS) == [
        *("flashwalk", "teaching", "naive", "fa2", "cudnn", "flex", "fa3", "fa4")
    ]
    assert set(implementations.RIVALS) < set(implementations.IMPLEMENTATIONS)


def test_a_kernel_is_launched_by_its_own_module_and_refuses_by_it():
    inputs = make_inputs(SMALL, "cpu")
    want = naive_attention(inputs, SMALL.softmax_scale, None)
    call = implementations.teaching(SMALL, inputs)
    assert (call.run() - want).abs().max() < 2e-3

    class Refuses:
        @staticmethod
        def refusal(q, k, v, softmax_scale):
            return f"it cannot scale by {softmax_scale}"

    with pytest.raises(Unsupported, match=r"cannot scale by 0\.25"):
        implementations.launched(Refuses, SMALL, inputs)


@pytest.mark.parametrize("module", ["flash_attn_interface", "flash_attn.cute"])
def test_a_peer_that_is_not_installed_is_unsupported(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    prepare = {
        "flash_attn_interface": implementations.fa3,
        "flash_attn.cute": implementations.fa4,
    }[module]
    with pytest.raises(Unsupported, match="cannot be imported"):
        prepare(SMALL, make_inputs(SMALL, "cpu"))


def test_peers_with_their_own_layout_answer_in_ours():
    case = replace(SMALL, causal=True)
    inputs = make_inputs(case, "cpu")
    hidden = causal_mask(case, "cpu")

    def peer(q, k, v, causal):
        assert q.is_contiguous()
        assert q.shape == (case.batch, case.seqlen_q, case.nheads, case.head_dim)
        ours = type(inputs)(*(x.transpose(1, 2) for x in (q, k, v)))
        out = naive_attention(ours, case.softmax_scale, hidden)
        return out.transpose(1, 2), "lse"

    call = implementations._seqlen_first(peer, case, inputs)
    want = naive_attention(inputs, case.softmax_scale, hidden)
    assert call.output(call.run()).equal(want)


@pytest.mark.parametrize("name", ["fa2", "cudnn", "flex"])
def test_a_causal_mask_of_unequal_lengths_is_refused(name):
    case = replace(SMALL, causal=True, seqlen_k=48)
    with pytest.raises(Unsupported, match="mask"):
        implementations.IMPLEMENTATIONS[name](case, make_inputs(case, "cpu"))


def test_no_case_comes_twice():
    for cases in (*map(forward_cases, (64, 128, 256)), other_cases(), ladder_cases()):
        assert len(cases) == len(set(cases))


def test_the_cells_that_nobody_tuned_on():
    cells = {
        (c.nheads, c.nheads_k, c.seqlen_q, c.seqlen_k, c.head_dim)
        for c in other_cases()
    }
    assert cells == {
        (32, 8, 4096, 4096, 128),
        (16, 16, 1000, 1000, 128),
        (16, 16, 3072, 3072, 128),
        (16, 16, 5000, 5000, 128),
        (16, 16, 4096, 4096, 96),
        (16, 16, 2048, 8192, 128),
    }
