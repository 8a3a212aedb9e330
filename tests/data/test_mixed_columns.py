"""Columns of Python values: one kind of value each, and never the end of the process."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

from leporid import load
from leporid.data import IdMap
from leporid.errors import DataError
from tests.data.strategies import external_rows

DAY = np.datetime64("2020-01-01")


_PROGRAM = """
import numpy as np, pandas, polars
from leporid import load
from leporid.data import (IdMap, ItemTable)
from leporid.errors import DataError

def table(ids):
    return ItemTable.load({"item_id": ids, "title": ["x", "y"]})

day = np.datetime64("2020-01-01")
mixed = [
    [day, np.int8(3)],
    np.array([day, np.bool_(True)], dtype=object),
    pandas.Series([day, np.int8(3)], dtype=object),
    pandas.Categorical([day, np.int8(3)]),
    pandas.Series(pandas.Categorical([day, np.int8(3)])),
    polars.Series([day, np.int8(3)], dtype=polars.Object),
    [[day], [np.int8(3)]],
    [{"a": day}, {"a": [np.int8(3)], "b": np.int8(3)}],
    [np.array([day]), np.array([3], "i1")],
]
for column in mixed:
    columns = {"user": ["a", "b"], "item": ["c", "d"], "time": [1, 2]}
    logs = [{**columns, role: column} for role in columns]
    calls = [(load, log) for log in logs]
    for read, source in [*calls, (IdMap.from_values, column), (table, column)]:
        try:
            read(source)
            print("read", column)
        except DataError as error:
            if "convert all of them to one kind" not in str(error):
                print(error)
load({"user": [1, 2], "item": [3, 4], "time": [np.datetime64("NaT"), np.float32(3)]})
print("whole")
"""


def test_a_mixed_column_does_not_end_the_process() -> None:
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "whole\n")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([1, "a"], "numbers and text, such as 1 and 'a'"),
        (["1", 2.5], "text and numbers"),
        ([True, 2], "booleans and numbers"),
        ([date(2020, 1, 1), datetime(2020, 1, 1, 3)], "dates and datetimes"),
        ([date(2020, 1, 1), np.int8(3)], "dates and numbers"),
        ([b"a", "a"], "bytes and text"),
        ([datetime(2020, 1, 1), DAY], "datetimes and NumPy datetimes"),
        ([[1], "a"], "list and text"),
    ],
)
@pytest.mark.parametrize("role", ["user", "item", "time", "rating"])
def test_values_of_two_kinds_are_refused_with_advice(
    values: list[Any], says: str, role: str
) -> None:
    columns = {"user": ["a", "b"], "item": ["c", "d"], "time": [1, 2], "rating": [1, 2]}
    said = f"column '{role}' holds both {says}.*convert all of them to one kind, for example to"
    for column in (values, pandas.Series(values, dtype=object)):
        with pytest.raises(DataError, match=said):
            load({**columns, role: column}, min_rating=0)
    with pytest.raises(DataError, match="user ids must be 64-bit integers or text: both"):
        IdMap.from_values(values, "user")


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, float("nan")],
        ["a", pandas.NA, np.float64("nan")],
        ["a", pandas.NaT, np.datetime64("NaT")],
        [7, None, float("nan")],
        [np.int8(7), pandas.NA, np.float32("nan")],
        [Decimal(7), None, pandas.NaT],
    ],
)
def test_missing_values_stand_in_every_column(values: list[Any]) -> None:
    with pytest.warns(match="2 missing user"):
        data = load({"user": values, "item": [1, 2, 3]})
    assert data.users.ids.to_pylist() == ["a" if values[0] == "a" else 7]


def test_numpy_datetimes_of_any_unit_are_times() -> None:
    times = [DAY, np.datetime64("2020-01-01T00:00:01.5"), None, pandas.NaT, np.datetime64("NaT")]
    with pytest.warns(match="3 missing time"):
        data = load({"user": [1] * 5, "item": [1, 2, 3, 4, 5], "time": times})
    start = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert data.time is not None
    assert data.time.tolist() == [start, start + 1_500_000]
    with pytest.raises(DataError, match="too far from 1970"):
        load({"user": [1], "item": [1], "time": [np.datetime64("300000-01-01")]})


@pytest.mark.parametrize("column", ["ab", {"a": 1, "b": 2}, {1, 2}, b"ab", 5])
def test_what_is_no_column_is_refused(column: object) -> None:
    with pytest.raises(DataError, match="column 'user' cannot be read as one column"):
        load({"user": column, "item": [1, 2]})


@pytest.mark.parametrize("index", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int64()])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_dictionaries_with_any_index(index: pa.DataType, missing: bool) -> None:
    indices = pa.array([1, None if missing else 0, 1], index)
    users = pa.DictionaryArray.from_arrays(indices, pa.array(["b", "a"]))
    data = load(
        {"user": users, "item": [1, 2, 3], "event": users}, event="event", target_events="a"
    )
    expected = [("a", 1), ("a", 3)] if missing else [("a", 1), ("a", 3), ("b", 2)]
    assert [row[:2] for row in external_rows(data)] == expected


def test_polars_categories_are_ids_and_times() -> None:
    columns = {"user": ["b", "a", "b"], "item": ["x", "y", "z"], "time": ["3", "2", "1"]}
    frame = polars.DataFrame(columns, schema=dict.fromkeys(columns, polars.Categorical))
    expected = [("a", "y", 2), ("b", "z", 1), ("b", "x", 3)]
    assert external_rows(load(frame)) == expected
    enumerated = frame.with_columns(polars.col("user").cast(polars.Enum(["b", "a"])))
    assert external_rows(load(enumerated.lazy())) == expected


def test_a_missing_datetime_does_not_hide_a_number_beside_the_others() -> None:
    times = [datetime(2024, 1, 1), pandas.NaT, 5]
    with pytest.raises(DataError, match="column 'time' holds both datetimes and numbers"):
        load({"user": [1, 2, 3], "item": [1, 1, 1], "time": times})
