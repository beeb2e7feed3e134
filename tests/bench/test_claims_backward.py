"""The backward's claims: each number in two ways, and faults that must show."""

import math
import os

import pytest
import torch

os.environ.setdefault("TRITON_INTERPRET", "1")

from bench.claims_walk import SCORES, VALUES

# Triton's interpreter reads the bound of a loop in a way that NumPy is leaving.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)


@pytest.fixture
def bill():
    """bench.claims_backward, where this process interprets kernels."""
    interpreted()
    from bench import claims_backward

    return claims_backward


@pytest.fixture
def blocks():
    interpreted()
    from bench import claims_backward_blocks

    return claims_backward_blocks


@pytest.fixture
def formulas():
    interpreted()
    from bench import claims_backward_gradients

    return claims_backward_gradients


@pytest.fixture
def kernels():
    interpreted()
    from bench import claims_backward_kernel

    return claims_backward_kernel


def interpreted():
    from triton import knobs

    if not knobs.runtime.interpret:
        pytest.skip("this process compiles kernels")


def test_the_bill_is_that_of_the_text(bill):
    ((_, found),) = bill.bill()
    assert (found["tensor_mib"], found["matrix_gib"], found["lse_mib"]) == (64, 4, 1)
    assert found["matrix_fp32_gib"] == 8


def test_a_forward_that_keeps_p_is_noticed(bill, monkeypatch):
    monkeypatch.setattr(bill, "_ours", bill._naive)
    with pytest.raises(ValueError, match="what flashwalk keeps and its formula"):
        list(bill.kept())


def test_inputs_are_not_counted_as_kept(bill):
    assert bill.kept_bytes(lambda q, k, v: q * k, 8, 16) == 0
    # exp keeps what it returns.
    assert bill.kept_bytes(lambda q, k, v: q.exp(), 8, 16) == 2 * 8 * 16 * 2


def test_saving_grows_with_the_length_and_is_none_when_short(bill):
    ratios = [found["kept_ratio"] for _, found in bill.kept()]
    assert ratios == sorted(ratios)
    assert ratios[0] < 1


def test_the_mean_of_blocks_is_not_the_row(blocks):
    claims = {case["claim"]: found for case, found in blocks.blocks_alone()}
    assert claims["blocks-averaged"]["mean"] == 0.5
    assert claims["blocks-averaged"]["whole_row"] == pytest.approx(0.9999546021)
    assert claims["block-shares"]["answer"] == pytest.approx(0.9999546021)


def test_only_lse_weighs_blocks_rightly(blocks):
    right = [
        (case["pieces"], case["weighed_by"])
        for case, found in blocks.weighted_parts()
        if found["out"] == pytest.approx(found["right"])
    ]
    assert right == [("2 | 2", "lse"), ("1 | 3", "lse")]


def test_states_meet_in_any_order_and_with_nothing(blocks):
    numbers = ((1, 2, 3), (7, 1, -2), (4, 5, 1))
    one, two, three = (blocks.Sums(*each) for each in numbers)
    for first, second in (
        (blocks.joined(one, two), blocks.joined(two, one)),
        (
            blocks.joined(blocks.joined(one, two), three),
            blocks.joined(one, blocks.joined(two, three)),
        ),
        (blocks.joined(blocks.EMPTY, one), one),
    ):
        assert first == pytest.approx(second)
    assert blocks.joined(blocks.EMPTY, blocks.EMPTY) == blocks.EMPTY


def test_a_merge_without_its_factor_stops_the_job(blocks, monkeypatch):
    def forgetful(one, two):
        m = max(one.m, two.m)
        return blocks.Sums(m, one.l + two.l, one.a + two.a)

    monkeypatch.setattr(blocks, "joined", forgetful)
    with pytest.raises(ValueError, match="two states that meet and the walk"):
        list(blocks.merged_states())


def test_orders_agree_but_for_the_last_bits(blocks):
    differences = [found["difference"] for _, found in blocks.orders(keys=1024)]
    assert max(differences) < 1e-6


def test_each_forgotten_alpha_has_a_row_that_cannot_tell(blocks):
    rows = {case["fault"]: found for case, found in blocks.who_would_notice()}
    right = rows.pop("none")
    for fault, found in rows.items():
        assert found["answer_falling"] == pytest.approx(right["answer_falling"]), fault
        assert found["answer_rising"] != pytest.approx(right["answer_rising"]), fault
    seed = rows["alpha-forgotten-on-acc"]["answer_seed"]
    assert seed == pytest.approx(right["answer_seed"])
    assert rows["maximum-moved-early"]["answer_seed"] == 0.5


def test_a_fault_that_no_row_notices_is_refused(blocks, monkeypatch):
    monkeypatch.setattr(blocks, "ALPHA_FAULTS", {"no fault": ("acc", "acc")})
    monkeypatch.setattr(blocks, "kernel_with", lambda edit: blocks.forward)
    with pytest.raises(ValueError, match="none of the rows notices it"):
        list(blocks.who_would_notice())


def test_share_of_rows_that_cannot_tell_is_one_in_so_many_blocks(blocks):
    for case, found in blocks.first_blocks(rows=400):
        expected = 100 / case["key_blocks"]
        assert found["untouched"] == pytest.approx(expected, abs=8)


def test_the_formula_is_the_gradient(formulas):
    rows = [found for case, found in formulas.by_hand() if "ds" in found]
    for key, found in enumerate(rows):
        step = 1e-6
        up, down = (
            formulas.softmax_average(
                [s + sign * step * (i == key) for i, s in enumerate(SCORES)], VALUES
            )
            for sign in (1, -1)
        )
        assert found["ds"] == pytest.approx((up - down) / (2 * step), rel=1e-6)


