"""A log streamed to disk holds what `load` holds, whatever its ids, blocks and rubbish."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from leporid import load
from leporid.data import store_interactions, transpose
from leporid.data import stored as stored_module
from leporid.errors import ConfigError, DataError, LeporidWarning

PLENTY = "100GB"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, so that every seam between two is tried."""
    monkeypatch.setattr(stored_module, "MOST_ROWS", 7)
    monkeypatch.setattr(stored_module, "FEWEST_ROWS", 1)


def write(folder: Any, columns: dict[str, Any], parts: int = 3) -> Any:
    table = pa.table(columns)
    folder.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, table.num_rows, parts + 1).astype(int)
    for part in range(parts):
        rows = table.slice(edges[part], edges[part + 1] - edges[part])
        pq.write_table(rows, folder / f"part-{part}.parquet", row_group_size=5)
    return folder


def assert_same(made: Any, expected: Any) -> None:
    matrix = expected.csr()
    np.testing.assert_array_equal(made.indptr, matrix.indptr)
    np.testing.assert_array_equal(made.items_of, matrix.indices)
    assert made.users == expected.users
    assert made.items == expected.items
    assert dict(made.dropped) == dict(expected.dropped)


values = {
    "integers": st.integers(-3, 12),
    "numbers as text": st.sampled_from(["1", "2", " 3", "3", "17", "200"]),
    "text": st.sampled_from(["a", "bb", " a", "c", "", "10"]),
    "mostly integers as text": st.sampled_from(["1", "2", "9", "10", "17", "-3", "x"]),
    "with gaps": st.one_of(st.none(), st.integers(0, 9)),
    "floats": st.one_of(st.none(), st.sampled_from([1.0, 2.0, 30.0, float("nan")])),
}


@settings(deadline=None, max_examples=60)
@given(data=st.data(), kind=st.sampled_from(sorted(values)), core=st.sampled_from([0, 0, 1, 2, 3]))
def test_same_as_load(tmp_path_factory: Any, data: Any, kind: str, core: int) -> None:
    rows = data.draw(
        st.lists(
            st.tuples(values[kind], st.integers(0, 9), st.integers(0, 50)), min_size=1, max_size=60
        )
    )
    columns = {
        "user": [row[0] for row in rows],
        "item": [f"i{row[1]}" for row in rows],
        "time": [row[2] for row in rows],
        "rating": [row[2] % 5 for row in rows],
    }
    least = data.draw(st.sampled_from([None, 2.0]))
    folder = tmp_path_factory.mktemp("log")
    source = write(folder / "parts", columns)

    def in_memory() -> Any:
        made = load(source, min_rating=least)
        return made.core(core) if core else made

    def streamed() -> Any:
        return store_interactions(source, folder / "scratch", PLENTY, core=core, min_rating=least)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeporidWarning)
        try:
            expected = in_memory()
        except DataError as error:
            with pytest.raises(DataError, match=re.escape(str(error))):
                streamed()
            return
        made = streamed()
    assert_same(made, expected)
    flipped, users = transpose(
        made.indptr, made.items_of, made.n_items, made.folder, made.block_rows
    )
    turned = expected.csr().T.tocsr()
    turned.sort_indices()
    np.testing.assert_array_equal(flipped, turned.indptr)
    np.testing.assert_array_equal(users, turned.indices)


def test_missing_values_are_counted_in_one_warning(tmp_path: Any) -> None:
    columns = {"user": [1, None, 2, 2], "item": ["a", "b", None, "c"], "time": [1, 2, 3, None]}
    source = write(tmp_path / "log", columns)
    with pytest.warns(LeporidWarning, match="left out 3 of 4 rows") as caught:
        made = store_interactions(source, tmp_path / "scratch", PLENTY)
    assert len(caught) == 1
    assert len(made) == 1


def test_files_that_disagree_about_a_type_are_read_as_text(tmp_path: Any) -> None:
    parts = ({"user": [1, 2], "item": ["a", "b"]}, {"user": ["2", "x"], "item": ["b", "a"]})
    for number, columns in enumerate(parts):
        write(tmp_path / "log" / str(number), columns, parts=1)
    made = store_interactions(tmp_path / "log", tmp_path / "scratch", PLENTY)
    assert made.users.ids.to_pylist() == ["1", "2", "x"]
    assert made.dropped == {"duplicate pair": 1}
    np.testing.assert_array_equal(made.csr().toarray(), [[1, 0], [0, 1], [1, 0]])


def test_a_file_without_a_column_of_the_others_is_refused(tmp_path: Any) -> None:
    (tmp_path / "log").mkdir()
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "log" / "a.parquet")
    pq.write_table(pa.table({"user": [1], "film": [2]}), tmp_path / "log" / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet has no column 'item', as .*a\.parquet has"):
        store_interactions(tmp_path / "log", tmp_path / "stored", "100GB")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_one_error(tmp_path: Any) -> None:
    source = write(tmp_path / "log", {"user": list(range(40)), "item": [1] * 40})
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "items.by-row").symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"could not write .*scratch: No space left on device"):
        store_interactions(source, tmp_path / "scratch", PLENTY)


def test_what_cannot_be_streamed_says_why(tmp_path: Any) -> None:
    with pytest.raises(DataError, match="no such file"):
        store_interactions(tmp_path / "none", tmp_path / "s", PLENTY)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"without \.parquet files"):
        store_interactions(tmp_path / "empty", tmp_path / "s", PLENTY)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="not a whole parquet file"):
        store_interactions(tmp_path / "broken.parquet", tmp_path / "s", PLENTY)
    source = write(tmp_path / "log", {"user": [1, 2], "item": [3, 4]})
    with pytest.raises(ConfigError, match="below what Python and its libraries take"):
        store_interactions(source, tmp_path / "s", "1MB")
    with pytest.raises(ConfigError, match="an amount such as 2GB"):
        store_interactions(source, tmp_path / "s", "much")
    with pytest.raises(DataError, match=r"2-core .* is empty"):
        store_interactions(source, tmp_path / "s", PLENTY, core=2)
