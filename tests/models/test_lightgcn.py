"""LightGCN against a dense evaluation of its formula."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.errors import ConfigError
from leporid.models.neural.lightgcn import LightGCN
from tests.models.neural_data import DIM, N_USERS, initial_vectors, small_split
from tests.models.test_graph_layers import dense_normalized


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_scores_are_those_of_the_mean_of_the_layers(layers: int) -> None:
    split, init = small_split(), initial_vectors()
    model = LightGCN(
        dim=DIM,
        layers=layers,
        steps=1,
        freeze_steps=-1,
        standardize=False,
        init_scale=1.0,
        eval_every=0,
    )
    model.fit(split, init=init, device="cpu")
    adjacency = dense_normalized(split.train.csr())
    layer = np.vstack([init.users.vectors, init.items.vectors]).astype(np.float64)
    total = layer.copy()
    for _ in range(layers):
        layer = adjacency @ layer
        total += layer
    users, items = np.split(total / (layers + 1), [N_USERS])
    scores = model.score(np.arange(N_USERS, dtype=np.int32))
    np.testing.assert_allclose(scores, users @ items.T, rtol=1e-4, atol=1e-5)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="layers"):
        LightGCN(layers=-1)
    with pytest.raises(ConfigError, match="regularization"):
        LightGCN(regularization=-1.0)
