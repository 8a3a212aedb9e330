"""HGN's gates against an example worked by hand, and its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from leporid.errors import ConfigError
from leporid.models import Batch, BuildContext
from leporid.models.neural.hgn import HGN, HGNConfig, HGNNetwork
from tests.models.neural_data import DIM, N_ITEMS, N_USERS, initial_vectors, small_split

ALL = np.arange(N_USERS, dtype=np.int32)


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def test_the_gates_on_an_example_worked_by_hand() -> None:
    """D = 2, L = 2; every weight is small enough to follow with a pencil."""
    net = HGNNetwork(BuildContext(small_split().train, dim=2), HGNConfig(max_history=2))
    with torch.no_grad():
        # W_1 swaps the two features, b = (0, 1), W_2 doubles the user's first feature.
        net.feature_items.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        net.feature_items.bias.copy_(torch.tensor([0.0, 1.0]))
        net.feature_user.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
        # w_3 = (1, -1); the user's second feature counts for the newest item only.
        net.instance_items.weight.copy_(torch.tensor([[1.0, -1.0]]))
        net.instance_user.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 3.0]]))
        user = torch.tensor([[0.5, -1.0]])
        recent = torch.tensor([[[1.0, 2.0], [-1.0, 4.0]]])
        found = net(user, recent)[0].tolist()
    old = (1 * sigmoid(2 + 1), 2 * sigmoid(1 + 1))
    new = (-1 * sigmoid(4 + 1), 4 * sigmoid(-1 + 1))
    gate_old = sigmoid(old[0] - old[1] + 0)
    gate_new = sigmoid(new[0] - new[1] - 3)
    pooled = [(gate_old * old[d] + gate_new * new[d]) / 2 for d in (0, 1)]
    items = (1 - 1, 2 + 4)
    expected = [0.5 + pooled[0] + items[0], -1 + pooled[1] + items[1]]
    assert found == pytest.approx(expected, rel=1e-5)


def fitted(**settings: Any) -> HGN:
    model = HGN(
        dim=DIM, steps=1, eval_every=0, batch_size=16, max_history=3, targets=2,
        freeze_steps=-1, standardize=False, init_scale=1.0, **settings,
    )  # fmt: skip
    return model.fit(small_split(), init=initial_vectors(), device="cpu")


def test_the_loss_pairs_each_target_with_its_negative() -> None:
    model = fitted(regularization=0.0)
    batch = Batch(
        torch.tensor([0, 7]),
        torch.tensor([[1, 2], [3, 8]]),
        torch.tensor([[4, 5], [6, 7]]),
        torch.tensor([[0, 3, 6], [1, 1, 2]]),
    )
    net: Any = model.net
    with torch.no_grad():
        state = net(net.users(batch.users), net.items(batch.history))
        score = state @ net.outputs.weight.T
    expected = np.mean(
        [
            -np.log(sigmoid(float(score[b, good] - score[b, bad])))
            for b in (0, 1)
            for good, bad in zip(batch.positives[b], batch.negatives[b], strict=True)
        ]
    )
    assert model.loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_the_authors_pool_by_the_gates_and_have_a_bias() -> None:
    """The formula of their program, in numpy, for one user and a window of three."""
    model = fitted(pooling="gates", item_bias=True)
    net: Any = model.net
    with torch.no_grad():
        net.bias.copy_(torch.linspace(-1, 1, N_ITEMS))
    model.weights_changed()
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}
    history = model.known.sequences().of(2)[-3:]
    user, recent = weights["users.weight"][2], weights["items.weight"][history]
    assert len(history) == 3
    feature = recent @ weights["feature_items.weight"].T + weights["feature_items.bias"]
    feature = feature + user @ weights["feature_user.weight"].T
    gated = recent / (1 + np.exp(-feature))
    instance = (
        gated @ weights["instance_items.weight"][0] + user @ weights["instance_user.weight"].T
    )
    gates = 1 / (1 + np.exp(-instance))
    pooled = (gates[:, None] * gated).sum(axis=0) / gates.sum()
    expected = (user + pooled + recent.sum(axis=0)) @ weights["outputs.weight"].T + weights["bias"]
    np.testing.assert_allclose(model.score(ALL)[2], expected, rtol=1e-4, atol=1e-5)


def test_the_bias_is_trained_by_the_loss() -> None:
    model = fitted(item_bias=True, regularization=0.0)
    batch = Batch(
        torch.tensor([0]), torch.tensor([[1, 2]]), torch.tensor([[4, 5]]), torch.tensor([[0, 3, 6]])
    )
    net: Any = model.net
    model.loss(batch).backward()
    assert (net.bias.grad[[1, 2]] < 0).all()
    assert (net.bias.grad[[4, 5]] > 0).all()
    assert not net.bias.grad[[0, 3, 6]].any()


def test_scores_follow_the_history() -> None:
    model = fitted()
    sequences = small_split().train_valid.sequences()
    both = model.score(ALL)
    late = model.score(ALL, history=small_split().train.sequences())
    users_with_news = [u for u in range(N_USERS) if u != 5]
    assert (np.abs(both - late).max(axis=1)[users_with_news] > 1e-6).all()
    assert len(sequences.of(5)) == 0
    np.testing.assert_allclose(both[5], late[5], rtol=1e-5, atol=1e-7)


def test_a_user_without_history_is_scored_by_the_own_row_alone() -> None:
    model = fitted()
    init = initial_vectors()
    expected = init.users.vectors[5] @ init.items.vectors.T
    np.testing.assert_allclose(model.score(ALL)[5], expected, rtol=1e-4)


def test_new_histories_read_only_the_window() -> None:
    model = fitted()
    a, b = (np.array(h, dtype=np.int32) for h in ([0, 4, 2, 7], [4, 2, 7, 0]))
    assert model.score_histories([a, b]).shape == (2, N_ITEMS)
    assert not np.allclose(*model.score_histories([a, b]))


def test_settings_out_of_range_are_refused() -> None:
    for name in ("max_history", "targets"):
        with pytest.raises(ConfigError, match=name):
            HGN(**{name: 0})
