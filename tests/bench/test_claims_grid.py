"""Who computes what, what a program holds, and where the compiler puts it."""

import os

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")

from bench import claims_placed

# Triton's interpreter reads the bound of a loop in a way that NumPy is leaving.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning",
    "ignore:.*encountered in:RuntimeWarning",
)


@pytest.fixture
def grid():
    return interpreted("claims_grid")


@pytest.fixture
def state():
    return interpreted("claims_state")


def interpreted(name):
    """A module whose kernels run here, where this process interprets them."""
    import importlib

    from triton import knobs

    if not knobs.runtime.interpret:
        pytest.skip("this process compiles kernels")
    return importlib.import_module(f"bench.{name}")


def test_each_row_belongs_to_one_program(grid):
    rows = [
        (p.off_b, p.off_h, row)
        for p in map(grid.program, range(36))
        for row in range(p.first_row, p.last_row + 1)
    ]
    assert len(rows) == len(set(rows)) == 2 * 6 * 10


def test_kernel_says_who_wrote_each_row(grid):
    assert len(list(grid.program_ids())) == 5


def test_a_wrong_table_is_noticed(grid, monkeypatch):
    right = grid.program
    monkeypatch.setattr(grid, "program", lambda index: right(index ^ 1))
    with pytest.raises(ValueError, match="the kernel says"):
        list(grid.program_ids())


def test_first_row_that_wraps_is_the_first(grid):
    for _, found in grid.int32_limits():
        if "stride" in found:
            assert found["first_row_wrong"] * found["stride"] >= 2**31
            assert (found["first_row_wrong"] - 1) * found["stride"] < 2**31


def test_modulo_misleads_some_heads_and_not_all(grid):
    wrong = [found["out"] != found["right"] for _, found in grid.heads_by_modulo()]
    assert 0 < sum(wrong) < len(wrong)


def test_a_wrapped_row_is_silently_wrong(grid):
    ((_, found),) = grid.wrapped_value()
    assert (found["right"], found["out"]) == (25, 15)


def test_any_start_of_l_gives_the_same(state):
    assert len({tuple(found.items()) for _, found in state.start_of_l()}) == 1


def test_start_of_m_shows_only_when_all_scores_are_low(state):
    by_shift = {
        case["shift"]: found for case, found in state.start_of_m() if "shift" in case
    }
    assert by_shift[0]["out"] == by_shift[0]["right"]
    assert by_shift[state.LOW]["out"] == 0 != by_shift[state.LOW]["right"]


def test_padding_costs_what_lies_between_the_powers(state):
    zeros = {case["head_dim"]: found["zeros"] for case, found in state.padded_dims()}
    assert zeros[96] == 25


def test_dims_of_a_neighbour_change_the_answer(state):
    ((_, found),) = state.dims_not_masked()
    assert abs(found["out"] - found["right"]) > 1


def test_programs_that_the_registers_allow():
    # 117 registers count as 120: two programs of 256 threads, not three.
    assert claims_placed.by_register_file(117, 256) == 2
    assert claims_placed.by_register_file(128, 256) == 2
    assert claims_placed.by_register_file(129, 256) == 1


def test_places_and_registers_of_the_compiled_kernel():
    claims = [
        (case["claim"], case, found) for case, found in claims_placed.placed_claims()
    ]
    operands = {case["capability"]: f for name, case, f in claims if name == "operands"}
    assert operands[90] == {"q_operand": "shared memory", "p_operand": "registers"}
    assert operands[80] == {"q_operand": "registers", "p_operand": "registers"}
    per_sm = {c["head_dim"]: f["per_sm"] for name, c, f in claims if name == "at-once"}
    assert per_sm == {64: 2, 128: 2, 256: 1}
