"""The measures against hand-made embeddings whose answers are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from leporid import initializers
from leporid.data import IdMap, synthesize, temporal_split
from leporid.diagnostics import inspect_embeddings, movement, summarize
from leporid.diagnostics.inspection import nearest
from leporid.errors import DataError
from leporid.evaluation import probe
from leporid.spectral import Embedding, standardize


def test_summary_of_known_vectors() -> None:
    rng = np.random.default_rng(0)
    # Two directions with equal spread, a third without any: effective rank two.
    vectors = np.zeros((400, 3), np.float32)
    vectors[:, :2] = rng.standard_normal((400, 2))
    vectors[7] = 0
    found = summarize(Embedding(vectors))
    assert found["isolated"] == 1
    assert found["effective rank"] == pytest.approx(2.0, abs=0.1)
    centred = vectors - vectors.mean(axis=0)
    expected = np.linalg.svd(centred, compute_uv=False)
    np.testing.assert_allclose(found["singular values"], expected, atol=1e-3)
    assert found["norm quantiles"][0] == 0.0
    with_values = summarize(Embedding(vectors, np.array([0.9, 0.5, 0.1])))
    assert with_values["eigenvalues"] == [0.9, 0.5, 0.1]
    assert "singular values" not in with_values


def test_nearest_is_by_cosine_of_standardised_vectors() -> None:
    vectors = np.random.default_rng(1).standard_normal((30, 5)).astype(np.float32) * [1, 9, 1, 1, 1]
    ready = standardize(vectors.astype(np.float32)).astype(float)
    cosine = [
        ready[4] @ r / np.linalg.norm(r) / np.linalg.norm(ready[4]) if i != 4 else -2
        for i, r in enumerate(ready)
    ]
    found = nearest(vectors.astype(np.float32), 4, 3)
    assert [i for i, _ in found] == list(np.argsort(cosine)[::-1][:3])
    assert found[0][1] == pytest.approx(max(cosine), abs=1e-5)


def test_movement_separates_tail_and_head() -> None:
    rng = np.random.default_rng(3)
    start = Embedding(rng.standard_normal((40, 6)).astype(np.float32) + 5)
    degrees = np.arange(40)[::-1]
    after = standardize(start.vectors, 0.3)
    after[:10] += 1.0  # the ten rows with the most interactions
    moved = movement(start, Embedding(after), degrees, scale=0.3)
    assert [g["rows"] for g in moved.groups] == [10, 10, 10, 10]
    assert moved.groups[0]["moved"] == pytest.approx(0.0, abs=1e-5)
    assert moved.groups[3]["moved"] > 1.0
    still = movement(start, Embedding(standardize(start.vectors, 0.3)), degrees)
    assert still.factor == pytest.approx(0.3, rel=1e-4)
    assert still.distance.max() < 1e-4
    with pytest.raises(DataError, match="not of one model"):
        movement(start, Embedding(after[:5]))


def test_ids_are_matched_whatever_their_type() -> None:
    data = synthesize(20, 12, 120, seed=1)
    start = initializers.initial_embeddings("random", data, dim=4)
    users, items = (IdMap(ids.ids.cast(pa.string()), ids.kind) for ids in (data.users, data.items))
    named = replace(start, user_ids=users, item_ids=items)
    moved = replace(start, users=Embedding(start.users.vectors + data.csr() @ start.items.vectors))
    found, expected = (
        inspect_embeddings(vectors, train=data, after=replace(moved, user_ids=None, item_ids=None))
        for vectors in (named, start)
    )
    for side in ("users", "items"):
        assert found.movements[side].groups == expected.movements[side].groups
    strange = IdMap.from_values([f"x{n:02d}" for n in range(12)], "item")
    with pytest.raises(DataError, match="none of the 12 items of the embeddings occurs"):
        inspect_embeddings(replace(named, item_ids=strange), train=data)


def test_the_probe_of_a_split_is_that_of_leporid_probe() -> None:
    split = temporal_split(synthesize(60, 40, 900, seed=2))
    vectors = initializers.initial_embeddings("svd", split.train, dim=8)
    found = inspect_embeddings(vectors, split=split)
    assert found.to_dict()["probe"] == probe(vectors, split).rows()
    assert [row["vectors of"] for row in found.to_dict()["probe"]] == ["items", "users", "both"]
    assert inspect_embeddings(vectors).to_dict()["probe"] == []
