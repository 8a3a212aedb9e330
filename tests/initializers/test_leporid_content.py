"""`leporid_content`: its edges and rows against the formulas, all other rows against `leporid`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from leporid.data import IdMap, Interactions, item_features
from leporid.embeddings import content_edges, nearest_by_content
from leporid.embeddings.leporid import LeporidInitializer
from leporid.embeddings.leporid_content import LEPORIDContent
from leporid.errors import ConfigError, LeporidWarning, NotFittedError
from leporid.graph import knn_graph
from tests.initializers.helpers import make_interactions

N, COLD = 60, (3, 23, 43)
"""Items, a third in each community, and the ones nobody touches."""


def log() -> Interactions:
    rng = np.random.default_rng(2)
    own = np.arange(90)[:, None] % 3 == np.arange(N)[None, :] * 3 // N
    dense = rng.random((90, N)) < np.where(own, 0.4, 0.02)
    dense[:, COLD] = False
    return make_interactions(dense)


def table(train: Interactions) -> dict[str, Any]:
    keys = train.items.ids.to_pylist()
    return {"item_id": keys, "genres": [[f"g{n * 3 // N}", f"s{n % 7}"] for n in range(N)]}


@pytest.fixture
def items(tmp_path: Path) -> str:
    path = tmp_path / "items.parquet"
    pq.write_table(pa.table(table(log())), path)
    return str(path)


def test_neighbours_are_the_largest_cosines_and_ties_go_to_the_popular() -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((40, 9)) * (rng.random((40, 9)) < 0.4)
    dense[5] = 0
    dense[7] = dense[8] = dense[9]
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    counts = rng.integers(0, 9, 40)
    counts[7:10] = 1, 5, 1
    rows = np.array([9, 0, 5, 31])
    found = nearest_by_content(sparse.csr_array(dense), rows, 6, counts).toarray()
    for row, values in zip(rows, found, strict=True):
        cosines = dense[row] @ dense.T
        cosines[row] = 0
        best = sorted(
            np.flatnonzero(cosines > 0), key=lambda j: (-round(cosines[j], 5), -counts[j])
        )
        assert set(np.flatnonzero(values)) == set(best[:6])
        np.testing.assert_allclose(values[best[:6]], cosines[best[:6]], rtol=1e-6)
    nearest = nearest_by_content(sparse.csr_array(dense), np.array([9]), 1, counts)
    assert nearest.indices.tolist() == [8]


def test_content_counts_less_the_more_is_known() -> None:
    features = sparse.csr_array(np.eye(4)[[0, 0, 1, 1]])
    edges = content_edges(
        features, np.array([0, 5, 15, 0]), 8.0, 2, gamma=0.5, min_interactions=10.0
    )
    np.testing.assert_allclose(edges.sum(axis=1), [4, 2, 0, 4])
    assert content_edges(features, np.ones(4, int), 8.0, 2, 1, 1, np.array([], int)).shape == (0, 4)


@pytest.mark.parametrize("min_interactions", [1.0, 14.0])
def test_rows_with_evidence_are_those_of_leporid_and_the_others_the_formula(
    items: str, min_interactions: float
) -> None:
    train = log()
    with pytest.warns(LeporidWarning):
        plain = LeporidInitializer(dim=6, k=20).fit(train)
    made = LEPORIDContent(
        dim=6, k=20, items=items, content_k=5, gamma=0.7, min_interactions=min_interactions
    )
    made = made.fit(train)
    counts = np.bincount(train.item, minlength=N)
    thin = counts < min_interactions
    assert thin.sum() == len(COLD) if min_interactions == 1 else 20 < thin.sum() < 50
    np.testing.assert_array_equal(made.users.vectors, plain.users.vectors)
    np.testing.assert_array_equal(made.items.vectors[~thin], plain.items.vectors[~thin])

    jaccard = knn_graph(train.csr().T.tocsr(), k=20).csr().toarray().astype(float)
    degrees = jaccard.sum(axis=1)
    features = item_features(train.items, table(train)).matrix
    d_mean = degrees[degrees > 0].mean()
    edges = content_edges(
        features, counts, d_mean, 5, 0.7, min_interactions, np.arange(N), degrees > 0
    ).toarray()
    # Neighbours by content share a genre or the second label, and have users.
    genre, other = np.arange(N) * 3 // N, np.arange(N) % 7
    assert ((genre[:, None] == genre) | (other[:, None] == other))[edges > 0].all()
    assert not edges[:, list(COLD)].any()
    weights = (jaccard + edges)[thin]
    regular = 0.5 * degrees + 0.5 * degrees.max()
    own = 0.5 * weights.sum(axis=1) + 0.5 * degrees.max()
    assert plain.items.eigenvalues is not None
    expected = weights / np.sqrt(np.outer(own, regular)) @ plain.items.vectors
    np.testing.assert_allclose(
        made.items.vectors[thin], expected / plain.items.eigenvalues, atol=1e-5
    )


def test_items_without_users_lie_with_their_genre(items: str) -> None:
    train = log()
    with pytest.warns(LeporidWarning):
        plain = LeporidInitializer(dim=3, k=20).fit(train).items
    assert not plain.vectors[list(COLD)].any()
    made = LEPORIDContent(dim=3, k=20, items=items)
    vectors = made.fit(train).items.standardized().vectors
    genre = np.arange(N) * 3 // N
    centres = np.array(
        [vectors[(genre == g) & ~np.isin(np.arange(N), COLD)].mean(0) for g in range(3)]
    )
    distance = np.linalg.norm(vectors[list(COLD)][:, None] - centres, axis=2)
    assert distance.argmin(axis=1).tolist() == [0, 1, 2]


def test_a_new_item_is_extended_by_its_content_alone(items: str) -> None:
    train, made = log(), LEPORIDContent(dim=3, k=20, items=items)
    with pytest.raises(NotFittedError):
        made.extend(IdMap.from_values([9999], "item"))
    fitted = made.fit(train).items.vectors
    new = IdMap.from_values([9998, 9999], "item")
    extended = made.extend(new, {"item_id": [9999, 9998], "genres": [["g2", "s1"], ["g0", "s1"]]})
    genre = np.arange(N) * 3 // N
    centres = np.array([fitted[genre == g].mean(axis=0) for g in range(3)])
    cosine = extended @ centres.T / np.linalg.norm(centres, axis=1)
    assert cosine.argmax(axis=1).tolist() == [0, 2]
    # The twin of an item nobody touched lies where that one lies.
    one = IdMap.from_values([9998], "item")
    table = {"item_id": [9998], "genres": [["g0", f"s{COLD[0] % 7}"]]}
    twin = made.extend(one, table)[0]
    near = fitted[COLD[0]]
    assert twin @ near > 0.9 * np.linalg.norm(twin) * np.linalg.norm(near)


def test_without_weight_on_content_it_is_leporid(items: str) -> None:
    train = log()
    with pytest.warns(LeporidWarning):
        plain = LeporidInitializer(dim=4, k=20).fit(train).items.vectors
    made = LEPORIDContent(dim=4, k=20, items=items, gamma=0.0).fit(train).items.vectors
    np.testing.assert_array_equal(made, plain)


def test_what_it_cannot_do_is_refused(items: str) -> None:
    with pytest.raises(ConfigError, match="item_landmarks"):
        LEPORIDContent(items=items, item_landmarks=10)
    made = LEPORIDContent(dim=3, items=items)
    made.cluster = "somewhere"
    with pytest.raises(ConfigError, match="cluster"):
        made.fit(log())
