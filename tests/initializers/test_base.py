"""`InitialEmbeddings` on disk, and what every initialiser refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leporid import initializers
from leporid.data import IdMap
from leporid.embeddings import Embedding, InitialEmbeddings, InitializerConfig, column_signs
from leporid.embeddings.random import Random
from leporid.embeddings.svd import SVD
from leporid.embeddings.vectors import padded
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError
from leporid.foundation import read_arrays, write_arrays
from tests.initializers.helpers import planted


@pytest.mark.parametrize("string_items", [False, True])
def test_save_and_load_keep_vectors_ids_and_provenance(tmp_path: Path, string_items: bool) -> None:
    made = SVD(dim=6, seed=2).fit(planted(string_items=string_items))
    back = InitialEmbeddings.load(made.save(tmp_path / "e.safetensors"))
    for a, b in ((made.users, back.users), (made.items, back.items)):
        np.testing.assert_array_equal(a.vectors, b.vectors)
        assert dict(a.provenance) == dict(b.provenance)
    assert back.user_ids == made.user_ids
    assert back.item_ids == made.item_ids


def test_eigenvalues_survive(tmp_path: Path) -> None:
    values = np.array([0.9, 0.1])
    side = Embedding(np.ones((3, 2), np.float32), values)
    other = Embedding(np.ones((4, 2), np.float32))
    back = InitialEmbeddings.load(InitialEmbeddings(side, other).save(tmp_path / "e"))
    assert back.users.eigenvalues is not None
    np.testing.assert_array_equal(back.users.eigenvalues, values)
    assert back.items.eigenvalues is None
    assert back.user_ids is None


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    arrays, _ = read_arrays(SVD(dim=3).fit(planted()).save(tmp_path / "e"))
    write_arrays(tmp_path / "e", arrays, {"format": "leporid.embeddings"})
    with pytest.raises(DataError, match=r"'leporid\.embeddings', this release reads .*\.3: embed"):
        InitialEmbeddings.load(tmp_path / "e")


def test_ids_for_another_number_of_rows_are_refused(tmp_path: Path) -> None:
    arrays, _ = read_arrays(SVD(dim=3).fit(planted()).save(tmp_path / "e"))
    arrays["users.ids"] = arrays["users.ids"][1:]
    write_arrays(tmp_path / "e", arrays, {})
    with pytest.raises(DataError, match="90 user vectors but 89 ids"):
        InitialEmbeddings.load(tmp_path / "e")


def test_missing_columns_are_zero_and_signs_make_the_largest_entry_positive() -> None:
    vectors = np.array([[1.0, -3.0], [-2.0, 1.0], [0.5, 2.0]])
    np.testing.assert_array_equal(
        padded(vectors, 3), np.column_stack([vectors, np.zeros(3)]).astype(np.float32)
    )
    np.testing.assert_array_equal(column_signs(vectors), [-1.0, -1.0])
    np.testing.assert_array_equal(column_signs(-vectors), [1.0, 1.0])


def test_a_file_without_embeddings_is_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x", {"users": np.zeros((2, 2), np.float32)})
    with pytest.raises(DataError, match="no matrix of floats named 'items'"):
        InitialEmbeddings.load(tmp_path / "x")
    with pytest.raises(DataError, match="no such file"):
        InitialEmbeddings.load(tmp_path / "absent")


def test_wrong_settings_and_names() -> None:
    with pytest.raises(ConfigError, match="did you mean 'dim'"):
        SVD(dims=3)
    with pytest.raises(ConfigError, match="at least 1"):
        SVD(dim=0)
    with pytest.raises(ConfigError, match="takes a RandomConfig"):
        Random(InitializerConfig())
    with pytest.raises(UnknownNameError, match="did you mean 'leporid'"):
        initializers.get("leporidd")


def test_empty_training_data_is_refused() -> None:
    train = planted()
    with pytest.raises(DataError, match="empty"):
        SVD().fit(train.select(np.arange(0)))


def test_vectors_go_to_rows_by_id_and_the_missing_ones_are_counted() -> None:
    users, items = IdMap.from_values([1, 2, 3, 4], "user"), IdMap.from_values(["a", "b"], "item")
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    made = InitialEmbeddings(Embedding(rows), Embedding(rows[:2]), users, items)
    same = made.aligned(users, items)
    assert same.users.vectors is rows
    text = IdMap.from_values(["3", "1"], "user")
    np.testing.assert_array_equal(made.aligned(text, items).users.vectors, rows[[0, 2]])
    target = IdMap.from_values([0, 2, 4, 9], "user")
    with pytest.warns(LeporidWarning, match=r"2 of 4 users have no initial vector .*first is 0"):
        part = made.aligned(target, items, seed=1)
    np.testing.assert_array_equal(part.users.vectors[[1, 2]], rows[[1, 3]])
    assert np.abs(part.users.vectors[[0, 3]] - rows[[1, 3]].mean(axis=0)).max() < 0.1
    with pytest.raises(DataError, match="none of the 2 items of the training data has a vector"):
        made.aligned(users, IdMap.from_values(["x", "y"], "item"))
    bare = InitialEmbeddings(Embedding(rows), Embedding(rows))
    assert bare.aligned(users, items).users.vectors is rows
