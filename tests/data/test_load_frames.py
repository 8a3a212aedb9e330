from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from scipy import sparse

from leporid import load
from leporid.data import (
    IdMap,
    ItemTable,
    global_time_split,
    leave_last_out,
    random_split,
    temporal_split,
)
from leporid.errors import DataError, LeporidWarning
from tests.data.strategies import external_rows

COLUMNS = {"extra": ["p", "q", "r"], "item_id": [10, 20, 10], "user": [1, 1, 2], "ts": [7, 5, 6]}
EXPECTED = [(1, 20, 5), (1, 10, 7), (2, 10, 6)]


@pytest.mark.parametrize(
    "make", [pandas.DataFrame, polars.DataFrame, polars.LazyFrame, pa.table, pa.record_batch, dict]
)
def test_tables_of_every_kind(make: type) -> None:
    assert external_rows(load(make(COLUMNS))) == EXPECTED


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, dict])
def test_a_split_is_made_of_a_table_as_of_what_is_loaded_from_it(make: type) -> None:
    for split in (temporal_split, random_split, leave_last_out, global_time_split):
        assert split(make(COLUMNS)).digest == split(load(COLUMNS)).digest


def test_interactions_become_a_frame_that_is_read_again() -> None:
    data = load({**COLUMNS, "count": [1.0, 2.0, 3.0]}, weight="count")
    frame = data.to_pandas()
    assert list(frame.columns) == ["user_id", "item_id", "timestamp", "weight"]
    assert frame.values.tolist() == [[1, 20, 5, 2.0], [1, 10, 7, 1.0], [2, 10, 6, 3.0]]
    assert load(frame, weight="weight").digest == data.digest
    assert list(load({"user": ["a"], "item": ["b"]}).to_pandas().columns) == ["user_id", "item_id"]


def test_parquet_file_and_directory(tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    pa_parquet.write_table(table, tmp_path / "whole.parquet")
    assert external_rows(load(tmp_path / "whole.parquet")) == EXPECTED
    folder = tmp_path / "parts"
    folder.mkdir()
    pa_parquet.write_table(table.slice(0, 1), folder / "0.parquet")
    pa_parquet.write_table(table.slice(1), folder / "1.parquet")
    assert external_rows(load(str(folder))) == EXPECTED
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"without \.parquet files"):
        load(tmp_path / "empty")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes((tmp_path / "whole.parquet").read_bytes()[:-30])
    with pytest.raises(DataError, match=r"broken\.parquet"):
        load(broken)


def test_pandas_with_missing_integers_stays_integer() -> None:
    frame = pandas.DataFrame({"user": [1.0, np.nan, 3.0], "item": ["a", "b", None]})
    with pytest.warns(LeporidWarning, match="1 missing item, 1 missing user"):
        data = load(frame)
    assert external_rows(data) == [(1, "a", None)]
    with pytest.raises(DataError, match="fraction"):
        load(pandas.DataFrame({"user": [1.5, 2.0], "item": [1, 2]}))
    with pytest.raises(DataError, match="the item column has type list"):
        load({"user": [1, 2], "item": [[1], [2]]})


def test_categories_strings_and_views() -> None:
    frame = pandas.DataFrame({"user": ["b", "a", "b"], "item": [1, 2, 3]})
    frame["user"] = frame["user"].astype("category")
    assert [row[:2] for row in external_rows(load(frame))] == [("a", 2), ("b", 1), ("b", 3)]
    views = pa.table({"user": pa.array(["b", "a"]).cast(pa.large_string()), "item": [1, 2]})
    assert load(views).users.ids.to_pylist() == ["a", "b"]


def test_unused_columns_of_any_type_do_no_harm() -> None:
    frame = pandas.DataFrame({"user": [1], "item": [2], "odd": [{1, 2}]})
    assert len(load(frame)) == 1


def test_sparse_matrix_positions_are_ids() -> None:
    matrix = sparse.csr_array(
        (np.array([5.0, 0.0, 2.0]), np.array([3, 1, 0]), np.array([0, 2, 2, 3])), shape=(3, 5)
    )
    data = load(matrix)
    assert (data.n_users, data.n_items) == (3, 5)
    assert external_rows(data) == [(0, 3, None), (2, 0, None)]
    assert data.dropped == {"explicit zero": 1}
    assert external_rows(load(matrix, min_rating=3)) == [(0, 3, None)]
    assert load(sparse.coo_matrix(matrix)).digest == data.digest


