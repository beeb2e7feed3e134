"""The checks can fail: each mutant of the backward is rejected by one of them."""

import backward_mutants
import pytest
import torch
from accuracy import Rejected
from backward_mutants import MUTANTS
from gradients import check, judge, run

from flashwalk import backward

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
