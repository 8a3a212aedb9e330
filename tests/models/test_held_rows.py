"""Rows that nobody trains keep their initial embedding, then follow their neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leporid import models
from leporid.data import synthesize
from leporid.embeddings import InitialEmbeddings, initial_embeddings, standardize
from leporid.errors import LeporidWarning
from leporid.models import everything, train
from tests.models.neural_data import DIM, initial_vectors, small_split

QUICK: dict[str, Any] = {"dim": DIM, "steps": 12, "eval_every": 4, "lr": 0.05, "weight_decay": 0.1}
QUICK |= {"seed": 3, "device": "cpu", "progress": False, "optimizer": "adamw"}
QUICK |= {"recipe": None, "schedule": "constant"}
NEURAL = [name for name in models.available() if models.get(name).takes_initial_vectors]


@pytest.mark.parametrize("name", ["sasrec", "bpr"])
def test_an_untrained_row_follows_those_it_started_nearest_to(name: str) -> None:
    init, whole = initial_vectors(), small_split()
    split = replace(
        whole,
        train=whole.train.select(whole.train.item != 4),
        valid=whole.valid.select(whole.valid.item != 4),
    )
    sides = [replace(side, provenance={"content": "abc"}) for _, side, _ in init.sides()]
    init = InitialEmbeddings(*sides)
    model: Any = train(name, split, init, **QUICK)
    items = model.tables[-1].weight.detach().numpy()
    start = standardize(init.items.vectors)
    cosine = start @ start[4] / np.linalg.norm(start, axis=1) / np.linalg.norm(start[4])
    near = [row for row in np.flatnonzero(cosine > 0) if row != 4]
    mean = cosine[near] @ items[near]
    length = np.median(np.linalg.norm(np.delete(items, 4, axis=0), axis=1))
    np.testing.assert_allclose(items[4], mean / np.linalg.norm(mean) * length, rtol=1e-4)
    init.items.vectors[4] = 0
    with pytest.warns(LeporidWarning, match="1 of the items"):
        drawn: Any = train(name, split, init, **QUICK)
    assert drawn.tables[-1].weight.detach().numpy()[4].any()


def test_untrained_rows_get_a_quarter_of_their_share() -> None:
    data = synthesize(80, 120, 2400, seed=9)
    split, cold = everything(data), np.arange(0, 120, 10)
    split = replace(split, train=split.train.select(~np.isin(split.train.item, cold)))
    vectors = initial_embeddings("svd", split.train, dim=8, cache=False)
    sides = [replace(side, provenance={"content": "abc"}) for _, side, _ in vectors.sides()]
    sides[1].vectors[cold] = sides[1].vectors[cold + 1]
    init = InitialEmbeddings(*sides, vectors.user_ids, vectors.item_ids)
    how: dict[str, Any] = {"dim": 8, "steps": 150, "eval_every": 0, "recipe": None, "lr": 0.02}
    model: Any = train("bpr", split, init, seed=1, device="cpu", progress=False, **how)
    assert model.cold_items.items.tolist() == cold.tolist()

    def places() -> float:
        top = model.top_k(np.arange(80, dtype=np.int32), 10).items
        return float(np.isin(top, cold).mean())

    assert abs(places() - 0.1 / 4) < 0.008
    model.cold_items = None
    assert places() > 0.13, "without it they take more"
