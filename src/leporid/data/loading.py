"""`load`: any log of interactions, from anywhere, as `Interactions`; `write_log`: back to a file.

A folder is one log, as Spark and Hive write it: names that begin with `_` or `.` are notes of the
writer (`_SUCCESS`, `.part-0.crc`), and a folder called `day=2024-01-01` gives every row in it a
column `day`. `log_batches` reads some rows at a time.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from pyarrow import fs

from leporid.arguments import checks_arguments
from leporid.artifacts import atomic_path
from leporid.data.columns import (
    USUAL_NAMES,
    Asked,
    LoadReport,
    RawTable,
    find_columns,
    listed,
    position_of,
)
from leporid.data.datasets import DATASETS, fetch
from leporid.data.delimited import Layout, NoRowsError, batches_of, look, table_of
from leporid.data.event_kinds import EventKinds
from leporid.data.files import (
    SourceFile,
    in_words,
    is_address,
    is_split,
    located,
    reading,
)
from leporid.data.frames import converted, frame_columns
from leporid.data.interactions import Duplicates, Interactions
from leporid.data.policies import to_interactions
from leporid.errors import ConfigError, DataError, closest
from leporid.progress import say

MISSING = ["", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "\\N"]
"""Unquoted fields of text that mean 'nothing here'."""


@checks_arguments(example="['purchase']")
def load(
    source: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    time: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
    weight: str | int | None = None,
    event: str | int | None = None,
    weights: Mapping[str, float] | None = None,
    goal: str | Collection[str] | None = None,
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
    event, weights, goal : name or position of the column of kinds of events; how much each kind
        counts ({"view": 1, "purchase": 5}, times `weight`), below 0 for a dislike; the kinds that
        are targets, of all. A kind without a weight is left out; without `weights` each counts 1
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
    named = isinstance(source, str) and source in DATASETS and not Path(source).exists()
    if min_rating is None and named:
        min_rating = DATASETS[source].min_rating
    kinds = None
    if event is not None or weights is not None or goal is not None:
        kinds = EventKinds.asked(event, weights, goal)
    columns = {"user": user, "item": item, "time": time, "rating": rating}
    columns |= {"weight": weight, "event": event}
    asked = Asked(columns, min_rating is not None, separator, header, encoding)
    with in_words("the log"):
        if hasattr(source, "tocoo"):
            raw = _read_matrix(source, asked)
        elif isinstance(source, str | os.PathLike):
            with reading(_locate(source)) as file:
                raw = _read_log(file, asked)
        else:
            kind = type(source)
            package = kind.__module__.split(".")[0].replace("builtins", "")
            raw = _read_frame(
                source, asked, " ".join(f"the {package} {kind.__name__}".split())
            )
    with in_words(raw.report.origin):
        raw = _in_file_order(raw) if order == "file" else raw
        data = to_interactions(raw, min_rating, duplicates, kinds)
    if progress and (found := raw.report.sentence()):
        say(f"{raw.report.origin}: {found}")
    return data


def is_log(table: Any) -> bool:
    """Whether a data frame or Arrow table has a column of users and one of items."""
    columns = table.column_names if hasattr(table, "column_names") else table.columns
    names = [str(name) for name in columns]
    return all(
        position_of(names, USUAL_NAMES[role]) is not None for role in ("user", "item")
    )


def as_log(data: Any, call: str) -> Interactions:
    """`Interactions` as they are, and whatever `load` reads; `call` names the function, for errors.

    A split is refused, because only the caller knows which of its parts is meant.
    """
    if isinstance(data, Interactions):
        return data
    if hasattr(data, "train_valid"):  # split.py imports this file
        raise ConfigError(
            f"{call} takes a log, not a {type(data).__name__}: give it split.train"
        )
    return load(data)


def _in_file_order(raw: RawTable) -> RawTable:
    """The table with the number of each row as its time."""
    report = replace(
        raw.report,
        columns={**raw.report.columns, "time": "row number"},
        guessed=tuple(role for role in raw.report.guessed if role != "time"),
    )
    numbers = pa.chunked_array([np.arange(report.rows)])
    return raw._replace(columns={**raw.columns, "time": numbers}, report=report)


def _locate(source: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """A path or an address, or the log of the data set of that name."""
    path = located(source)
    if is_split(path):
        raise DataError(f"{path} is a split, not a log: leporid.Split.load reads it")
    if is_address(source) or os.path.exists(path):
        return source
    if str(source) in DATASETS:
        return fetch(str(source)).interactions
    guess = closest(str(source), DATASETS)
    hint = (
        f"did you mean the data set {guess!r}?"
        if guess
        else f"data sets: {', '.join(DATASETS)}"
    )
    raise DataError(f"no such file: {source} ({hint})")


def _read_frame(
    source: Any, asked: Asked, origin: str, kind: str = "frame"
) -> RawTable:
    """A pandas or polars frame, a pyarrow table or a mapping: what is needed is converted."""
    expected = "give a path, a data set name, a frame, columns by name or a scipy sparse matrix"
    found = frame_columns(source, expected)
    names = list(found)
    positions, report = find_columns(names, asked, origin, kind)
    arrays = {
        role: converted(found[names[position]], f"{origin}, column {names[position]!r}")
        for role, position in positions.items()
    }
    with in_words(origin):
        return RawTable.of(pa.table(arrays), arrays, report)


def _read_matrix(matrix: Any, asked: Asked) -> RawTable:
    """A scipy sparse matrix: rows are users, columns items, values ratings; no times."""
    entries, shape = matrix.tocoo(), (int(matrix.shape[0]), int(matrix.shape[1]))
    columns = {
        "row": np.asarray(entries.row, dtype=np.int64),
        "column": np.asarray(entries.col, dtype=np.int64),
        "value": np.asarray(entries.data, dtype=np.float64),
    }
    roles = {"user": "row", "item": "column", "rating": "value"}
    more = {role: asked.columns[role] for role in ("weight", "event")}
    asked = Asked({**roles, **more}, need_rating=True)
    origin = f"the {shape[0]} x {shape[1]} {type(matrix).__name__}"
    return _read_frame(columns, asked, origin, "matrix")._replace(shape=shape)


class _Part(NamedTuple):
    """A file of a log."""

    file: SourceFile
    partitions: Mapping[str, str | None]
    """Columns that its folders name, each with the one value that all its rows have."""


def _read_log(source: SourceFile, asked: Asked) -> RawTable:
    """The user, item, time and (if asked for) rating, weight and event columns of all files."""
    raws = list(log_batches(source, asked, None))
    if not raws:
        raise DataError(f"{source.path} has no rows")
    if len(raws) == 1:
        return raws[0]
    with in_words(source.path):
        tables = [pa.table(raw.columns) for raw in raws]
        whole = pa.concat_tables([table.cast(tables[0].schema) for table in tables])
        return RawTable.of(whole, whole.column_names, raws[0].report)


def log_batches(
    source: SourceFile, asked: Asked, batch_rows: int | None
) -> Iterator[RawTable]:
    """The same some at a time: `batch_rows` of parquet, a block of text; None: file by file."""
    with in_words(source.path):
        parts = _parts(source)
        read = _parquet_tables if parts[0].file.is_parquet() else _text_tables
        yield from read(source.path, parts, asked, batch_rows)


def _parts(source: SourceFile) -> list[_Part]:
    """The file itself, or those of a folder in the order of their names: parquet, else text."""
    if not source.is_folder():
        return [_Part(source, {})]
    found = source.system.get_file_info(fs.FileSelector(source.content, recursive=True))
    names = [
        PurePosixPath(file.path).relative_to(source.content)
        for file in found
        if file.is_file
    ]
    parts: dict[str, list[_Part]] = {"parquet": [], "text": []}
    for name in sorted(names, key=lambda name: name.parts):
        file = source._replace(
            path=f"{source.path.rstrip('/')}/{name}", content=f"{source.content}/{name}"
        )
        if any(part[0] in "._" for part in name.parts):
            continue
        if name.suffix in (".parquet", ".pq"):
            parts["parquet"].append(_Part(file, _partitions(name)))
        elif name.name.startswith("part-") or file.suffix in (".csv", ".tsv", ".inter"):
            parts["text"].append(_Part(file, _partitions(name)))
    chosen = parts["parquet"] or parts["text"]
    if not chosen:
        raise DataError(
            f"{source.path} is a directory without .parquet files, or text files whose names "
            f"begin with part- or end with .csv"
        )
    for part in chosen:
        if part.partitions.keys() != chosen[0].partitions.keys():
            raise DataError(
                f"{part.file.path} and {chosen[0].file.path} lie in folders of different columns: "
                f"give one of these folders"
            )
    return chosen


def _partitions(name: PurePosixPath) -> dict[str, str | None]:
    pairs = (folder.split("=", 1) for folder in name.parts[:-1] if "=" in folder)
    nothing = "__HIVE_DEFAULT_PARTITION__"
    return {
        unquote(key): None if value == nothing else unquote(value)
        for key, value in pairs
    }


def _with_partitions(
    names: list[str],
    partitions: Mapping[str, str | None],
    positions: Mapping[str, int],
    report: LoadReport,
    rows: pa.Table | pa.RecordBatch,
) -> RawTable:
    """The columns of these names, those of the folders among them; each of those is stored once."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    for name in set(names).difference(table.column_names):
        codes = np.zeros(len(table), np.int32)
        mask = np.full(len(table), partitions[name] is None)
        value = pa.DictionaryArray.from_arrays(
            pa.array(codes, mask=mask), [partitions[name] or ""]
        )
        table = table.append_column(name, value)
    return RawTable.of(table.select(names), positions, report)


