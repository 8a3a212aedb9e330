"""Our dropout against torch's: the same shares, sizes and gradients."""

from __future__ import annotations

import pytest
import torch

from leporid.models.shared.masks import dropout


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
