"""BPR against its formulas in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from leporid.data import IdMap, Interactions, Split
from leporid.errors import ConfigError
from leporid.models import Batch
from leporid.models.neural.bpr import BPR
from tests.models.neural_data import DIM, N_USERS, initial_vectors, small_split


def test_scores_are_dot_products_of_the_initial_vectors() -> None:
    init = initial_vectors()
    model = BPR(dim=DIM, steps=1, freeze_steps=-1, standardize=False, init_scale=1.0, eval_every=0)
    model.fit(small_split(), init=init, device="cpu")
    expected = init.users.vectors @ init.items.vectors.T
    scores = model.score(np.arange(N_USERS, dtype=np.int32))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_the_loss_is_bpr_opt() -> None:
    init = initial_vectors()
    model = BPR(
        dim=DIM,
        steps=1,
        freeze_steps=-1,
        standardize=False,
        init_scale=1.0,
        eval_every=0,
        regularization=0.3,
    )
    model.fit(small_split(), init=init, device="cpu")
    users, items = init.users.vectors, init.items.vectors
    triples = [(0, 3, 8), (7, 2, 1), (12, 0, 4)]
    u, i, j = torch.tensor(triples).T
    expected = 0.0
    for a, b, c in triples:
        x = users[a] @ items[b] - users[a] @ items[c]
        lengths = sum(float(v @ v) for v in (users[a], items[b], items[c]))
        expected += -np.log(1 / (1 + np.exp(-x))) + 0.3 / 2 * lengths
    loss = model.loss(Batch(u, i, j[:, None])).item()
    assert loss == pytest.approx(expected / 3, rel=1e-5)


def test_a_new_user_is_placed_by_similar_users() -> None:
    """Users in two camps that share no item: a new history belongs to one of them."""
    user = np.repeat(np.arange(20), 4)
    item = np.concatenate([(u % 2) * 6 + (u // 2 + np.arange(4)) % 6 for u in range(20)])
    users, items = IdMap.range(20, "user"), IdMap.range(12, "item")
    log = Interactions.from_arrays(user, item, np.arange(80), users, items)
    empty = log.select(np.zeros(80, dtype=bool))
    model = BPR(dim=DIM, steps=150, lr=0.05, eval_every=0, batch_size=80)
    model.fit(Split(log, empty, empty, "camps"), seed=0, device="cpu")
    first, second = model.score_histories(
        [np.array([1, 4], dtype=np.int32), np.array([11, 8, 7], dtype=np.int32)]
    )
    assert first[:6].min() > first[6:].max()
    assert second[6:].min() > second[:6].max()


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="regularization"):
        BPR(regularization=-0.1)
    with pytest.raises(ConfigError, match="negatives"):
        BPR(negatives=0)