def _parquet_tables(
    origin: str, parts: list[_Part], asked: Asked, batch_rows: int | None
) -> Iterator[RawTable]:
    """The first file says which columns are read."""
    needed: list[str] = []
    for part in parts:
        path, whole = part.file.path, batch_rows is None
        with (
            in_words(path, "is not a whole parquet file"),
            part.file.parquet(whole=whole) as opened,
        ):
            names = list(dict.fromkeys((*opened.schema_arrow.names, *part.partitions)))
            if not needed:
                positions, report = find_columns(names, asked, origin, "parquet")
                needed = [names[position] for position in positions.values()]
            if missing := set(needed).difference(names):
                raise DataError(
                    f"{path} has no column {min(missing)!r}, as {parts[0].file.path} has"
                )
            inside = [name for name in needed if name not in part.partitions]
            if whole:
                tables = iter([opened.read(inside)])
            else:
                tables = opened.iter_batches(
                    batch_rows, columns=inside, use_threads=False
                )
            # `map` keeps no batch alive while the next one is decoded.
            make = partial(_with_partitions, needed, part.partitions, positions, report)
            yield from map(make, tables)


def _text_tables(
    origin: str, parts: list[_Part], asked: Asked, batch_rows: int | None
) -> Iterator[RawTable]:
    """Read text files; the first one with rows says which columns are read, and how."""
    first: _TextColumns | None = None
    for part in parts:
        try:
            layout = look(part.file, asked.separator, asked.header, asked.encoding)
            if first is None:
                first = _text_columns(layout, part, asked, origin)
                columns = first
                asked = asked._replace(separator=layout.separator, header=layout.header)
            else:
                columns = _same_columns(layout, part, asked, first)
            roles = {
                f"c{position}": role for role, position in columns.positions.items()
            }
            convert = _conversion(roles, columns.partitions)
            make = partial(
                _with_partitions,
                list(roles),
                columns.partitions,
                columns.positions,
                first.report,
            )
            if batch_rows is None:
                yield make(table_of(layout, convert))
            else:
                yield from map(make, batches_of(layout, convert))
        except NoRowsError:
            if len(parts) == 1:
                raise


