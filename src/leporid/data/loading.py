"""`load`: any log of interactions, from anywhere, as `Interactions`."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from leporid.data.arrays import AnyArray
from leporid.data.columns import (
    USUAL_NAMES,
    RawTable,
    ReadOptions,
    find_columns,
    position_of,
)
from leporid.data.datasets import DATASETS, fetch
from leporid.data.event_kinds import EventKinds
from leporid.data.files import in_words, is_address, is_split, located, matching
from leporid.data.frames import converted, frame_columns
from leporid.data.interactions import Duplicates, Interactions
from leporid.data.log_files import read_log, reading_log
from leporid.data.policies import to_interactions
from leporid.errors import ConfigError, DataError, article, closest
from leporid.foundation import checks_arguments, say


class _Entries(Protocol):
    """The entries of a sparse matrix."""

    shape: tuple[int, int]
    row: AnyArray
    col: AnyArray
    data: AnyArray


@runtime_checkable
class _SparseMatrix(Protocol):
    """A sparse matrix of scipy, of any format."""

    def tocoo(self) -> _Entries: ...


@checks_arguments(example="['purchase']")
def load(  # noqa: PLR0913 (options are spelled out)
    source: object,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    time: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
    weight: str | int | None = None,
    event: str | int | None = None,
    weights: Mapping[str, float] | None = None,
    target_events: str | Collection[str] | None = None,
    duplicates: Duplicates = "first",
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    order: Literal["file"] | None = None,
    progress: bool = True,
) -> Interactions:
    """Read an interaction log; says on stderr, and in `.source`, which columns were guessed.

    Parameters
    ----------
    source : path, list of paths, pattern, data set name, frame, mapping or sparse matrix
        A delimited text file, JSON lines (each also compressed), a RecBole `.inter` file, a
        parquet file, a directory of such files as Spark writes it, each also as s3://bucket/key;
        a list of them, or a pattern such as 'log-*.csv', read as one log; 'ml-100k', 'ml-1m',
        'ml-20m', 'steam' or 'anime' (a path of that name wins); a pandas or polars frame (also
        lazy), a pyarrow table or reader, a DuckDB relation; columns by name; a scipy sparse matrix
        with users as rows, whose positions are the ids.
    user, item, time, rating : name or position (from 0) of a column that has no usual name
    min_rating : keep rows with at least this rating; the others are counted in `.dropped`. 'anime'
        by default leaves out its rows with rating -1, which were seen and not rated
    weight : name or position of a column that says how much a row counts (a rating, a number of
        plays), for models that use it (docs/data.md); "value" for the values of a matrix. Rows
        whose weight is missing, or not above 0, are counted in `.dropped`
    event, weights, target_events : name or position of the column of kinds of events; how much
        each kind counts ({"view": 1, "purchase": 5}, times `weight`), below 0 for a dislike; the
        kinds that are targets, of all. A kind without a weight is left out; without `weights` each
        counts 1
    duplicates : what becomes of a (user, item) pair that occurs again: "first" keeps the first in
        time, "sum" the first with the sum of all weights (1 each without a column), "all" every
        event
    separator, header, encoding : of a text file, where its first line does not show them
    order : "file" takes the order of the rows as time; by default a time column says the order,
        and without one there is none
    progress : False says nothing

    Returns
    -------
    Interactions
        Distinct pairs, unless `duplicates` is "all". `.dropped` counts the rows each policy left
        out (docs/data.md), and missing values also give one `LeporidWarning`.
    """
    if order == "file" and time is not None:
        raise ConfigError(
            "a time column and the order of the file exclude each other: name one"
        )
    is_named = isinstance(source, str) and source in DATASETS
    if min_rating is None and is_named and not Path(str(source)).exists():
        min_rating = DATASETS[str(source)].min_rating
    kinds = None
    if event is not None or weights is not None or target_events is not None:
        kinds = EventKinds.from_arguments(event, weights, target_events)
    columns = {
        "user": user,
        "item": item,
        "time": time,
        "rating": rating,
        "weight": weight,
        "event": event,
    }
    options = ReadOptions(columns, min_rating is not None, separator, header, encoding)
    with in_words("the log"):
        raw = _read(source, options)
    with in_words(raw.report.origin):
        if order == "file":
            raw = _in_file_order(raw)
        data = to_interactions(raw, min_rating, duplicates, kinds)
    guesses = raw.report.sentence()
    if progress and guesses:
        say(f"{raw.report.origin}: {guesses}")
    return data


def _read(source: object, options: ReadOptions) -> RawTable:
    if isinstance(source, _SparseMatrix):
        return _read_matrix(source, options)
    if isinstance(source, str | os.PathLike):
        return _read_files([source], options)
    if isinstance(source, list | tuple) and _names_files(source):
        return _read_files(source, options)
    kind = type(source)
    package = kind.__module__.split(".")[0].replace("builtins", "")
    return _read_frame(source, options, f"the {f'{package} {kind.__name__}'.strip()}")


def _names_files(sources: Sequence[object]) -> bool:
    """Return whether a list names files; one that also holds other things is refused."""
    if not sources:
        raise DataError("the list of files is empty: give at least one path")
    are_paths = [isinstance(source, str | os.PathLike) for source in sources]
    if any(are_paths) and not all(are_paths):
        other = sources[are_paths.index(False)]
        raise DataError(
            f"a list of files has {article(type(other).__name__)} among its paths: give paths "
            f"alone, or join the tables first"
        )
    return any(are_paths)


def _read_files(
    sources: Sequence[str | os.PathLike[str]],
    options: ReadOptions,
) -> RawTable:
    """Read files, folders and patterns as one log, in this order."""
    paths = [_locate(path) for source in sources for path in matching(source)]
    with reading_log(paths) as files:
        return read_log(files, options)


@runtime_checkable
class _ArrowTable(Protocol):
    column_names: list[str]


@runtime_checkable
class _Frame(Protocol):
    """A data frame of pandas or polars."""

    columns: Collection[object]


def is_log(table: object) -> bool:
    """Return whether a data frame or Arrow table has a column of users and one of items."""
    columns: Collection[object] = ()
    if isinstance(table, _ArrowTable):
        columns = table.column_names
    elif isinstance(table, _Frame):
        columns = table.columns
    names = [str(name) for name in columns]
    has_users = position_of(names, USUAL_NAMES["user"]) is not None
    has_items = position_of(names, USUAL_NAMES["item"]) is not None
    return has_users and has_items


@runtime_checkable
class _SplitLike(Protocol):
    """A `Split`, whose module imports this one."""

    train_valid: Interactions


def as_log(data: object, call: str) -> Interactions:
    """Return `Interactions` as they are, and load whatever else `load` reads.

    A split is refused, because only the caller knows which of its parts is meant. `call` names the
    function, for errors.
    """
    if isinstance(data, Interactions):
        return data
    if isinstance(data, _SplitLike):
        raise ConfigError(
            f"{call} takes a log, not a {type(data).__name__}: give it split.train"
        )
    return load(data)


def _in_file_order(raw: RawTable) -> RawTable:
    """Take the number of each row as its time."""
    report = replace(
        raw.report,
        columns={**raw.report.columns, "time": "row number"},
        guessed=tuple(role for role in raw.report.guessed if role != "time"),
    )
    numbers = pa.chunked_array([np.arange(report.rows)])
    return raw._replace(columns={**raw.columns, "time": numbers}, report=report)


def _locate(source: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return a path or an address, or the path of the log of the data set of that name."""
    path = located(source)
    if is_split(path):
        raise DataError(f"{path} is a split, not a log: leporid.Split.load reads it")
    if is_address(source) or os.path.exists(path):
        return source
    if str(source) in DATASETS:
        return fetch(str(source)).interactions
    guess = closest(str(source), DATASETS)
    hint = f"data sets: {', '.join(DATASETS)}"
    if guess:
        hint = f"did you mean the data set {guess!r}?"
    raise DataError(f"no such file: {source} ({hint})")


