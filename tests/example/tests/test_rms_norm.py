"""The kernel against fp64, in Triton's interpreter."""

import pytest
import row_problems
import torch
from row_problems import DTYPES, judge

from rmsnorm.kernel import MAX_COLS, rms_norm


@pytest.fixture(params=DTYPES)
def dtype(request):
    return DTYPES[request.param]


@pytest.fixture
def right(record_property):
    """Judges the kernel on a problem, and keeps its error for the record."""
    return lambda problem: record_property("error", judge(rms_norm, problem))


@pytest.mark.parametrize("n_cols", [1, 2, 31, 64, 100, 1000, 4096])
def test_rows_of_any_length(right, dtype, n_cols):
    right(row_problems.normal(dtype, 3, n_cols))


def test_tail_columns(right, dtype):
    right(row_problems.tail_columns(dtype))


def test_rows_far_apart(right, dtype):
    right(row_problems.far_apart(dtype))


def test_rows_beyond_int32(right):
    right(row_problems.beyond_int32(torch.float16))


def test_eps_under_the_root(right, dtype):
    right(row_problems.small_values(dtype))


def test_zero_row(right, dtype):
    problem = row_problems.zero_row(dtype)
    right(problem)
    assert not rms_norm(*problem)[2].any()


def test_values_with_infinite_squares(right, dtype):
    right(row_problems.large_values(dtype))


def test_one_row_repeated(right, dtype):
    x, weight, eps = row_problems.normal(dtype)
    right(row_problems.Problem(x[:1].expand(4, -1), weight, eps))


def test_no_rows(dtype):
    x, weight, _ = row_problems.normal(dtype)
    assert rms_norm(x[:0], weight).shape == (0, 100)


def test_the_input_stays_as_it_was(dtype):
    x, weight, _ = row_problems.normal(dtype)
    before = x.clone()
    rms_norm(x, weight)
    assert torch.equal(x, before)


ROWS = torch.zeros(2, 8)
WEIGHT = torch.ones(8)


@pytest.mark.parametrize(
    ("x", "weight", "eps", "said"),
    [
        (ROWS[0], WEIGHT, 1e-6, r"2 axes \(rows, n_cols\), got \(8,\)"),
        (ROWS[:, :0], WEIGHT[:0], 1e-6, "1 to 65536 columns, got 0"),
        (torch.zeros(1, MAX_COLS + 1), WEIGHT, 1e-6, "columns, got 65537"),
        (ROWS.double(), WEIGHT.double(), 1e-6, "float16 or float32, got .*float64"),
        (torch.zeros(8, 2).T, WEIGHT, 1e-6, r"stride 1 along its rows, got \(1, 2\)"),
        (ROWS, WEIGHT[:7], 1e-6, r"shape \(8,\), got \(7,\)"),
        (ROWS, torch.ones(16)[::2], 1e-6, r"got \(8,\) with stride \(2,\)"),
        (ROWS, WEIGHT.half(), 1e-6, "float32 on cpu, got .*float16 on cpu"),
        (ROWS, WEIGHT, 0.0, "above 0 and finite, got 0.0"),
        (ROWS, WEIGHT, float("nan"), "above 0 and finite, got nan"),
        (ROWS, WEIGHT.clone().requires_grad_(), 1e-6, "no backward"),
    ],
)
def test_what_it_cannot_do_it_says(x, weight, eps, said):
    with pytest.raises(ValueError, match=said):
        rms_norm(x, weight, eps)
