"""`init_scale`: auto goes by size, numbers and None by factor; rows without a vector are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leporid import models
from leporid.embeddings import Embedding, InitialEmbeddings, standardize
from leporid.errors import ConfigError, LeporidWarning
from leporid.models import NeuralRecommender, train
from tests.models.neural_data import DIM, initial_vectors, small_split

STILL: dict[str, Any] = {"dim": DIM, "steps": 1, "freeze_steps": -1, "eval_every": 0}
NEURAL = [name for name in models.available() if models.get(name).takes_initial_vectors]


def tables(init: InitialEmbeddings, name: str = "bpr", **settings: Any) -> list[Any]:
    still = {"recipe": None, "device": "cpu", "progress": False, **STILL}
    model: Any = train(name, small_split(), init, seed=3, **still, **settings)
    return [table.weight.detach().numpy() for table in model.tables]


def times(init: InitialEmbeddings, factor: float) -> InitialEmbeddings:
    return InitialEmbeddings(
        *(Embedding(side.vectors * np.float32(factor)) for _, side, _ in init.sides())
    )


@pytest.mark.parametrize("name", NEURAL)
def test_auto_gives_every_table_the_size_of_the_model(name: str) -> None:
    made: Any = models.get(name)()
    assert isinstance(made, NeuralRecommender)
    assert made.config.init_scale == "auto"
    init = initial_vectors()
    for table in tables(init, name):
        side = init.users if len(table) == init.users.n else init.items
        np.testing.assert_allclose(table, standardize(side.vectors, made.init_size), rtol=1e-5)


@pytest.mark.parametrize("standardized", [True, False])
def test_auto_does_not_depend_on_the_norms_or_on_empty_columns(standardized: bool) -> None:
    init = initial_vectors()
    for start in (init, times(init, 1000.0), times(init, 1e-3)):
        for table in tables(start, standardize=standardized):
            assert np.sqrt(np.mean(table**2)) == pytest.approx(0.03, rel=1e-4)
    for _, side, _ in init.sides():
        side.vectors[:, 1:] = 0.0
    for table in tables(init, standardize=standardized):
        assert np.sqrt(np.mean(table**2)) == pytest.approx(0.03, rel=1e-4)


def test_a_number_multiplies_the_z_scores() -> None:
    init = initial_vectors()
    users, items = tables(init, init_scale=0.3)
    np.testing.assert_array_equal(users, standardize(init.users.vectors, 0.3))
    np.testing.assert_array_equal(items, standardize(init.items.vectors, 0.3))
    with pytest.raises(ConfigError, match="init_scale"):
        tables(init, init_scale="automatic")
    with pytest.raises(ConfigError, match="init_scale must be"):
        tables(init, init_scale=None)


def test_random_vectors_are_used_as_drawn() -> None:
    init = initial_vectors()
    init = InitialEmbeddings(init.users, Embedding(init.items.vectors, None, {"method": "random"}))
    np.testing.assert_array_equal(tables(init)[1], init.items.vectors)


@pytest.mark.parametrize("name", ["bpr", "ncf", "sasrec"])
def test_rows_without_a_vector_start_small_and_random_and_are_counted(name: str) -> None:
    init, empty = initial_vectors(), [2, 7]
    init.items.vectors[empty] = 0.0
    sides = "2 of the items"
    if name != "sasrec":
        init.users.vectors[5] = 0.0
        sides = "1 of the users, 2 of the items"
    with pytest.warns(LeporidWarning, match=f"random numbers: {sides}"):
        first = tables(init, name)
    with pytest.warns(LeporidWarning):
        again = tables(init, name)
    for table, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(table, same)
        rows = empty if len(table) == init.items.n else [5]
        assert (np.abs(table[rows]) < 0.06).all()
        assert np.unique(table[rows]).size == len(rows) * DIM
        others = np.delete(table, rows, axis=0)
        size = {"bpr": 0.03, "ncf": 0.01, "sasrec": 0.03}[name]
        assert np.sqrt(np.mean(others**2)) == pytest.approx(size, rel=1e-3)


def test_the_record_says_what_a_run_started_from() -> None:
    with pytest.warns(LeporidWarning, match="1 of the users"):
        model: Any = train("bpr", small_split(), "svd", device="cpu", progress=False, **STILL)
    summary = model.training_summary()
    assert summary["start"]["method"] == "svd"
    assert summary["start_size"] == pytest.approx([0.03, 0.03], rel=0.1)
    assert summary["isolated"] == {"users": 1}
