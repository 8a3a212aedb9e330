"""BPR against its formulas in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from leporid.errors import ConfigError
from leporid.models.bpr import BPR
from leporid.training.sampler import Batch
from tests.models.neural_data import DIM, N_USERS, initial_vectors, small_split


def test_scores_are_dot_products_of_the_initial_vectors() -> None:
    init = initial_vectors()
    model = BPR(dim=DIM, steps=1, freeze_steps=-1, standardize=False, eval_every=0)
    model.fit(small_split(), init=init, device="cpu")
    expected = init.users.vectors @ init.items.vectors.T
    scores = model.score(np.arange(N_USERS, dtype=np.int32))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_the_loss_is_bpr_opt() -> None:
    init = initial_vectors()
    model = BPR(
        dim=DIM, steps=1, freeze_steps=-1, standardize=False, eval_every=0, regularization=0.3
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


def test_a_new_user_with_a_known_history_is_placed_near_its_owner() -> None:
    split = small_split()
    model = BPR(dim=DIM, steps=1, freeze_steps=-1, eval_every=0)
    model.fit(split, init=initial_vectors(), device="cpu")
    known = split.train.csr().toarray()
    sequence = split.train.sequences().of(3)
    common = known @ known[3]
    weight = common / np.maximum(known.sum(1) + known[3].sum() - common, 1)
    rows = model.score(np.arange(N_USERS, dtype=np.int32))
    expected = weight @ rows / weight.sum()
    np.testing.assert_allclose(model.score_histories([sequence])[0], expected, rtol=1e-4)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="regularization"):
        BPR(regularization=-0.1)
    with pytest.raises(ConfigError, match="negatives"):
        BPR(negatives=0)
