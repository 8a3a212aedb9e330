"""`content`: features against scikit-learn's formulas, components against a dense decomposition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import leporid
from leporid.data import IdMap, item_features
from leporid.embeddings import content, initial_embeddings, principal_components
from leporid.embeddings.content import Content
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError
from tests.initializers.helpers import planted

ITEMS = IdMap.from_values([1, 2, 3, 4, 5], "item")


def features(**columns: Any) -> np.ndarray[Any, Any]:
    made = item_features(ITEMS, {"item_id": [1, 2, 3, 4, 5], **columns})
    return np.asarray(made.matrix.toarray())


def test_words_have_the_weights_of_tf_idf() -> None:
    made = features(title=["red red moon", "red sun", "moon sun here", "red moon", "sun moon here"])
    words, n = ["here", "moon", "red", "sun"], 5
    tf = np.array([[0, 1, 2, 0], [0, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 0, 1]], float)
    assert made.shape == (5, len(words))
    weight = np.where(tf > 0, 1 + np.log(np.maximum(tf, 1)), 0)
    weight *= 1 + np.log((1 + n) / (1 + (tf > 0).sum(axis=0)))
    np.testing.assert_allclose(
        made, weight / np.linalg.norm(weight, axis=1, keepdims=True), rtol=1e-6
    )


@pytest.mark.parametrize(
    "genres",
    [
        [["a", "b"], ["b"], ["a"], ["a", "b"], ["b"]],
        ["a|b", "b", "a", "a|b", "b"],
        ["a, b", "b", "a", "A,B", "b"],
    ],
)
def test_categories_come_as_lists_or_with_separators(genres: list[Any]) -> None:
    made = features(genres=genres)
    assert made.shape == (5, 2)
    np.testing.assert_allclose(made[0], made[3])
    np.testing.assert_allclose(made @ made.T, (made @ made.T).T)
    assert made[1] @ made[2] == 0


def test_kinds_are_guessed_and_can_be_named() -> None:
    table = {
        "item_id": [1, 2, 3, 4, 5],
        "year": [1990, 1991, 1990, 1991, 1990],
        "studio": ["x", "y", "x", "y", "x"],
        "title": ["old sun", "new sun", "moon, old", "a new moon", "sun"],
        "place": [[0.0, 1.0]] * 4 + [[1.0, 0.0]],
        "nested": [{"a": 1}] * 5,
    }
    with pytest.warns(LeporidWarning, match="1 columns of no known kind"):
        made = item_features(ITEMS, table)
    assert made.kinds == {
        "year": "number", "studio": "text", "title": "text", "place": "vector",
    }  # fmt: skip
    chosen = item_features(ITEMS, table, columns=["year:categories", "studio:categories"])
    assert chosen.kinds == {"year": "categories", "studio": "categories"}
    assert chosen.matrix.shape == (5, 4)
    with pytest.raises(UnknownNameError, match="'year'"):
        item_features(ITEMS, table, columns=["yaer"])
    with pytest.raises(ConfigError, match="must be one of text"):
        item_features(ITEMS, table, columns=["year:colour"])


def test_numbers_are_standardised_and_gaps_are_average() -> None:
    table = {"item_id": [1, 2, 3, 4, 5], "price": [1.0, 3.0, float("nan"), None, float("inf")]}
    with pytest.warns(LeporidWarning, match="3 missing numbers, 3 items without content"):
        made = item_features(ITEMS, table)
    np.testing.assert_allclose(made.matrix.toarray().ravel(), [-1, 1, 0, 0, 0])


def test_what_is_missing_or_too_much_is_counted() -> None:
    table = {"item_id": [1, 2, 3, 9, 1], "text": ["word word", "word here", "", "other", "word"]}
    with pytest.warns(LeporidWarning) as caught:
        made = item_features(ITEMS, table, columns=["text:text"])
    assert made.left_out == {
        "content rows of no known item": 2,
        "items without content": 3,
    }
    assert "3 items without content" in str(caught[0].message)
    assert made.known.tolist() == [True, True, False, False, False]


def test_tables_without_content_for_the_items_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of the 5 items: its ids are such as 'x'"):
        item_features(ITEMS, {"item_id": ["x"], "title": ["a"]})
    with pytest.raises(DataError, match="no column with content"):
        item_features(ITEMS, {"item_id": [1]})
    with pytest.raises(DataError, match="nothing that two items share"):
        item_features(ITEMS, {"item_id": [1, 2], "title": ["alpha", "beta"]})
    with pytest.raises(DataError, match="no vector without NaN"):
        item_features(ITEMS, {"item_id": [1, 2], "v": [[float("nan")], None]}, columns=["v:vector"])


@pytest.mark.parametrize("name", ["content", "leporid_content"])
def test_settings_without_a_file_about_the_items_are_refused(name: str) -> None:
    says = rf"{name} needs a file about the items: items='items\.parquet'"
    with pytest.raises(ConfigError, match=says):
        initial_embeddings(name, planted(), dim=4)
    with pytest.raises(ConfigError, match=says):
        leporid.train("bpr", leporid.temporal_split(planted()), init=name, progress=False)


@pytest.mark.parametrize("name", [".", "missing.csv"])
def test_a_place_without_a_file_about_the_items_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError):
        initial_embeddings("content", planted(), dim=4, items=name)


@pytest.mark.parametrize("dense", [0, 10**9], ids=["sparse solver", "dense"])
def test_components_are_those_of_the_centred_rows(
    monkeypatch: pytest.MonkeyPatch, dense: int
) -> None:
    monkeypatch.setattr(content, "_DENSE", dense)
    matrix = sparse.random_array((200, 90), density=0.1, rng=np.random.default_rng(3)).tocsr()
    u, s = principal_components(matrix, 5)
    centred = matrix.toarray() - matrix.toarray().mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(s, values[:5], rtol=1e-8)
    np.testing.assert_allclose(np.abs(u), np.abs(left[:, :5]), atol=1e-8)
    assert (u[np.abs(u).argmax(axis=0), np.arange(5)] > 0).all()


def write_blocks(path: Path, train: Any, without: int = 0) -> Path:
    """A table whose genre is the planted community, without the last items."""
    keys = train.items.ids.to_pylist()
    count = len(keys) - without
    genres = [[f"g{n * 3 // len(keys)}", "all"] for n in range(count)]
    pq.write_table(pa.table({"item_id": keys[:count], "genres": genres}), path)
    return path


def test_items_of_one_genre_are_together_and_users_among_theirs(tmp_path: Path) -> None:
    train = planted()
    path = write_blocks(tmp_path / "items.parquet", train, without=4)
    with pytest.warns(LeporidWarning, match="4 items without content"):
        made = Content(dim=8, items=str(path)).fit(train)
    vectors = made.items.vectors
    np.testing.assert_allclose(vectors[0], vectors[19], atol=1e-6)
    assert np.linalg.norm(vectors[0] - vectors[20]) > 0.1
    assert made.items.isolated.tolist() == [False] * 56 + [True] * 4
    assert made.items.provenance["isolated"] == 4
    assert not vectors[:, 3:].any()  # three genres span no more directions
    scores = made.users.vectors @ made.items.standardized().vectors.T
    own = np.arange(60) * 3 // 60
    mean = [[scores[u::3][:, own == b].mean() for b in range(3)] for u in range(3)]
    assert np.argmax(mean, axis=1).tolist() == [0, 1, 2]
    with pytest.warns(LeporidWarning, match="4 items without content"):
        plain = Content(dim=8, items=str(path), whiten=False).fit(train)
    assert plain.items.provenance["standardized"]
    assert plain.items.size == pytest.approx(1, rel=1e-5)


def test_the_cache_knows_the_file_by_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path / "cache"))
    train, path = planted(), tmp_path / "items.parquet"
    write_blocks(path, train)
    first = initial_embeddings("content", train, dim=2, items=str(path))
    again = initial_embeddings("content", train, dim=2, items=str(path))
    table = pq.read_table(path)
    shifted = table["item_id"].to_pylist()[7:] + table["item_id"].to_pylist()[:7]
    pq.write_table(table.set_column(0, "item_id", [shifted]), path)
    changed = initial_embeddings("content", train, dim=2, items=str(path))
    assert first is not None
    assert again is not None
    assert changed is not None
    np.testing.assert_array_equal(first.items.vectors, again.items.vectors)
    assert not np.allclose(first.items.vectors, changed.items.vectors)
