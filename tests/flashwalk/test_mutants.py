"""The checks can fail: each mutant of the kernel is rejected by one of them."""

import kernel_mutants
import pytest
import torch
from accuracy import Rejected, check, judge, run
from kernel_mutants import MUTANTS

from flashwalk import forward

# Mutants divide by 0 and subtract infinities; under the interpreter NumPy says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_rejected(name, device, tmp_path):
    problem, right, wrong = kernel_mutants.outcome(
        name, tmp_path, device, torch.float16
    )
    judge(problem, *right)
    with pytest.raises(Rejected):
        judge(problem, *wrong)


def test_unmutated_copy_passes(device, tmp_path):
    source = kernel_mutants.SOURCE.read_text(encoding="utf-8")
    copy = kernel_mutants.load(source, tmp_path / "copy_of_forward.py")
    for problem in {mutant.problem for mutant in MUTANTS.values()}:
        check(copy, problem(device, torch.float16))


def test_unknown_text_is_no_mutant(monkeypatch, tmp_path):
    lost = kernel_mutants.Mutant("text that is not there", "", None)
    monkeypatch.setitem(MUTANTS, "lost", lost)
    with pytest.raises(LookupError, match="occurs 0 times"):
        kernel_mutants.load_mutant("lost", tmp_path)


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="the interpreter knows no TF32"
)
def test_tf32_is_rejected(device, tmp_path):
    text = 'tl.dot(q, k, input_precision="ieee")'
    source = kernel_mutants.SOURCE.read_text(encoding="utf-8")
    assert source.count(text) == 1
    rounded = kernel_mutants.load(
        source.replace(text, "tl.dot(q, k)"), tmp_path / "in_tf32.py"
    )
    problem = MUTANTS["alpha-forgotten-on-acc"].problem(device, torch.float32)
    check(forward, problem)
    with pytest.raises(Rejected):
        judge(problem, *run(rounded, problem))
