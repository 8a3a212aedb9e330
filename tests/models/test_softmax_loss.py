"""`softmax_loss` against torch's cross-entropy and its gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from leporid.models.neural import settings as training_config
from leporid.models.neural import softmax_loss as module


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("at_once", [7, 1 << 20])
def test_loss_and_gradients_are_those_of_cross_entropy(monkeypatch, smoothing, at_once):
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", at_once)
    torch.manual_seed(0)
    states, items = torch.randn(11, 5) * 3, torch.randn(6, 5)
    bias, positives = torch.randn(6), torch.randint(6, (11,))
    results = []
    for closed in (True, False):
        inputs = [tensor.clone().requires_grad_() for tensor in (states, items, bias)]
        if closed:
            loss = module.softmax_loss(inputs[0], inputs[1], positives, inputs[2], smoothing)
        else:
            scores = inputs[0] @ inputs[1].T + inputs[2]
            loss = functional.cross_entropy(scores, positives, label_smoothing=smoothing)
        (2 * loss).backward()
        results.append([loss.detach(), *(tensor.grad for tensor in inputs)])
    for ours, torchs in zip(*results, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-6)


def test_a_positive_that_has_no_chance_has_a_finite_loss():
    states, items = torch.tensor([[300.0]]), torch.tensor([[1.0], [-1.0]])
    assert module.softmax_loss(states, items, torch.tensor([1])).item() == pytest.approx(600.0)


def test_frozen_items_get_no_gradient():
    states, items = torch.randn(3, 2, requires_grad=True), torch.randn(4, 2)
    module.softmax_loss(states, items, torch.tensor([0, 1, 3])).backward()
    assert states.grad is not None
    assert items.grad is None


def test_products_in_bfloat16_leave_the_loss_and_its_gradients_close() -> None:
    """Under autocast on a CPU; 8 bits of each factor give about two digits of the gradient."""
    generator = torch.Generator().manual_seed(3)
    states, items = (torch.randn(n, 16, generator=generator) for n in (40, 300))
    bias, positives = 0.1 * torch.randn(300, generator=generator), torch.arange(40) * 7
    found = []
    for narrow in (False, True):
        inputs = [part.clone().requires_grad_() for part in (states, items, bias)]
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            loss = module.softmax_loss(inputs[0], inputs[1], positives, inputs[2], 0.2)
        assert loss.dtype == torch.float32
        loss.backward()
        found.append([loss.detach(), *(part.grad for part in inputs)])
    assert not torch.equal(found[0][1], found[1][1]), "the products were not narrowed"
    for wide, narrow in zip(*found, strict=True):
        assert (wide - narrow).norm() < 0.02 * wide.norm()


@pytest.mark.parametrize("can", [False, True])
def test_a_cpu_trains_in_bfloat16_only_if_asked_and_able(
    monkeypatch: pytest.MonkeyPatch, can: bool
) -> None:
    monkeypatch.setattr(training_config, "has_bfloat16", lambda: can)
    for precision, expected in {"auto": False, "bf16": can, "fp32": False}.items():
        with training_config.mixed_precision(precision, torch.device("cpu")):
            assert torch.is_autocast_enabled("cpu") == expected