def test_a_wrong_delta_stops_the_job(formulas, monkeypatch):
    right = formulas.softmax_backward
    monkeypatch.setattr(
        formulas, "softmax_backward", lambda s, v: right(s, v, delta=26.0)
    )
    with pytest.raises(ValueError, match="the sum of ds and 0"):
        list(formulas.by_hand())


def test_delta_is_one_number_in_two_ways(formulas):
    ((_, found),) = formulas.delta_both_ways(keys=64, head_dim=8)
    assert found["difference"] < 1e-14
    assert found["along_the_row"] == 64 * 9
    assert found["from_the_output"] == 8


def test_rounding_delta_shows_in_every_ds(formulas):
    rows = dict(enumerate(found for _, found in formulas.rounded_delta()))
    assert rows[0]["delta_bf16"] == 1024
    for found in list(rows.values())[1:]:
        assert abs(found["ds_wrong"] - found["ds"]) > 0.01


def test_weights_come_back_nearly_as_they_were(formulas):
    ((_, found),) = formulas.rebuilt_weights(keys=64)
    assert found["relative"] < 1e-5 < found["relative_bf16"] < 2**-8


def test_only_a_natural_lse_makes_weights_that_sum_to_one(formulas):
    totals = {c["statistic"]: v["total_weight"] for c, v in formulas.wrong_lse()}
    assert totals["natural"] == pytest.approx(1.0)
    assert totals["log l"] == pytest.approx(math.exp(max(SCORES)))
    assert not 0.9 < totals["base 2"] < 1.1


def test_dropped_keys_keep_a_gradient_of_their_score(formulas):
    rows = [found for case, found in formulas.dropped() if "factor" in found]
    for found in rows:
        assert (found["dv"] == 0) == (found["factor"] == 0)
        assert found["ds"] != 0
    assert sum(found["ds"] for found in rows) == pytest.approx(0)


def test_the_kernel_answers_as_by_hand(kernels):
    rows = [found for case, found in kernels.by_hand() if "dk" in found]
    assert [found["dk"] for found in rows] == pytest.approx(
        [key.ds for key in kernels.softmax_backward(SCORES, VALUES)], rel=1e-5
    )


def test_a_broken_backward_stops_the_job(kernels, monkeypatch):
    broken = kernels.backward_with(("(dp - delta[None, :])", "dp"))
    monkeypatch.setattr(kernels, "backward", broken)
    with pytest.raises(ValueError, match="dk and ds disagree"):
        list(kernels.by_hand())


def test_a_forgotten_head_is_in_every_dk_and_dv(kernels):
    for _, found in kernels.group_of_two():
        assert abs(found["dk"] - found["dk_wrong"]) > 0.02
        assert abs(found["dv"] - found["dv_wrong"]) > 0.02


def test_a_forgotten_head_that_reaches_dq_stops_the_job(kernels, monkeypatch):
    monkeypatch.setattr(kernels, "ONE_HEAD", ("dq = dq * softmax_scale", "dq = -dq"))
    with pytest.raises(ValueError, match="dq is said to stay right"):
        list(kernels.group_of_two())


def test_text_that_is_not_there_is_refused(kernels):
    with pytest.raises(ValueError, match="0 of them, not one"):
        kernels.backward_with(("no such line", ""))


def test_wrong_constants_are_off_by_what_they_are(kernels):
    times = {
        (c["gradient"], c["k_scaled"], c["last_factor"], c["head_dim"]): v[
            "times_right"
        ]
        for c, v in kernels.constants()
    }
    assert times["dq", True, "ln 2", 64] == pytest.approx(1.0)
    assert times["dq", True, "none", 64] == pytest.approx(math.log2(math.e))
    assert times["dq", True, "scale", 2] == pytest.approx(2**-0.5 / math.log(2))
    assert times["dk", False, "scale twice", 64] == pytest.approx(1 / 8)
    assert times["dk", False, "ln 2", 64] == pytest.approx(8 * math.log(2))


def test_gradients_that_differ_by_more_than_a_factor_are_refused(kernels):
    right = torch.tensor([1.0, 2.0])
    assert kernels._times(2 * right, right) == 2.0
    with pytest.raises(ValueError, match="more than a factor"):
        kernels._times(torch.tensor([2.0, 2.0]), right)


def test_without_dlse_the_halves_have_gradients_that_look_well(kernels):
    rows = [found for _, found in kernels.merged_in_training()]
    for half in (rows[:2], rows[2:]):
        assert sum(found["ds_wrong"] for found in half) == pytest.approx(0, abs=1e-5)
        assert abs(sum(found["ds"] for found in half)) > 1
    assert sum(found["ds"] for found in rows) == pytest.approx(0, abs=1e-5)


def test_one_bad_row_spoils_every_key(kernels):
    rows = {case["mask_fault"]: found for case, found in kernels.bad_rows()}
    assert rows["dq, masked before lse"]["dq_nan"] == 20
    for fault in ("dk and dv, masked before lse", "past the end, an lse of −inf"):
        assert rows[fault]["dk_nan"] == rows[fault]["dv_nan"] == 100


def test_a_fault_without_nan_is_refused(kernels, monkeypatch):
    monkeypatch.setattr(kernels, "MASKS", {"no fault": ()})
    with pytest.raises(ValueError, match="nothing is NaN"):
        list(kernels.bad_rows())


def test_an_empty_row_that_spoils_others_is_refused(kernels, monkeypatch):
    broken = kernels.backward_with(*kernels.MASKS["past the end, an lse of −inf"])
    monkeypatch.setattr(kernels, "backward", broken)
    with pytest.raises(ValueError, match="an empty row has a gradient"):
        list(kernels.bad_rows())
