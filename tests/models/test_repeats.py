"""Logs with repeated events: sequences keep them, matrices see a pair once, every model fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import leporid
from leporid import models
from leporid.data import Interactions, Split
from leporid.models import NegativeSampler, Sampler, Sampling, TrainingData
from tests.test_contract import SETTINGS


def events() -> Interactions:
    """31 users who come back to what they had before; 17 items."""
    rng = np.random.default_rng(6)
    rows: list[tuple[int, int]] = []
    for user in range(31):
        own = rng.choice(17, size=6, replace=False)
        rows += [(user, int(item)) for item in rng.choice(own, size=rng.integers(8, 16))]
    user, item = np.array(rows).T
    columns = {"user": user, "item": item, "time": np.arange(len(rows))}
    return leporid.load(columns, duplicates="all")


@pytest.fixture(scope="module")
def split() -> Split:
    return leporid.temporal_split(events())


def test_negatives_are_all_other_items_however_often_a_positive_occurs(split: Split) -> None:
    data = TrainingData.from_interactions(split.train, torch.device("cpu"))
    sampler = NegativeSampler(data)
    users = torch.arange(31)
    draws = torch.Generator().manual_seed(0)
    drawn = sampler.sample(users, 600, draws).numpy()
    positive = split.train.csr().toarray() > 0
    for user in range(31):
        assert set(drawn[user].tolist()) == set(np.flatnonzero(~positive[user]).tolist())
    draw = torch.randint(2**62, (31, 50), generator=draws)
    torch.testing.assert_close(sampler.items(users, draw), sampler.items_on_cpu(users, draw))


def test_windows_hold_every_event(split: Split) -> None:
    data = TrainingData.from_interactions(split.train, torch.device("cpu"))
    sampling = Sampling("windows", length=4, negatives=0, repeat=False)
    sampler = Sampler(data, sampling, batch_size=10_000, seed=0)
    assert sampler.n_examples == len(split.train) - len(np.unique(split.train.user))
    batch = sampler.batch(0)
    assert batch.history is not None
    expected = set()
    for user in range(31):
        items = split.train.sequences().of(user).tolist()
        for end in range(1, len(items)):
            window = items[max(0, end - 4) : end]
            expected.add((user, *[-1] * (4 - len(window)), *window, items[end]))
    found = torch.cat([batch.users[:, None], batch.history, batch.positives[:, None]], dim=1)
    assert {tuple(row) for row in found.tolist()} == expected


@pytest.mark.parametrize("name", SETTINGS)
def test_every_model_ranks_what_people_come_back_to(name: str, split: Split) -> None:
    settings: dict[str, Any] = SETTINGS[name]
    kind, _, recipe = name.partition("-")
    if models.get(kind).takes_initial_vectors:
        settings = {**settings, "init": None, "recipe": None}
        if recipe in models.get(kind).recipes:
            settings["recipe"] = recipe
    model = leporid.train(kind, split, progress=False, **settings)
    users = np.arange(31, dtype=np.int32)
    assert np.isfinite(model.score(users)).all()
    hidden = model.top_k(users, 17).items
    for user in range(31):
        known = set(split.train_valid.sequences().of(user).tolist())
        assert not known & set(hidden[user].tolist())
    table = leporid.evaluate(model, split, at=(5,), include_seen=True)
    assert len(table) == len(np.unique(split.test.user))
    assert table.repeated == 0
