"""Vectors whose products rank as the model does, of every model that has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leporid import models
from leporid.models import Recommender
from leporid.ranking import VectorsUnsupportedError
from leporid.ranking.lists import Scores
from tests.models.neural_data import initial_vectors, small_split

SMALL = {"dim": 4, "steps": 4, "batch_size": 8, "eval_every": 0, "init_scale": 1.0}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("bpr", SMALL),
    ("lightgcn", SMALL),
    ("ngcf", SMALL),
    ("dgcf", {**SMALL, "intents": 2}),
    ("hgn", {**SMALL, "max_history": 3}),
    ("hgn", {**SMALL, "max_history": 3, "item_bias": True}),
    ("sasrec", {**SMALL, "max_history": 5}),
    ("sasrec", {**SMALL, "max_history": 5, "block": "ligr", "heads": 2}),
    ("ials", {"dim": 4, "iterations": 2}),
    ("ials", {"dim": 4, "iterations": 2, "window": 2}),
    ("dlr2", {**SMALL, "inference": "generative"}),
    ("dlr2", {**SMALL, "objective": "softmax", "inference": "generative", "item_bias": True,
              "lr": 0.01}),
    ("dlr2", {**SMALL, **models.get("dlr2").recipes["general"], **SMALL, "profile_items": 4,
              "linear_weight": 0.0, "transitions_weight": 0.0}),
]  # fmt: skip
WITHOUT: list[tuple[str, dict[str, Any]]] = [
    ("ncf", SMALL),
    ("ease", {}),
    ("toppop", {}),
    ("dlr2", {**SMALL, "losses": "discriminative"}),
    ("dlr2", {**SMALL, "ranking_distance": "absolute"}),
]


def fitted(name: str, settings: dict[str, Any]) -> Recommender:
    model = models.get(name)(**settings)
    how = {"init": initial_vectors()} if model.takes_initial_vectors else {}
    return model.fit(small_split(), seed=3, **how)


def assert_same_but_for_a_shift(products: Scores, scores: Scores) -> None:
    shift = (scores - products).mean(axis=1, keepdims=True)
    tolerance = 1e-4 * float(np.ptp(scores, axis=1).min())
    np.testing.assert_allclose(products + shift, scores, atol=tolerance)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_products_are_scores_but_for_a_number_per_person(
    name: str, settings: dict[str, Any]
) -> None:
    model = fitted(name, settings)
    # User 5 has no items at all: iALS then gives popular items, which no vector says.
    users = np.setdiff1d(np.arange(13, dtype=np.int32), [5] if name == "ials" else [])
    known = model.known.sequences().take(users)
    products = model.user_vectors(known, users) @ model.item_vectors().T
    assert_same_but_for_a_shift(products, model.score(users))

    histories = [np.array([4, 1, 7], np.int32), np.array([2], np.int32)]
    strangers = model.user_vectors(type(known).from_rows(histories)) @ model.item_vectors().T
    assert_same_but_for_a_shift(strangers, model.score_histories(histories))


@pytest.mark.parametrize(("name", "settings"), WITHOUT)
def test_other_models_say_that_they_have_no_such_vectors(
    name: str, settings: dict[str, Any]
) -> None:
    model = fitted(name, settings)
    with pytest.raises(VectorsUnsupportedError, match="dot product"):
        model.item_vectors()
    with pytest.raises(VectorsUnsupportedError, match="dot product"):
        model.user_vectors(model.known.sequences(), np.arange(13, dtype=np.int32))


def test_a_model_that_judges_what_it_retrieved_says_so() -> None:
    assert fitted("dlr2", SMALL).vectors_rank == "first stage"
    assert fitted("bpr", SMALL).vectors_rank == "everything"