class _TextColumns(NamedTuple):
    """The columns of a text file that are read."""

    path: str
    names: list[str]
    """Names of the columns in the file, then of those that only its folders name."""
    positions: dict[str, int]
    """Role to position in `names`."""
    partitions: dict[str, str | None]
    """Columns that only folders name, as `c` and the position, each with its value."""
    report: LoadReport


def _text_columns(
    layout: Layout, part: _Part, asked: Asked, origin: str
) -> _TextColumns:
    """Find the columns with a role; those that folders name follow those of the file."""
    path = part.file.path
    width = len(layout.names)
    if width < 2:
        raise DataError(
            f"{path}, line {layout.line - layout.header}: found one column where at least a "
            f"user and an item are needed, splitting at {layout.separator!r}: give the separator"
        )
    named = {
        name: value
        for name, value in part.partitions.items()
        if name not in layout.names
    }
    names = [*layout.names, *named]
    first_row = None if layout.header else layout.first_row
    positions, report = find_columns(names, asked, path, "text", first_row)
    partitions = {f"c{width + n}": value for n, value in enumerate(named.values())}
    report = replace(
        report, origin=origin, separator=layout.separator, header=layout.header
    )
    return _TextColumns(path, names, positions, partitions, report)


def _same_columns(
    layout: Layout, part: _Part, asked: Asked, first: _TextColumns
) -> _TextColumns:
    """Find the columns of the first file in another one, by their names where it has a header."""
    path = part.file.path
    names = [*layout.names, *part.partitions]
    if layout.header and names != first.names:
        for name in first.report.columns.values():
            if name not in names:
                raise DataError(f"{path} has no column {name!r}, as {first.path} has")
        asked = asked._replace(columns=first.report.columns)
    columns = _text_columns(layout, part, asked, first.report.origin)
    if columns.report.columns != first.report.columns:
        raise DataError(
            f"{path} has the columns {listed(columns.report.columns.values())}, and {first.path} "
            f"{listed(first.report.columns.values())}: the files of a log have the same"
        )
    return columns


