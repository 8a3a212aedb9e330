"""Rows nothing is known of are exactly zero and counted, whatever the processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leporid import initializers
from leporid.data import leave_last_out
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.embeddings.isolated import with_empty_rows
from leporid.models import train as train_model
from tests.initializers.isolated_rows import BY_CONTENT, SETTINGS, describe_items, fit, sparse_log

CORES = ("Haswell", "SkylakeX", "Zen", "Prescott")


def run(core: str, n_users: int, n_items: int) -> dict[str, dict[str, Any]]:
    """What all initialisers make of a log on such a processor."""
    command = [sys.executable, "-m", "tests.initializers.isolated_rows", str(n_users), str(n_items)]
    done = subprocess.run(
        command,
        env={**os.environ, "OPENBLAS_CORETYPE": core},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def check(found: dict[str, dict[str, Any]]) -> None:
    for name, rows in found.items():
        assert len(rows["unknown"]) > 0, name
        assert set(rows["unknown"]) <= set(rows["empty"]), name
        assert rows["counted"] == len(rows["empty"]), name


def test_every_initializer_but_random_is_asked() -> None:
    assert {*SETTINGS, "random"} == set(initializers.available())


@pytest.mark.parametrize(
    # `make test-portable` runs the others with all tests.
    "core",
    ["Prescott", *(pytest.param(core, marks=pytest.mark.slow) for core in CORES[:-1])],
)
def test_rows_without_interactions_are_zero_on_every_processor(core: str) -> None:
    found = run(core, 60, 50)
    check(found)
    for name in ("svd", "bpr", "node2vec", "graph_bert"):
        for side in ("users", "items"):  # these have a vector for every row with interactions
            assert found[f"{name} {side}"]["empty"] == found[f"{name} {side}"]["unknown"]


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_rows_without_interactions_are_zero_in_a_larger_log(core: str) -> None:
    """Other solvers: sparse ones, Krylov spaces, blocks."""
    check(run(core, 6_000, 5_000))


@pytest.mark.parametrize("landmarks", [20, 0.5])
def test_rows_placed_among_landmarks_are_zero_too(landmarks: float) -> None:
    train = sparse_log(60, 50)
    made = initializers.get("leporid")(
        dim=4, k=30, landmarks=landmarks, item_landmarks=landmarks
    ).fit(train)
    for embedding, rows in ((made.users, train.user), (made.items, train.item)):
        unknown = np.bincount(rows, minlength=embedding.n) == 0
        assert not embedding.vectors[unknown].any()
        assert embedding.provenance["isolated"] == embedding.isolated.sum() >= unknown.sum() > 0


def test_rounding_is_no_vector() -> None:
    """An initialiser may leave rounding in rows with interactions too: its columns miss them."""
    vectors = np.array([[1.0, -2.0], [3e-17, 0.0], [1e-6, 0.0], [0.0, 0.0]], np.float32)
    made = with_empty_rows(Embedding(vectors), np.array([True, True, True, False]))
    assert made.isolated.tolist() == [False, True, False, True]
    assert made.provenance["isolated"] == 2
    np.testing.assert_array_equal(made.vectors[[0, 2]], vectors[[0, 2]])
    assert vectors[1, 0] > 0  # those handed in are as they were


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_trained_model_draws_a_row_of_its_own_for_each(name: str, tmp_path: Path) -> None:
    """Users without training interactions get no step: their rows are those drawn."""
    parts = leave_last_out(sparse_log(60, 50))
    described = describe_items(parts.train, tmp_path / "items.csv")
    init: InitialEmbeddings = fit(name, parts.train, tmp_path / "items.csv")
    model: Any = train_model("bpr", parts, init, dim=8, steps=1, progress=False, device="cpu")
    users, items = (
        np.bincount(rows, minlength=n) == 0
        for rows, n in ((parts.train.user, 60), (parts.train.item, 50))
    )
    if name in BY_CONTENT:
        items &= ~described
    counted = model.training_summary()["isolated"]
    for side, unknown in (("users", users), ("items", items)):
        empty = getattr(init, side).isolated
        assert (unknown <= empty).all()
        assert counted[side] == empty.sum() > 0
    rows = model.tables[0].weight.detach().numpy()[users]
    assert len(np.unique(rows, axis=0)) == len(rows) == users.sum() > 1
    assert (np.abs(rows).max(axis=1) > 0).all()
    assert np.abs(rows).max() < 0.1
