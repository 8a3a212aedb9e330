"""NeuMF against its formula with concatenated inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from leporid.errors import ConfigError
from leporid.models import Batch
from leporid.models.neural import ncf
from leporid.models.neural.ncf import NCF
from tests.models.neural_data import DIM, N_ITEMS, N_USERS, initial_vectors, small_split

ALL = np.arange(N_USERS, dtype=np.int32)


def fitted(**settings: Any) -> NCF:
    model = NCF(dim=DIM, steps=3, eval_every=0, batch_size=16, layers=(6, 3), lr=0.05, **settings)
    return model.fit(small_split(), init=initial_vectors(), device="cpu")


def dense_scores(model: NCF) -> np.ndarray:
    """The formula pair by pair: h . [p * q; MLP([p'; q'])]."""
    net: Any = model.net
    value = {k: v.detach().numpy().astype(np.float64) for k, v in net.state_dict().items()}
    first = np.hstack([value["mlp_user.weight"], value["mlp_item.weight"]])
    out = np.zeros((N_USERS, N_ITEMS))
    for u in range(N_USERS):
        for i in range(N_ITEMS):
            product = value["gmf_users.weight"][u] * value["gmf_items.weight"][i]
            joined = np.concatenate([value["mlp_users.weight"][u], value["mlp_items.weight"][i]])
            hidden = np.maximum(first @ joined + value["mlp_user.bias"], 0)
            hidden = np.maximum(value["mlp.0.weight"] @ hidden + value["mlp.0.bias"], 0)
            h = np.concatenate([value["gmf_output"], value["mlp_output.weight"][0]])
            out[u, i] = h @ np.concatenate([product, hidden]) + value["mlp_output.bias"][0]
    return out


def test_scores_are_the_formula_with_joined_inputs() -> None:
    model = fitted()
    np.testing.assert_allclose(model.score(ALL), dense_scores(model), rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_log_loss_of_positives_and_negatives() -> None:
    model = fitted()
    logits = dense_scores(model)
    batch = Batch(torch.tensor([2, 9]), torch.tensor([1, 5]), torch.tensor([[0, 3], [8, 8]]))
    chance = 1 / (1 + np.exp(-logits))
    terms = [-np.log(chance[2, 1]), -np.log(chance[9, 5])]
    terms += [-np.log(1 - chance[u, i]) for u, i in ((2, 0), (2, 3), (9, 8), (9, 8))]
    assert model.loss(batch).item() == pytest.approx(np.mean(terms), rel=1e-4)


def test_both_towers_hold_the_initial_vectors() -> None:
    init = initial_vectors()
    model = NCF(dim=DIM, steps=1, eval_every=0, freeze_steps=-1, standardize=False, init_scale=1.0)
    net: Any = model.fit(small_split(), init=init, device="cpu").net
    for table in (net.gmf_users, net.mlp_users):
        np.testing.assert_array_equal(table.weight.detach().numpy(), init.users.vectors)
    for table in (net.gmf_items, net.mlp_items):
        np.testing.assert_array_equal(table.weight.detach().numpy(), init.items.vectors)


def test_scoring_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    whole = model.score(ALL)
    monkeypatch.setattr(ncf, "_PAIRS", 2 * N_ITEMS + 1)
    np.testing.assert_allclose(model.score(ALL), whole, rtol=1e-5, atol=1e-6)


def test_settings_out_of_range_are_refused() -> None:
    for settings in ({"layers": ()}, {"negatives": 0}, {"dropout": 1.0}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            NCF(**settings)