def _conversion(
    roles: Mapping[str, str], partitions: Mapping[str, str | None]
) -> pa_csv.ConvertOptions:
    """Ids and events as dictionaries ('007' stays '007'), all else as text.

    What pyarrow would infer depends on the other rows of a file, and takes 0x10 for a number.
    """
    types = dict.fromkeys(
        ("user", "item", "event"), pa.dictionary(pa.int32(), pa.string())
    )
    types |= dict.fromkeys(("time", "rating", "weight"), pa.string())
    return pa_csv.ConvertOptions(
        include_columns=[name for name in roles if name not in partitions],
        column_types={
            name: types[role] for name, role in roles.items() if role in types
        },
        null_values=MISSING,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


@checks_arguments()
def write_log(data: Interactions | pa.Table, path: str | Path) -> Path:
    """Write parquet, CSV, TSV or RecBole `.inter`, by the ending; atomically.

    The columns are those of a table, or user_id, item_id and, where known, timestamp and weight.
    `load` of the file gives the same interactions: with `weight="weight"`, and with
    `duplicates="all"` where there are repeats. Where there is a column `event` (`to_table`), with
    `event="event", weights={"goal": 1, "other": 1, "disliked": -1}, goal="goal"`.
    """
    path = Path(path)
    if path.suffix not in (".parquet", ".csv", ".tsv", ".inter"):
        raise DataError(
            f"cannot write {path}: use the ending .parquet, .csv, .tsv or .inter"
        )
    table = data if isinstance(data, pa.Table) else data.to_table()
    is_inter = path.suffix == ".inter"
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pa_parquet.write_table(table, temporary, compression="zstd")
            return path
        kinds = dict.fromkeys(("user_id", "item_id", "event"), ":token")
        names = [
            name + kinds.get(name, ":float") * is_inter for name in table.column_names
        ]
        separator = "," if path.suffix == ".csv" else "\t"
        quotes = "none" if is_inter else "needed"
        how: dict[str, Any] = {"delimiter": separator, "quoting_style": quotes}
        options = pa_csv.WriteOptions(include_header=False, **how)
        with open(temporary, "wb") as file:
            # pyarrow would quote the names; programs expect them bare.
            file.write((separator.join(names) + "\n").encode())
            pa_csv.write_csv(table, file, write_options=options)
    return path
