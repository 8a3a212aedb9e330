"""`load`: any log of interactions, from anywhere, as `Interactions`; `write_log`: back to a file.

`read_ids` reads a list of ids from a text file or from a column of a table.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from leporid.artifacts import atomic_path
from leporid.data.columns import (
    USUAL_NAMES,
    Asked,
    RawTable,
    converted,
    find_column,
    find_columns,
    frame_columns,
    normalise,
)
from leporid.data.datasets import DATASETS, fetch
from leporid.data.id_map import IdMap, uuids_as_text
from leporid.data.interactions import Duplicates, Interactions
from leporid.data.logs import read_log
from leporid.data.policies import to_interactions
from leporid.data.source_file import SourceFile, in_words, is_address, located, reading
from leporid.data.split import is_split
from leporid.data.text_files import read_lines, text_table
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidWarning,
    UnknownIdError,
    UnknownNameError,
    closest,
)
from leporid.progress import say


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
    progress: bool = True,
) -> Interactions:
    """Read an interaction log; says on stderr, and in `.source`, which columns were guessed.

    Parameters
    ----------
    source : path, data set name, pandas or polars frame, pyarrow table, mapping or sparse matrix
        A delimited text file (also gzip), a RecBole `.inter` file, a parquet file, a directory
        of parquet or text files as Spark writes it, each also as s3://bucket/key; 'ml-100k',
        'ml-1m', 'ml-20m', 'steam' or 'anime' (a path of that name wins); a table with named
        columns; a scipy sparse matrix with users as rows, whose positions are the ids.
    user, item, time, rating : name or position (from 0) of a column that has no usual name
    min_rating : keep rows with at least this rating; the others are counted in `.dropped`. 'anime'
        by default leaves out its rows with rating -1, which were seen and not rated
    weight : name or position of a column that says how much a row counts (a rating, a number of
        plays), for models that use it (docs/data.md); "value" for the values of a matrix. Rows
        whose weight is missing, or not above 0, are counted in `.dropped`
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
        raw = _read_matrix(source, asked)
    elif isinstance(source, str | os.PathLike):
        with reading(_locate(source)) as file:
            raw = read_log(file, asked)
    else:
        kind = type(source)
        raw = _read_frame(source, asked, f"the {kind.__module__.split('.')[0]} {kind.__name__}")
    with in_words(raw.report.origin):
        raw = raw.in_file_order() if order == "file" else raw
        data = to_interactions(raw, min_rating, duplicates)
    if progress and raw.report.guessed:
        say(f"{raw.report.origin}: {raw.report.sentence()}")
    return data


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


def _read_frame(source: Any, asked: Asked, origin: str) -> RawTable:
    """A pandas or polars frame, a pyarrow table or a mapping: what is needed is converted."""
    expected = "give a path, a data set name, a frame, columns by name or a scipy sparse matrix"
    found = frame_columns(source, expected)
    names = list(found)
    columns = find_columns(names, asked, origin)
    arrays = {
        role: converted(found[names[position]], f"{origin}, column {names[position]!r}")
        for role, position in columns.positions.items()
    }
    with in_words(origin):
        return RawTable.of(pa.table(arrays), columns, origin, "frame")


def _read_matrix(matrix: Any, asked: Asked) -> RawTable:
    """A scipy sparse matrix: rows are users, columns items, values ratings; no times."""
    entries, shape = matrix.tocoo(), (int(matrix.shape[0]), int(matrix.shape[1]))
    columns = {
        "row": np.asarray(entries.row, dtype=np.int64),
        "column": np.asarray(entries.col, dtype=np.int64),
        "value": np.asarray(entries.data, dtype=np.float64),
    }
    roles = {"user": "row", "item": "column", "rating": "value"}
    asked = Asked({**roles, "weight": asked.columns["weight"]}, need_rating=True)
    origin = f"the {shape[0]} x {shape[1]} {type(matrix).__name__}"
    raw = _read_frame(columns, asked, origin)
    return replace(raw, report=replace(raw.report, format="matrix"), shape=shape)


