"""NGCF against a dense evaluation of its formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from leporid.errors import ConfigError
from leporid.models.neural.ngcf import NGCF, _drop_nodes
from tests.models.neural_data import DIM, N_USERS, initial_vectors, small_split
from tests.models.test_graph_layers import dense_normalized

ALL = np.arange(N_USERS, dtype=np.int32)


def fitted(**settings: Any) -> NGCF:
    model = NGCF(
        dim=DIM, steps=1, freeze_steps=-1, standardize=False, init_scale=1.0, eval_every=0,
        batch_size=16, **settings,
    )  # fmt: skip
    return model.fit(small_split(), init=initial_vectors(), device="cpu")


@pytest.mark.parametrize("normalize", [True, False])
def test_scores_are_those_of_the_dense_formula(normalize: bool) -> None:
    model = fitted(layers=(5, 3), normalize_layers=normalize)
    adjacency = dense_normalized(small_split().train.csr())
    init = initial_vectors()
    x = np.vstack([init.users.vectors, init.items.vectors]).astype(np.float64)
    joined = [x]
    net: Any = model.net
    for aggregate, interact in zip(net.aggregate, net.interact, strict=True):
        w1, bias, w2 = (
            p.detach().numpy().astype(np.float64)
            for p in (aggregate.weight, aggregate.bias, interact)
        )
        identity = np.eye(len(adjacency))
        x = (adjacency + identity) @ x @ w1.T + ((adjacency @ x) * x) @ w2.T + bias
        x = np.where(x > 0, x, 0.2 * x)
        length = np.linalg.norm(x, axis=1, keepdims=True)
        joined.append(x / np.maximum(length, 1e-12) if normalize else x)
    users, items = np.split(np.hstack(joined), [N_USERS])
    np.testing.assert_allclose(model.score(ALL), users @ items.T, rtol=1e-4, atol=1e-4)


def test_node_dropout_silences_whole_nodes_and_keeps_the_mean() -> None:
    x = torch.ones(4000, 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        dropped = _drop_nodes(x, 0.25, training=True)
    assert dropped.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert torch.equal(dropped[:, 0], dropped[:, 2])
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.03)
    assert _drop_nodes(x, 0.25, training=False) is x


def test_scoring_has_no_dropout() -> None:
    model = fitted(message_dropout=0.5, node_dropout=0.5)
    before = model.score(ALL)
    model.weights_changed()
    np.testing.assert_array_equal(before, model.score(ALL))


def test_settings_out_of_range_are_refused() -> None:
    for settings in ({"node_dropout": 1.0}, {"message_dropout": -0.1}, {"layers": (4, 0)}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            NGCF(**settings)
