"""No array of a saved model, however wrong, raises an exception that is not ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leporid
from leporid import models
from leporid.embeddings import Leporid
from leporid.models import Recommender
from tests.attack.tamper_arrays import sweep, use_model
from tests.attack.tamper_artifacts import estimator_says
from tests.test_contract import SETTINGS, fit, make_split

FAST = ("blend", "gfcf", "ials", "itemknn")
VARIANTS: dict[str, dict[str, Any]] = {
    "turbocf": {"filter": "second_order"},
    "ease": {"max_items": 5},
}
"""Settings by which a model has other arrays: dense for sparse, sparse for dense."""


def save(model: Recommender, folder: Path) -> Path:
    return model.save(folder / "model")


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=() if key in FAST else pytest.mark.slow) for key in SETTINGS]
)
def test_each_array_of_each_model_is_refused_or_of_use(key: str, tmp_path: Path) -> None:
    # Ids and interactions are read alike for all models.
    prefix = "" if key == "itemknn" else "model."
    assert sweep(save(fit(key, make_split()), tmp_path), tmp_path, use_model, prefix) == {}


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
@pytest.mark.parametrize("name", VARIANTS)
def test_dense_and_sparse_weights_are_checked_alike(name: str, tmp_path: Path) -> None:
    model = models.get(name)(**VARIANTS[name]).fit(make_split())
    assert sweep(save(model, tmp_path), tmp_path, partial(use_model, mapped=True), "model.") == {}


@pytest.mark.slow
def test_the_arrays_of_a_grown_model_are_refused_or_of_use(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    log = {"user": rng.integers(0, 12, 200), "item": rng.integers(0, 15, 200), "time": range(200)}
    split = leporid.temporal_split(leporid.load({k: list(v) for k, v in log.items()}, weight=None))
    model: Any = leporid.train("bpr", split, init="random", dim=4, steps=3, progress=False)
    table = {"item_id": list(range(20)), "genre": [f"g{n % 3}" for n in range(20)]}
    path = save(model.extend(items=table, cold_item_share=1.0), tmp_path)
    assert sweep(path, tmp_path, use_model) == {}


def test_the_arrays_of_an_estimator_are_refused_or_of_use(tmp_path: Path) -> None:
    train = make_split().train
    path = tmp_path / "estimator"
    Leporid(dim=3, k=4, device="cpu").fit(train.csr()).save(path)
    assert sweep(path, tmp_path, estimator_says) == {}