def read_ids(
    path: str | Path, role: str = "user", column: str | None = None, among: IdMap | None = None
) -> list[Any]:
    """The ids in a file, in its order, each once.

    A parquet, CSV or TSV file has them in `column`, else in its only column or in the one that
    looks like the `role` ("user" or "item"); any other file has one id per line. Ids that are not
    `among` those of a model are left out and counted in a warning.
    """
    path = located(path)
    if not os.path.exists(path):
        raise DataError(f"no such file: {path}")
    with reading(path) as file:
        values = _id_values(file, role, column)
    ids = list(dict.fromkeys(value for value in values if value not in (None, "")))
    if not ids:
        raise DataError(f"{path} holds no {role} ids")
    if among is None:
        return ids
    index, unknown = among.split_known(ids)
    if len(index) == 0:
        raise UnknownIdError(
            f"the model knows none of the {len(ids):,} {role}s of {path}, the first is {ids[0]!r}"
        )
    if unknown:
        warnings.warn(
            f"{len(unknown):,} of {len(ids):,} {role}s of {path} are unknown to the model and left "
            f"out, the first is {unknown[0]!r}",
            LeporidWarning,
            stacklevel=2,
        )
    return list(among.externals(index))


def _id_values(file: SourceFile, role: str, column: str | None) -> list[Any]:
    origin = file.path
    if file.is_parquet():
        with in_words(origin, "is not a whole parquet file"), file.parquet() as opened:
            names = opened.schema_arrow.names
            name = names[find_column(names, role, column, origin)]
            values = opened.read([name]).column(0)
        if pa.types.is_nested(values.type):
            raise DataError(f"{origin}: the column {name!r} has type {values.type}, no id")
        return [value for chunk in values.chunks for value in uuids_as_text(chunk).to_pylist()]
    if file.suffix not in (".csv", ".tsv"):
        return read_lines(file)
    table = text_table(file, "\t" if file.suffix == ".tsv" else ",")
    names = [values[0].as_py().strip() for values in table.columns]
    # A single column of text may begin with an id: only a usual name is taken for one.
    usual = ("id", *USUAL_NAMES[role].split())
    has_names = len(names) > 1 or column in names or normalise(names[0]) in usual
    position = find_column(names, role, column, origin)
    return [value.strip() for value in table.column(position).to_pylist()[has_names:]]


def write_log(data: Interactions, path: str | Path) -> Path:
    """Write parquet, CSV, TSV or RecBole `.inter`, by the ending; atomically.

    The columns are user_id, item_id and, where there are times and weights, timestamp and weight.
    `load` of the file gives the same interactions: with `weight="weight"`, and with
    `duplicates="all"` where there are repeats.
    """
    path = Path(path)
    if path.suffix not in (".parquet", ".csv", ".tsv", ".inter"):
        raise DataError(f"cannot write {path}: use the ending .parquet, .csv, .tsv or .inter")
    columns = {"user_id": data.users.ids.take(pa.array(data.user))}
    columns["item_id"] = data.items.ids.take(pa.array(data.item))
    if data.time is not None:
        columns["timestamp"] = pa.array(data.time)
    if data.weight is not None:
        columns["weight"] = pa.array(data.weight)
    table, is_inter = pa.table(columns), path.suffix == ".inter"
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pa_parquet.write_table(table, temporary, compression="zstd")
            return path
        kinds = {"user_id": ":token", "item_id": ":token"}
        names = [name + kinds.get(name, ":float") * is_inter for name in columns]
        separator = "," if path.suffix == ".csv" else "\t"
        options = pa_csv.WriteOptions(
            include_header=False,
            delimiter=separator,
            quoting_style="none" if is_inter else "needed",
        )
        with open(temporary, "wb") as file:
            # pyarrow would quote the names; programs expect them bare.
            file.write((separator.join(names) + "\n").encode())
            pa_csv.write_csv(table, file, write_options=options)
    return path
