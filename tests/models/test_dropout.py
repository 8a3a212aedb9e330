"""Our dropout against torch's: the same shares, sizes and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from leporid.models.neural.layers import causal_attention, dropout


@pytest.mark.parametrize("share", [0.3, 0.5, 0.95])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_is_zero_and_the_mean_stays(share: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(400, 500, dtype=dtype, requires_grad=True)
    y = dropout(x, share)
    assert y.dtype == dtype
    assert (y == 0).float().mean().item() == pytest.approx(share, abs=0.01)
    kept = y[y != 0].float()
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - share)), rtol=1e-2, atol=0)
    y.float().sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, y.detach())


def test_entries_that_share_a_random_number_are_independent() -> None:
    torch.manual_seed(0)
    zero = (dropout(torch.ones(50_001, 3), 0.4) == 0).float().flatten()
    for distance in range(1, 9):
        both = (zero[:-distance] * zero[distance:]).mean().item()
        assert both == pytest.approx(0.16, abs=0.005)


def test_nothing_is_dropped_outside_training_or_with_a_share_of_zero() -> None:
    x = torch.randn(5, 4)
    assert torch.equal(dropout(x, 0.5, training=False), x)
    assert torch.equal(dropout(x, 0.0), x)


def test_the_default_generator_decides() -> None:
    x = torch.ones(50, 40)
    torch.manual_seed(3)
    first = dropout(x, 0.5)
    assert not torch.equal(dropout(x, 0.5), first)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5), first)


def test_rows_attend_to_themselves_and_those_before() -> None:
    """With so little dropout that no weight is dropped, it is torch's own attention."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 7, 5, requires_grad=True).unbind()
    ours = causal_attention(query, key, value, 1e-9)
    theirs = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(
        torch.autograd.grad(ours.square().sum(), [query, key, value], retain_graph=True),
        torch.autograd.grad(theirs.square().sum(), [query, key, value]),
    )


def test_attention_drops_weights_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 1, 6, 4) for _ in range(3))
    many = [part.expand(40_000, 1, 6, 4) for part in (query, key, value)]
    dropped = causal_attention(*many, 0.3)
    whole = causal_attention(query, key, value, 0.3, training=False)
    torch.testing.assert_close(dropped.mean(0), whole[0], atol=0.02, rtol=0)
    # The first row attends to itself alone: all of it, or nothing.
    share = (dropped[:, 0, 0] == 0).all(dim=1).float().mean()
    assert abs(float(share) - 0.3) < 0.01