def _read_frame(
    source: object,
    options: ReadOptions,
    origin: str,
    kind: str = "frame",
) -> RawTable:
    """Convert what is needed of a pandas or polars frame, a pyarrow table or a mapping."""
    expected = (
        "give a path, a list of paths, a data set name, a frame, columns by name or a scipy sparse "
        "matrix"
    )
    columns = frame_columns(source, expected)
    names = list(columns)
    positions, report = find_columns(names, options, origin, kind)
    arrays = {}
    for role, position in positions.items():
        name = names[position]
        arrays[role] = converted(columns[name], f"{origin}, column {name!r}")
    with in_words(origin):
        return RawTable.of(pa.table(arrays), arrays, report)


def _read_matrix(matrix: _SparseMatrix, options: ReadOptions) -> RawTable:
    """Read a scipy sparse matrix: rows are users, columns items, values ratings; no times."""
    entries = matrix.tocoo()
    n_users, n_items = entries.shape
    columns = {
        "row": np.asarray(entries.row, dtype=np.int64),
        "column": np.asarray(entries.col, dtype=np.int64),
        "value": np.asarray(entries.data, dtype=np.float64),
    }
    names: dict[str, str | int | None] = {
        "user": "row",
        "item": "column",
        "rating": "value",
        "weight": options.columns["weight"],
        "event": options.columns["event"],
    }
    origin = f"the {n_users} x {n_items} {type(matrix).__name__}"
    raw = _read_frame(columns, ReadOptions(names, need_rating=True), origin, "matrix")
    return raw._replace(shape=(int(n_users), int(n_items)))
