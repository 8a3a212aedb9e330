"""The files of a log: one file or several, or a folder as Spark and Hive write it.

In a folder, names that begin with `_` or `.` are notes of the writer (`_SUCCESS`, `.part-0.crc`),
and a folder called `day=2024-01-01` gives every row in it a column `day`. `log_batches` reads some
rows at a time.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from pyarrow import fs

from leporid.data.columns import LoadReport, RawTable, ReadOptions, find_columns, listed
from leporid.data.delimited import Layout, NoRowsError, batches_of, sniff, table_of
from leporid.data.files import SourceFile, in_words, reading
from leporid.data.json_lines import JsonColumns, first_names
from leporid.errors import DataError

MISSING = ["", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "\\N"]
"""Unquoted fields of text that mean 'nothing here'."""


_TEXT_SUFFIXES = (".csv", ".tsv", ".inter", ".jsonl", ".ndjson")
"""Endings of the files that are read in a folder without parquet files."""


class _Part(NamedTuple):
    """A file of a log."""

    file: SourceFile
    partitions: Mapping[str, str | None]
    """Columns that its folders name, each with the one value that all its rows have."""


class LogFiles(NamedTuple):
    """The files and folders of one log, opened, in the order of their rows."""

    origin: str
    """The path, or what to call several of them."""
    files: Sequence[SourceFile]


@contextmanager
def reading_log(paths: Sequence[str | os.PathLike[str]]) -> Iterator[LogFiles]:
    """Open files and folders, also by their addresses."""
    with ExitStack() as stack:
        files = [stack.enter_context(reading(path)) for path in paths]
        origin = files[0].path
        if len(files) > 1:
            more = len(files) - 1
            origin = f"{origin} and {more} more {'file' if more == 1 else 'files'}"
        yield LogFiles(origin, files)


def read_log(source: LogFiles, options: ReadOptions) -> RawTable:
    """Read the columns of users, items and times, and those asked for, of all files."""
    raws = list(log_batches(source, options, None))
    if not raws:
        raise DataError(f"{source.origin} has no rows")
    if len(raws) == 1:
        return raws[0]
    with in_words(source.origin):
        tables = [pa.table(raw.columns) for raw in raws]
        joined = pa.concat_tables(table.cast(tables[0].schema) for table in tables)
        return RawTable.of(joined, joined.column_names, raws[0].report)


def log_batches(
    source: LogFiles,
    options: ReadOptions,
    batch_rows: int | None,
) -> Iterator[RawTable]:
    """Read a log `batch_rows` of parquet, or a block of text, at a time; None: file by file."""
    origin = source.origin
    with in_words(origin):
        parts = _parts(source.files)
        file_format = _common_format(parts)
        if file_format == "parquet":
            yield from _parquet_tables(origin, parts, options, batch_rows)
        elif file_format == "text":
            yield from _text_tables(origin, parts, options, batch_rows is None)
        elif batch_rows is None:
            yield _json_table(origin, parts, options)
        else:
            raise DataError(
                f"{origin}: JSON lines are not streamed: convert them to parquet, or load them "
                f"as a whole"
            )


def _common_format(parts: Sequence[_Part]) -> str:
    """Return the format of all files; a mixture is refused."""
    first_path = ""
    common = "text"
    for part in parts:
        file_format = part.file.format()
        if file_format == "empty":
            continue
        if first_path and file_format != common:
            raise DataError(
                f"{first_path} is {common} and {part.file.path} is {file_format}: the files of a "
                f"log have one format"
            )
        common = file_format
        first_path = first_path or part.file.path
    return common


def _parts(files: Sequence[SourceFile]) -> list[_Part]:
    """Return all files, those of a folder in the order of their names."""
    parts: list[_Part] = []
    for file in files:
        inside = _parts_of_folder(file) if file.is_folder() else [_Part(file, {})]
        if not inside:
            raise DataError(
                f"{file.path} is a directory without .parquet files, or text files whose names "
                f"begin with part- or end with .csv or .jsonl"
            )
        parts += inside
    first = parts[0]
    for part in parts:
        if part.partitions.keys() != first.partitions.keys():
            raise DataError(
                f"{part.file.path} and {first.file.path} lie in folders of different columns: "
                f"give one of these folders"
            )
    return parts


def _parts_of_folder(source: SourceFile) -> list[_Part]:
    """Return the parquet files, or where there is none the text files."""
    selector = fs.FileSelector(source.content, recursive=True)
    names = [
        PurePosixPath(entry.path).relative_to(source.content)
        for entry in source.system.get_file_info(selector)
        if entry.is_file
    ]
    parquet = []
    text = []
    for name in sorted(names, key=lambda name: name.parts):
        if any(folder_or_name[0] in "._" for folder_or_name in name.parts):
            continue
        file = source._replace(
            path=f"{source.path.rstrip('/')}/{name}",
            content=f"{source.content}/{name}",
        )
        part = _Part(file, _partitions(name))
        if name.suffix in (".parquet", ".pq"):
            parquet.append(part)
        elif name.name.startswith("part-") or file.suffix in _TEXT_SUFFIXES:
            text.append(part)
    return parquet or text


def _partitions(name: PurePosixPath) -> dict[str, str | None]:
    """Return the columns that folders name, with their values."""
    partitions: dict[str, str | None] = {}
    for folder in name.parts[:-1]:
        column, equals, value = folder.partition("=")
        if equals:
            is_missing = value == "__HIVE_DEFAULT_PARTITION__"
            partitions[unquote(column)] = None if is_missing else unquote(value)
    return partitions


def _with_partitions(
    names: list[str],
    partitions: Mapping[str, str | None],
    positions: Mapping[str, int],
    report: LoadReport,
    rows: pa.Table | pa.RecordBatch,
) -> RawTable:
    """Return the columns of these names; each that a folder names is stored as one value."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    for name in set(names).difference(table.column_names):
        value = partitions[name]
        codes = pa.array(
            np.zeros(len(table), np.int32),
            mask=np.full(len(table), value is None),
        )
        column = pa.DictionaryArray.from_arrays(codes, [value or ""])
        table = table.append_column(name, column)
    return RawTable.of(table.select(names), positions, report)


