"""Weights of interactions: which rows keep one, and that no step of the way loses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import leporid
from leporid.data import Interactions, Split, inner_validation_split, split_by, write_log
from leporid.errors import DataError, LeporidWarning
from leporid.models import everything

LOG = "user,item,rating,timestamp,plays\n" + "".join(
    f"{u},{i},{1 + (u * i) % 5},{100 * u + 7 * i % 31},{1 + u + 10 * i}\n"
    for u in range(12)
    for i in range(9)
    if (u + 2 * i) % 3
)


def pairs_of(data: Interactions) -> dict[tuple[Any, Any], float]:
    """(external user, external item) -> weight."""
    assert data.weight is not None
    assert data.weight.dtype == np.float32
    users, items = data.users.externals(data.user), data.items.externals(data.item)
    return dict(zip(zip(users, items, strict=True), data.weight.tolist(), strict=True))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path / "log.csv"


def test_every_row_keeps_its_own_weight_through_core_split_and_files(
    log: Path, tmp_path: Path
) -> None:
    plays = {(u, i): 1.0 + u + 10 * i for u in range(12) for i in range(9)}
    data = leporid.load(log, weight="plays").core(5)
    assert len(data) == len(pairs_of(data)) > 60
    for protocol in ("temporal", "random", "leave-last-out", "global-time"):
        split = split_by(data, protocol)
        split.save(tmp_path / protocol)
        loaded = Split.load(tmp_path / protocol)
        again = inner_validation_split(split)
        whole = everything(split).train
        parts = [split.train, split.valid, split.test, loaded.test, again.train, again.test]
        for part in (*parts, split.train_valid, whole):
            assert all(weight == plays[pair] for pair, weight in pairs_of(part).items())
        assert len(whole) == len(data)
        assert loaded.digest == split.digest
    for ending in ("parquet", "csv", "inter"):
        file = write_log(data, tmp_path / f"log.{ending}")
        assert leporid.load(file, weight="weight").digest == data.digest


def test_a_log_without_weights_is_as_before(log: Path) -> None:
    plain, weighted = leporid.load(log), leporid.load(log, weight="rating")
    assert plain.weight is None
    assert plain.digest != weighted.digest
    np.testing.assert_array_equal(plain.item, weighted.item)
    np.testing.assert_array_equal(plain.csr().data, 1)
    np.testing.assert_array_equal(weighted.csr().data, 1)
    assert (plain.csr(weighted=True) != plain.csr()).nnz == 0
    rows, columns = weighted.user, weighted.item
    np.testing.assert_array_equal(weighted.csr(weighted=True)[rows, columns].A1, weighted.weight)


def test_the_weight_may_be_the_rating_and_ratings_filter_too(log: Path, tmp_path: Path) -> None:
    both = leporid.load(log, weight="rating", min_rating=3)
    assert set(pairs_of(both).values()) == {3.0, 4.0, 5.0}
    (tmp_path / "u.data").write_text("1\t5\t4\t881250949\n2\t6\t3\t881250950\n")
    assert pairs_of(leporid.load(tmp_path / "u.data", weight="rating")) == {(1, 5): 4, (2, 6): 3}
    with pytest.raises(DataError, match="two roles have the same column"):
        leporid.load(log, weight="timestamp")
    with pytest.raises(DataError, match=r"has no column 'played'.*did you mean 'plays'"):
        leporid.load(log, weight="played")


def test_rows_without_a_weight_above_zero_are_left_out_and_counted() -> None:
    columns = {"user": [1, 1, 2, 2, 3], "item": [1, 2, 1, 2, 1], "w": [0.5, None, 0.0, -1.0, 1e300]}
    with pytest.warns(LeporidWarning, match="2 missing weight"):
        data = leporid.load(columns, weight="w")
    assert pairs_of(data) == {(1, 1): 0.5}
    assert data.dropped == {"missing weight": 2, "weight of 0 or less": 2}


def test_the_values_of_a_matrix_are_weights_when_asked_for() -> None:
    matrix = sparse.csr_array(np.array([[0, 2.5, 0], [4, 0, 1]]))
    data = leporid.load(matrix, weight="value")
    np.testing.assert_array_equal(data.csr(weighted=True).toarray(), matrix.toarray())
    with pytest.raises(DataError, match="columns found: row, column, value"):
        leporid.load(matrix, weight="rating")


def test_stored_weights_that_cannot_be_are_refused(log: Path) -> None:
    data = leporid.load(log, weight="plays")
    arrays = data.to_stored("known")
    for wrong in (np.nan, 0.0, -2.0):
        arrays["known.weight"] = np.where(np.arange(len(data)) == 3, np.float32(wrong), data.weight)
        with pytest.raises(DataError, match="weights that are not above 0"):
            Interactions.from_stored(arrays, "known", data.users, data.items)
