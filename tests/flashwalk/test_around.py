"""What runs before and after the Hopper backward, which any machine can run."""

import math

import pytest
import torch

from flashwalk.hopper import around


@pytest.fixture(params=[False, True], ids=["lse", "dlse"])
def rows(request, device):
    """out, do, lse with a row that sees no key, and the gradient of lse or None."""
    torch.manual_seed(0)
    out, do = torch.randn(2, 2, 3, 70, 40, dtype=torch.float16, device=device)
    do = do.transpose(1, 2).contiguous().transpose(1, 2)
    lse = torch.randn(2, 3, 70, device=device)
    lse[1, 2, 0] = -math.inf
    dlse = torch.randn(2, 3, 70, device=device) if request.param else None
    return out, do, lse, dlse


def filled_with_nan(buffers):
    for x in buffers:
        x.fill_(math.nan)
    return buffers


def test_before(rows):
    out, do, lse, dlse = rows
    buffers = filled_with_nan(around.allocate(out, 128, 64))
    recipe = around.prepare_before(out, do, buffers, dlse is not None)
    around.before(recipe, out, do, lse, dlse, buffers)
    delta = (out.float() * do.float()).sum(-1) - (0 if dlse is None else dlse)
    found = buffers.delta.view(2, 3, 128)
    assert torch.allclose(found[..., :70], delta, atol=1e-4)
    in_base_two = buffers.lse.view(2, 3, 128)
    expected = (lse * math.log2(math.e)).masked_fill(lse == -math.inf, math.inf)
    assert torch.allclose(in_base_two[..., :70], expected)
    # Rows past the end weigh nothing, and add nothing.
    assert (in_base_two[..., 70:] == math.inf).all()
    assert not found[..., 70:].any()
    assert not buffers.dq.any()


def test_after_rounds_to_where_dq_lies(device):
    dq = torch.full((2, 70, 3, 40), math.nan, dtype=torch.float16, device=device)
    dq = dq.transpose(1, 2)
    buffers = around.allocate(dq, 128, 64)
    buffers.dq.normal_()
    recipe = around.prepare_after(buffers, dq, 0.25)
    for _ in range(2):
        around.after(recipe, buffers, dq)
    assert torch.equal(dq, (buffers.dq[:, :, :70, :40] * 0.25).half())
