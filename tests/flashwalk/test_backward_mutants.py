"""The checks can fail: each mutant of the backward is rejected by one of them."""

import math
from pathlib import Path

import backward_mutants
import pytest
import torch
from accuracy import Rejected
from backward_mutants import MUTANTS
from gradients import check, judge, run
from kernel_mutants import load
from philox import judge_output

from flashwalk import backward, dropout, forward

# Mutants multiply infinities by 0; under the interpreter NumPy says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


CASES = list(dict.fromkeys(mutant.case for mutant in MUTANTS.values()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_backward_passes(case, device):
    check(backward, case(device, torch.float16))


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_rejected(name, device, tmp_path):
    case = MUTANTS[name].case(device, torch.float16)
    wrong = run(backward_mutants.load_mutant(name, tmp_path), case)
    with pytest.raises(Rejected):
        judge(case, wrong)


def test_unknown_text_is_no_mutant(monkeypatch, tmp_path):
    lost = backward_mutants.Mutant("text that is not there", "", None)
    monkeypatch.setitem(MUTANTS, "lost", lost)
    with pytest.raises(LookupError, match="occurs 0 times"):
        backward_mutants.load_mutant("lost", tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("l_safe * (1.0 - dropout_p)", "l_safe"),
        (
            "p = tl.where(keep, p, 0.0)",
            "l_i -= tl.sum(tl.where(keep, 0.0, p), 1); p = tl.where(keep, p, 0.0)",
        ),
        ("offs_m, start_n, BLOCK_N", "offs_m, 0, BLOCK_N"),
    ],
    ids=["factor-left-out", "dropped-not-in-the-denominator", "mask-of-the-block"],
)
def test_mutant_of_the_dropping_forward_is_rejected(before, after, device, tmp_path):
    case = backward_mutants.dropped(device, torch.float16)
    case = case._replace(problem=case.problem._replace(causal=False))
    source = Path(dropout.__file__).read_text(encoding="utf-8")
    assert source.count(before) == 1
    mutant = load(source.replace(before, after), tmp_path / "mutant.py")
    q, k, v = case.problem[:3]
    how = {
        "seed": case.dropout.seed,
        "dropout_p": case.dropout.dropout_p,
        "causal": False,
        "softmax_scale": case.problem.scale,
        "tile": forward.Tile(16, 16, 4, 1),
    }
    for module, fits in ((dropout, True), (mutant, False)):
        out = torch.full_like(q, math.nan)
        lse = torch.empty(q.shape[:-1], device=device)
        module.launch(q, k, v, out, lse, **how)
        if fits:
            judge_output(case, out)
        else:
            with pytest.raises(Rejected):
                judge_output(case, out)
