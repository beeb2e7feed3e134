"""The other way to read K is made from the kernel's own text."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import flashwalk.forward
from bench import k_transposed
from bench.accuracy import Inputs, causal_mask, naive_attention
from bench.cases import Case
from bench.measure import Machine


def test_one_step_and_nothing_else_is_exchanged(tmp_path):
    ours = Path(flashwalk.forward.__file__).read_text(encoding="utf-8")
    other = k_transposed.transposed_source(ours)
    assert other.count("tl.trans(") == 1
    assert other.replace(k_transposed.TRANSPOSED, k_transposed.SWAPPED) == ours
    module = k_transposed.load_transposed(tmp_path)
    assert module.launch is not flashwalk.forward.launch
    assert module.tile_for(64, None) == flashwalk.forward.tile_for(64, None)


def test_a_kernel_that_has_changed_is_an_error_not_a_comparison_with_itself():
    with pytest.raises(SystemExit, match="load-k"):
        k_transposed.transposed_source("def _attn_fwd(): ...")


class Kernel:
    """Stands for a compiled one; its report says what it was launched with."""

    def __getitem__(self, grid):
        metadata = SimpleNamespace(shared=1024)
        return lambda x: SimpleNamespace(n_regs=x, n_spills=0, metadata=metadata)


def test_both_variants_have_a_row_with_their_reports():
    case = Case(1, 2, 2, 32, 32, 16, "fp16", causal=True)

    def variant(registers):
        module = SimpleNamespace(_attn_fwd=Kernel())

        def launch(q, k, v, out, lse, *, causal, softmax_scale):
            module._attn_fwd[(1,)](registers)
            hidden = causal_mask(case, "cpu") if causal else None
            out.copy_(naive_attention(Inputs(q, k, v), softmax_scale, hidden))

        module.launch = launch
        return module

    machine = Machine(lambda run: 0.5, lambda run: 0.0, lambda: None)
    variants = {"swapped indices": variant(168), "tl.trans": variant(172)}
    outcomes = dict(k_transposed.measure_case(case, variants, machine, "cpu"))
    assert [values["registers"] for values in outcomes.values()] == [168, 172]
    assert "peak_mib" not in outcomes["tl.trans"]
    assert k_transposed.columns("tl.trans", case)["variant"] == "tl.trans"


def test_the_report_is_that_of_the_kernel_launched():
    kernel = Kernel()
    module = SimpleNamespace(_attn_fwd=kernel)
    report = k_transposed.compiled_report(module, lambda: module._attn_fwd[(1,)](168))
    assert report == {"registers": 168, "spills": 0, "shared_bytes": 1024}
    assert module._attn_fwd is kernel