def test_times_of_every_spelling_keep_their_order() -> None:
    def times(values: object) -> list[int]:
        data = load({"user": [1, 1, 1], "item": [1, 2, 3], "time": values})
        assert data.time is not None
        return data.time.tolist()

    assert times([3, 1, 2]) == [1, 2, 3]
    assert times([3.0, 1.0, 2.0]) == [1, 2, 3]
    assert times([1.5, 1.25, 2.0]) == [1_250_000, 1_500_000, 2_000_000]
    day = 86_400_000_000
    assert times(["1970-01-03", "1970-01-02", "1970-01-01"]) == [0, day, 2 * day]
    mixed = ["1970-01-02T00:00:00Z", "1970-01-02 01:00:00+02:00", "1970-01-01T23:30:00"]
    assert times(mixed) == [day - 3_600_000_000, day - 1_800_000_000, day]
    with_zone = ["1970-01-02 00:00:00 UTC", "1970-01-01 23:00:00.5 GMT", "1970-01-01 22:00:00 UTC"]
    assert times(with_zone) == [day - 7_200_000_000, day - 3_599_500_000, day]
    for days in ([19700103, 19700102, 19700101], ["19700103", "19700102", "19700101"]):
        assert times(days) == [0, day, 2 * day]
    assert times([20240231, 20240229, 20240228]) == [20240228, 20240229, 20240231]
    assert times([20240228, 20240229, 5]) == [5, 20240228, 20240229]
    stamps = [datetime.datetime(1970, 1, n, tzinfo=datetime.UTC) for n in (3, 1, 2)]
    assert times(stamps) == [0, day, 2 * day]
    assert times([datetime.date(1970, 1, n) for n in (3, 1, 2)]) == [0, day, 2 * day]
    nanoseconds = pa.array([3000, 1000, 2999], pa.timestamp("ns"))
    assert times(nanoseconds) == [1, 2, 3]
    with pytest.raises(DataError, match="beyond 64 bits"):
        times([1e300, 1.0, 2.0])
    with pytest.raises(DataError, match="not a time"):
        times([True, False, True])


def test_infinite_times_are_missing() -> None:
    with pytest.warns(LeporidWarning, match="1 missing time"):
        data = load({"user": [1, 2], "item": [1, 2], "time": [np.inf, 3.5]})
    assert external_rows(data) == [(2, 2, 3_500_000)]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([2**62, 1], pa.timestamp("s")),
        pa.array([2**60, 1], pa.timestamp("ms")),
        pa.array([2**31 - 1, 1], pa.int32()).cast(pa.date32()),
    ],
)
def test_times_that_microseconds_cannot_hold_are_refused(times: pa.Array) -> None:
    with pytest.raises(DataError, match="column 'time' holds times beyond 64 bits"):
        load({"user": [1, 1], "item": [1, 2], "time": times})


@pytest.mark.parametrize("values", [[{"a": 1}, None], [[1], [2]], [b"\xff", b"a"]])
@pytest.mark.parametrize("role", ["user", "item", "time", "rating"])
def test_structs_lists_and_bytes_are_no_ids(values: list[object], role: str) -> None:
    columns: dict[str, object] = {"user": [1, 1], "item": [1, 2], "time": [3, 4], "rating": [5, 5]}
    with pytest.raises(DataError, match=r"has type|is no number|is not a time"):
        load({**columns, role: values}, min_rating=1)


def test_other_objects_are_refused_kindly() -> None:
    with pytest.raises(DataError, match="cannot load a list"):
        load([1, 2, 3])
    with pytest.raises(DataError, match=r"no such file: ml-10k .*'ml-1"):
        load("ml-10k")


@pytest.mark.parametrize("make", [pandas.DataFrame, dict])
@pytest.mark.parametrize("role", ["user", "item"])
@pytest.mark.parametrize(
    ("values", "says"),
    [([10**30], "beyond 64 bits: give ids as text"), (["a\ud800"], "replace the lone surrogate")],
)
def test_ids_that_arrow_cannot_hold_are_refused(
    values: list[object], says: str, role: str, make: type
) -> None:
    columns = {"user": [1], "item": [2]} | {role: values}
    source = {name: pandas.Series(column, dtype=object) for name, column in columns.items()}
    with pytest.raises(DataError, match=f"column '{role}' holds .*{says}"):
        load(make(source))
    assert load(make(source | {role: pandas.Series(["z"])}))


@pytest.mark.parametrize("values", [[10**30], ["a\ud800"], [1, "a"], 5])
def test_an_id_map_of_what_are_no_ids_is_refused(values: object) -> None:
    with pytest.raises(DataError, match="user ids must be 64-bit integers or text"):
        IdMap.from_values(values, "user")
    with pytest.raises(DataError):
        ItemTable.load({"item_id": values, "title": ["x"]})


@pytest.mark.parametrize(
    "rows",
    [
        {"user": ["10", "9", "x"], "item": [1, 2, None]},
        {"user": ["10", "9", str(10**30)], "item": [1, 2, None]},
        {"user": ["10", "9", "x"], "item": [1, 2, 3], "rating": [4.0, 4.0, 1.0]},
        {"user": ["10", "9", "07"], "item": [1, 2, 3], "time": [1, 2, None]},
    ],
)
@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_rows_that_are_left_out_do_not_make_the_ids_text(rows: dict[str, list[object]]) -> None:
    least = 3.0 if "rating" in rows else None
    assert load(rows, min_rating=least).users.ids.to_pylist() == [9, 10]
    kept = {name: column[:2] for name, column in rows.items()}
    assert load(kept, min_rating=least).users == load(rows, min_rating=least).users
