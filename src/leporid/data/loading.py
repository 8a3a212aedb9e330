"""`load`: any log of interactions, from anywhere, as `Interactions`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from leporid.data.columns import Asked, LoadReport, RawTable, find_columns
from leporid.data.datasets import DATASETS, fetch
from leporid.data.interactions import Interactions
from leporid.data.log_parts import log_parts
from leporid.data.parquet_files import read_parquet
from leporid.data.policies import to_interactions
from leporid.data.repeats import Duplicates
from leporid.data.source_file import in_words, is_address, located, reading, shortened
from leporid.data.split import is_split
from leporid.data.text_logs import read_text
from leporid.errors import ConfigError, DataError, UnknownNameError, closest


def load(
    source: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    time: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
    weight: str | int | None = None,
    duplicates: Duplicates = "first",
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    order: Literal["file"] | None = None,
) -> Interactions:
    """Read an interaction log; `.source` says what was guessed of what the arguments leave open.

    Parameters
    ----------
    source : path, data set name, pandas or polars frame, pyarrow table, mapping or sparse matrix
        A delimited text file (also gzip), a RecBole `.inter` file, a parquet file, a directory
        of parquet or text files as Spark writes it, each also as s3://bucket/key; 'ml-100k',
        'ml-1m', 'ml-20m', 'steam' or 'anime' (a path of that name wins); a table with named
        columns; a scipy sparse matrix with users as rows, whose positions are the ids.
    user, item, time, rating : name or place (from 0) of a column that has no usual name
    min_rating : keep rows with at least this rating; the others are counted in `.dropped`. 'anime'
        by default leaves out its rows with rating -1, which were seen and not rated
    weight : name or place of a column that says how much a row counts (a rating, a number of
        plays), for models that use it (docs/data.md); "value" for the values of a matrix. Rows
        whose weight is missing, or not above 0, are counted in `.dropped`
    duplicates : what becomes of a (user, item) pair that occurs again: "first" keeps the first in
        time, "sum" the first with the sum of all weights (1 each without a column), "all" every
        event
    separator, header, encoding : of a text file, where its first line does not show them
    order : "file" takes the order of the rows as time; by default a time column says the order,
        and without one there is none

    Returns
    -------
    Interactions
        Distinct pairs, unless `duplicates` is "all". `.dropped` counts the rows each policy left
        out (docs/data.md), and missing values also give one `LeporidWarning`.
    """
    if order not in (None, "file"):
        raise UnknownNameError("order", str(order), ["file"])
    if order == "file" and time is not None:
        raise ConfigError("a time column and the order of the file exclude each other: name one")
    named = isinstance(source, str) and source in DATASETS and not Path(source).exists()
    if min_rating is None and named:
        min_rating = DATASETS[source].min_rating
    columns = {"user": user, "item": item, "time": time, "rating": rating, "weight": weight}
    asked = Asked(columns, min_rating is not None, separator, header, encoding)
    if hasattr(source, "tocoo"):
        raw = _read_matrix(source, weight)
    elif isinstance(source, str | os.PathLike):
        with reading(_locate(source)) as file:
            parts = log_parts(file)
            if parts[0].file.is_parquet():
                raw = read_parquet(file, parts, asked)
            else:
                raw = read_text(parts, str(file.path), asked)
    elif _is_frame(source):
        raw = _read_frame(source, asked)
    else:
        raise DataError(
            f"cannot load a {type(source).__name__}: give a path, a data set name, a pandas or "
            f"polars frame, a pyarrow table or a scipy sparse matrix"
        )
    with in_words(raw.report.origin):
        raw = raw.in_file_order() if order == "file" else raw
        return to_interactions(raw, min_rating, duplicates)


def _locate(source: str | os.PathLike[str]) -> Path | str:
    """The file or directory of that path or address, or the log of the data set of that name."""
    if is_address(source):
        return str(source)
    path = located(source)
    if is_split(path):
        raise DataError(f"{path} is a split, not a log: leporid.Split.load reads it")
    if os.path.exists(path):
        return path
    if str(source) in DATASETS:
        return fetch(str(source)).interactions
    guess = closest(str(source), DATASETS)
    hint = f"did you mean the data set {guess!r}?" if guess else f"data sets: {', '.join(DATASETS)}"
    raise DataError(f"no such file: {source} ({hint})")


def _is_frame(source: Any) -> bool:
    """A pyarrow table, a mapping of columns, or anything that speaks Arrow (pandas, polars)."""
    return (
        isinstance(source, pa.Table | Mapping)
        or hasattr(source, "__arrow_c_stream__")
        or hasattr(source, "collect_schema")
        or type(source).__module__.split(".")[0] == "pandas"
    )


def _read_frame(source: Any, asked: Asked) -> RawTable:
    """A pandas or polars frame, a pyarrow table or a mapping of columns; neither is imported."""
    package = type(source).__module__.split(".")[0]
    origin = f"the {package} {type(source).__name__}"
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):  # polars.LazyFrame
        source = source.collect()
    try:
        if package != "pandas" and not isinstance(source, Mapping):
            source = pa.table(source)
        names = source.column_names if isinstance(source, pa.Table) else list(source)
        columns = find_columns([str(name) for name in names], asked, origin)
        table = _selected(source, list(columns.places.values()), origin)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"{origin} cannot be read as columns: {error}") from None
    return RawTable.of(table, columns, origin, "frame")


def _selected(source: Any, places: list[int], origin: str) -> pa.Table:
    """Only the columns at these places are converted."""
    if isinstance(source, pa.Table):
        return source.select(places)
    names = list(source)
    series = list(source.values()) if isinstance(source, Mapping) else None
    values = [source.iloc[:, place] if series is None else series[place] for place in places]
    columns = [
        _converted(column, f"{origin}, column {names[place]!r}")
        for place, column in zip(places, values, strict=True)
    ]
    return pa.table(columns, names=[str(place) for place in places])


def _converted(column: Any, where: str) -> pa.Array | pa.ChunkedArray:
    """One column as Arrow has it."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    try:
        return pa.array(column)
    except OverflowError:
        raise DataError(
            f"{where} holds an integer beyond 64 bits: give ids as text and other numbers as floats"
        ) from None
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where} holds text that UTF-8 cannot encode, {shortened(ascii(error.object))}: "
            f"replace the lone surrogate in it"
        ) from None


def _read_matrix(matrix: Any, weight: str | int | None) -> RawTable:
    """A scipy sparse matrix: rows are users, columns items, values ratings; no times."""
    entries = matrix.tocoo()
    shape = int(matrix.shape[0]), int(matrix.shape[1])
    columns = {
        "user": pa.chunked_array([np.asarray(entries.row, dtype=np.int64)]),
        "item": pa.chunked_array([np.asarray(entries.col, dtype=np.int64)]),
        "rating": pa.chunked_array([np.asarray(entries.data, dtype=np.float64)]),
    }
    names = {"user": "row", "item": "column", "rating": "value"}
    if weight is not None:
        if weight != "value":
            raise UnknownNameError("weight of a matrix", str(weight), ["value"])
        columns["weight"], names["weight"] = columns["rating"], "value"
    report = LoadReport(
        origin=f"the {shape[0]} x {shape[1]} {type(matrix).__name__}",
        format="matrix",
        columns=names,
        guessed=(),
        rows=len(entries.data),
    )
    return RawTable(columns, report, shape)
