"""Arguments of the wrong type: one sentence that names the function, the argument and what fits."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest

from leporid.data import (
    Duplicates,
    IdMap,
    Interactions,
    cold_items_split,
    delimited,
    files,
    global_time_split,
    leave_last_out,
    load,
    loading,
    random_split,
    read_ids,
    store_interactions,
    synthesize,
    temporal_split,
    write_log,
)
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError, article
from leporid.foundation import checks_arguments

LOG = {
    "user": [1, 1, 1, 2, 2, 2],
    "item": [1, 2, 3, 1, 2, 4],
    "time": [1, 2, 3, 4, 5, 6],
    "rating": [1, 2, 3, 4, 5, 6],
}


class Nothing:
    """A value of no type that any function takes."""

    def __repr__(self) -> str:
        return "<nothing>"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("min_rating", "3", "a number or None, not '3'"),
        ("user", 1.5, "text, a whole number or None, not 1.5"),
        ("user", ["user"], r"text, a whole number or None, not a list of 1"),
        ("user", True, "text, a whole number or None, not True"),
        ("encoding", None, "text, not None"),
        ("separator", 1, "text or None, not 1"),
        ("header", 0, "True or False or None, not 0"),
        ("weights", [("a", 1)], r"a mapping such as a dict or None, not a list of 1"),
        ("target_events", 5, r"text, a list such as \['purchase'\] or None, not 5"),
        ("duplicates", None, "'first' or 'sum' or 'all', not None"),
        ("order", pandas.Series([1]), "'file' or None, not"),
    ],
)
def test_a_wrong_argument_of_load_is_one_sentence(name: str, value: object, expected: str) -> None:
    wrong: Any = {name: value}
    with pytest.raises(ConfigError, match=f"^load: {name} must be {expected}") as caught:
        load(LOG, **wrong)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=f"^load: {name} must be "):
        load("a file that is not there", **wrong)


FUNCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (load, (LOG,)),
    (store_interactions, ("no-file", "no-folder", "1GB")),
    (write_log, (load(LOG), "no-file")),
    (read_ids, ("no-file",)),
    (synthesize, ()),
    (load(LOG).core, (1,)),
    (temporal_split, (LOG,)),
    (random_split, (LOG,)),
    (leave_last_out, (LOG,)),
    (global_time_split, (LOG,)),
    (cold_items_split, (LOG,)),
    (temporal_split(LOG).known, ("test",)),
    (temporal_split(LOG).part, ("test",)),
    (temporal_split(LOG).targets, ("test",)),
]


@pytest.mark.parametrize(
    ("function", "given"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", "given")
)
def test_no_argument_of_the_wrong_type_is_a_raw_error(
    function: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    signature = inspect.signature(function)
    known = signature.bind(*given).arguments
    for name in signature.parameters:
        says = r"cannot load a Nothing" if name in ("source", "data") else f"{name} must be "
        if function is write_log or function is store_interactions:
            says = f"{name} must be "
        with pytest.raises((ConfigError, DataError), match=says):
            function(**{**known, name: Nothing()})


def test_numbers_of_numpy_are_numbers() -> None:
    data = load(LOG, user=np.int64(0), item=np.str_("item"), min_rating=np.float32(2))  # type: ignore[arg-type]
    assert len(data) == 5
    assert len(data.core(np.int8(1))) == 5  # type: ignore[arg-type]
    split = random_split(data, np.float64(0.5), 0, np.uint8(3))  # type: ignore[arg-type]
    assert split.digest == random_split(data, 0.5, 0.0, 3).digest
    assert len(load(LOG, progress=np.bool_(False), target_events=None)) == 6  # type: ignore[arg-type]
    many = {**LOG, "event": list("abcabc")}
    for kinds in (["a"], {"a"}, np.array(["a"]), pandas.Index(["a"])):
        assert len(load(many, event="event", target_events=kinds).target_events) == 2


def test_unknown_names_are_answered_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="unknown duplicates 'al': did you mean 'all'"):
        load(LOG, duplicates="al")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown part 'tset': did you mean 'test'"):
        temporal_split(LOG).part("tset")  # type: ignore[arg-type]


def test_an_argument_that_does_not_exist_is_named() -> None:
    with pytest.raises(TypeError, match="load has no argument 'usr': did you mean 'user'"):
        load(LOG, usr="user")  # type: ignore[call-arg]


def test_a_checked_function_is_described_as_it_is_written() -> None:
    @checks_arguments()
    def twice(number: float, how: Duplicates = "all") -> float:
        """Two of it."""
        return 2 * number

    assert twice(1) == 2
    assert str(inspect.signature(twice)).startswith("(number: ")
    assert twice.__doc__ == "Two of it."


@pytest.mark.parametrize("shares", [{"share": float("nan")}, {"seed": -1}, {"train": 2.0}])
def test_numbers_out_of_range_are_refused(shares: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"the share|seed must be"):
        cold_items_split(load(LOG), **{"share": 0.5, **shares})


def test_warnings_point_at_the_line_that_calls() -> None:
    columns: dict[str, list[Any]] = {**LOG, "item": [1, 2, 3, 1, 2, None]}
    calls: list[Callable[[], object]] = [
        lambda: load(columns),
        lambda: load({**LOG, "time": ["1", "2", "3", "4", "5", "x"]}),
        lambda: load({"user": [1, 1, 2, 2, 3, 4, 5], "item": [1, 2, 1, 2, 5, 6, 7]}).core(2),
        lambda: leave_last_out(load({"user": [1, 1], "item": [1, 2]})),
    ]
    for call in calls:
        with pytest.warns(LeporidWarning) as caught:
            call()
        assert [Path(each.filename) for each in caught] == [Path(__file__)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 9 failed")])
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "frame", "matrix", "policies"])
def test_memory_that_runs_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, stream: bool
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise error

    path = tmp_path / name
    if path.suffix:
        write_log(load(LOG), path)
    source: Any = path
    if name == "a.parquet":
        monkeypatch.setattr(files.pa_parquet.ParquetFile, "read", fail)
        monkeypatch.setattr(files.pa_parquet.ParquetFile, "iter_batches", fail)
    elif name == "a.csv":
        monkeypatch.setattr(delimited.pa_csv, "read_csv", fail)
        monkeypatch.setattr(delimited.pa_csv, "open_csv", fail)
    elif name == "policies":
        source = LOG
        monkeypatch.setattr(loading, "to_interactions", fail)
    elif name == "frame":
        source = {**LOG, "user": _Failing(error)}
    else:
        source = _Failing(error)
    streamed = partial(store_interactions, path, tmp_path / "scratch", "100GB")
    read = streamed if stream and path.suffix else partial(load, source)
    with pytest.raises(DataError, match=r"^the memory of this process ran out while reading "):
        read()


class _Failing:
    """A column, or a sparse matrix, for which there is no memory."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __iter__(self) -> Any:
        raise self._error

    tocoo = __iter__


@pytest.mark.parametrize(
    ("word", "expected"),
    [("user", "a user"), ("item", "an item"), ("int", "an int"), ("uint8", "a uint8")],
)
def test_words_have_their_article(word: str, expected: str) -> None:
    assert article(word) == expected


def test_messages_use_the_article() -> None:
    with pytest.raises(DataError, match="an item id is a number with a fraction"):
        load({"user": [1], "item": [1.5]})
    with pytest.raises(DataError, match="an item id is missing"):
        IdMap.from_values([None], "item")
    with pytest.raises(DataError, match="cannot load an int:"):
        load(5)
    assert isinstance(load(LOG), Interactions)
