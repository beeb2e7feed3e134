"""Every rung of the ladder passes the tests of the teaching kernel, and its own.

The tests come from the other files: here `kernel` is each rung in turn.
"""

import pytest
import torch
from accuracy import check
from problems import random_problem
from test_forward import (  # noqa: F401
    test_causal_bound,
    test_causal_is_bottom_right,
    test_empty_rows,
    test_grouped_heads,
    test_lse_is_a_natural_logarithm,
    test_one_query_or_one_key,
    test_rising_maximum,
    test_runs_are_bitwise_equal,
    test_scale_is_a_value,
    test_soaring_maximum,
)
from test_memory import (  # noqa: F401
    NEEDS_GPU,
    test_each_tensor_has_its_own_strides,
    test_non_finite_keys_reach_who_sees_them,
    test_non_finite_query_reaches_its_row_alone,
    test_offsets_beyond_int32,
)

from flashwalk import forward
from flashwalk.hopper import host
from flashwalk.ladder import RUNGS, rung

ON_GPU = torch.cuda.is_available()
if ON_GPU:  # the interpreter is slow
    from test_forward import (  # noqa: F401
        test_any_small_problem,
        test_fp32_is_not_tf32,
        test_group_sizes,
        test_head_dim_is_no_power_of_two,
        test_matches_reference,
        test_tail_keys,
        test_unequal_tiles,
    )
    from test_memory import (  # noqa: F401
        test_a_tensor_beyond_2_to_the_31,
        test_long_sequences,
        test_more_than_65535_heads,
        test_non_finite_value_under_the_mask,
        test_not_contiguous,
    )

IN_POINTERS = ("forward", "base_two", "two_loops", "moving_pointers")
IN_TRITON = (*IN_POINTERS, "descriptors")
ON_SM_90 = ON_GPU and torch.cuda.get_device_capability()[0] == 9


def rungs_that_run_here():
    """All but the first, which has these tests in their own files.

    The interpreter knows no Gluon, and only Hopper has its warpgroup products;
    the TMA is there and in the interpreter.
    """
    if ON_SM_90:
        return list(RUNGS)[1:]
    return list(IN_POINTERS if ON_GPU else IN_TRITON)[1:]


class Rung:
    """A rung as tests call it: skips what it refuses, and may cut its own way."""

    def __init__(self, name):
        self.module = rung(name)
        self.refuses = name not in IN_POINTERS

    def Tile(self, *cut):
        """The tile of a test; None in Gluon, whose tiles are as high as a wgmma."""
        return self.module.Tile(*cut) if self.module.Tile is forward.Tile else None

    def launch(self, q, k, v, *outputs, softmax_scale, **how):
        reason = self.refuses and host.refusal(q, k, v, softmax_scale)
        if reason:
            pytest.skip(reason)
        self.module.launch(q, k, v, *outputs, softmax_scale=softmax_scale, **how)


@pytest.fixture(scope="module", params=rungs_that_run_here())
def kernel(request):
    """Each rung that runs here."""
    return Rung(request.param)


# Lengths at, below and above what a warpgroup, a tile and a block have, and the
# diagonal at the corner of a block and across two.
SEQLENS = [(64, 64), (63, 65), (192, 128), (130, 1000), (1000, 130), (517, 1031)]
if not ON_GPU:
    SEQLENS = [(63, 65), (50, 21)]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 72, 128, 256] if ON_GPU else [72])
@pytest.mark.parametrize("seqlens", SEQLENS, ids=lambda s: f"{s[0]}x{s[1]}")
def test_lengths(kernel, dtype, device, seqlens, head_dim, causal, record_property):
    seqlen_q, seqlen_k = seqlens
    problem = random_problem(
        device,
        dtype,
        nheads=6,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        head_dim=head_dim,
        causal=causal,
    )
    check(kernel, problem).record(record_property)


@NEEDS_GPU
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("slope", [-0.02, 0.002, 0.02, 0.2])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_maximum_drifts(
    kernel, dtype, device, slope, head_dim, causal, record_property
):
    """Scores fall or rise along the keys, by little and by more than 2**8 a block.

    Half of the rows see the opposite: within a warpgroup some must rescale.
    """
    p = random_problem(
        device, dtype, seqlen_q=300, seqlen_k=600, head_dim=head_dim, causal=causal
    )
    p.q[..., 0] = 1.0
    p.q[:, :, ::2, 0] = -1.0
    p.k[..., 0] = slope * torch.arange(600, device=device)
    problem = p._replace(softmax_scale=1.0, q=p.q.clone())
    problem.q[..., 1:] *= head_dim**-0.5
    check(kernel, problem).record(record_property)


def test_rungs_are_in_order_and_are_modules():
    assert next(iter(RUNGS)) == "forward"
    assert list(RUNGS)[-1] == "hopper"
    for name in RUNGS:
        module = rung(name)
        assert module.__name__ == RUNGS[name]
        assert callable(module.launch)
        assert issubclass(module.Tile, tuple)
    with pytest.raises(LookupError, match=r"a rung is one of forward, .* got 'roof'"):
        rung("roof")