def _parquet_tables(
    origin: str,
    parts: list[_Part],
    options: ReadOptions,
    batch_rows: int | None,
) -> Iterator[RawTable]:
    """Read parquet files; the first one says which columns are read."""
    needed: list[str] = []
    for part in parts:
        path = part.file.path
        with (
            in_words(path, "is not a whole parquet file"),
            part.file.parquet(in_one_read=batch_rows is None) as opened,
        ):
            names = list(dict.fromkeys((*opened.schema_arrow.names, *part.partitions)))
            if not needed:
                positions, report = find_columns(names, options, origin, "parquet")
                needed = [names[position] for position in positions.values()]
            missing = set(needed).difference(names)
            if missing:
                raise DataError(
                    f"{path} has no column {min(missing)!r}, as {parts[0].file.path} has"
                )
            in_file = [name for name in needed if name not in part.partitions]
            make = partial(_with_partitions, needed, part.partitions, positions, report)
            if batch_rows is None:
                yield make(opened.read(in_file))
            else:
                # `map` keeps no batch alive while the next one is decoded.
                yield from map(
                    make,
                    opened.iter_batches(batch_rows, columns=in_file, use_threads=False),
                )


def _json_table(
    origin: str,
    parts: Sequence[_Part],
    options: ReadOptions,
) -> RawTable:
    """Read JSON lines; the first lines of the first file say which columns are read.

    Where a role has a column that only later lines have, all is read again with it.
    """
    names = _json_names(parts, options.encoding)
    columns = JsonColumns([], options.encoding)
    while True:
        positions, report = find_columns(names, options, origin, "json")
        wanted = [names[position] for position in positions.values()]
        if wanted == columns.wanted:
            return RawTable.of(columns.table(origin), positions, report)
        columns = JsonColumns(wanted, options.encoding)
        for part in parts:
            columns.read(part.file, part.partitions)
        names += [name for name in columns.names if name not in names]


def _json_names(parts: Sequence[_Part], encoding: str) -> list[str]:
    """Return the names in the first lines of the first file with rows, and of its folders."""
    for part in parts:
        try:
            names = first_names(part.file, encoding)
        except NoRowsError:
            if len(parts) == 1:
                raise
            continue
        return list(dict.fromkeys((*names, *part.partitions)))
    raise NoRowsError(f"{parts[0].file.path} and all other files have no rows")


def _text_tables(
    origin: str,
    parts: list[_Part],
    options: ReadOptions,
    file_by_file: bool,
) -> Iterator[RawTable]:
    """Read text files; the first one with rows says which columns are read, and how."""
    first: _TextColumns | None = None
    for part in parts:
        try:
            layout = sniff(
                part.file, options.separator, options.header, options.encoding
            )
            if first is None:
                first = _text_columns(layout, part, options, origin)
                columns = first
                options = options._replace(
                    separator=layout.separator, header=layout.header
                )
            else:
                columns = _same_columns(layout, part, options, first)
            roles = {
                f"c{position}": role for role, position in columns.positions.items()
            }
            make = partial(
                _with_partitions,
                list(roles),
                columns.partitions,
                columns.positions,
                first.report,
            )
            convert = _conversion(roles, columns.partitions)
            if file_by_file:
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
    layout: Layout,
    part: _Part,
    options: ReadOptions,
    origin: str,
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
    positions, report = find_columns(names, options, path, "text", first_row)
    partitions = {f"c{width + n}": value for n, value in enumerate(named.values())}
    report = replace(
        report, origin=origin, separator=layout.separator, header=layout.header
    )
    return _TextColumns(path, names, positions, partitions, report)


def _same_columns(
    layout: Layout,
    part: _Part,
    options: ReadOptions,
    first: _TextColumns,
) -> _TextColumns:
    """Find the columns of the first file in another one, by their names where it has a header."""
    path = part.file.path
    names = [*layout.names, *part.partitions]
    if layout.header and names != first.names:
        for name in first.report.columns.values():
            if name not in names:
                raise DataError(f"{path} has no column {name!r}, as {first.path} has")
        options = options._replace(columns=first.report.columns)
    columns = _text_columns(layout, part, options, first.report.origin)
    if columns.report.columns != first.report.columns:
        raise DataError(
            f"{path} has the columns {listed(columns.report.columns.values())}, and {first.path} "
            f"{listed(first.report.columns.values())}: the files of a log have the same"
        )
    return columns


def _conversion(
    roles: Mapping[str, str],
    partitions: Mapping[str, str | None],
) -> pa_csv.ConvertOptions:
    """Read ids and events as dictionaries ('007' stays '007'), all else as text.

    What pyarrow would infer depends on the other rows of a file, and takes 0x10 for a number.
    """
    coded = pa.dictionary(pa.int32(), pa.string())
    is_coded = {"user", "item", "event"}
    return pa_csv.ConvertOptions(
        include_columns=[name for name in roles if name not in partitions],
        column_types={
            name: coded if role in is_coded else pa.string()
            for name, role in roles.items()
        },
        null_values=MISSING,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
