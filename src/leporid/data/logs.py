"""The files of a log, parquet or text: one, or a folder as Spark and Hive write it.

Names that begin with `_` or `.` are notes of the writer (`_SUCCESS`, `.part-0.crc`), and a folder
called `day=2024-01-01` gives every row in it a column `day`. `read_log` reads all rows,
`log_batches` some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
from pyarrow import fs

from leporid.data.columns import Asked, Columns, RawTable, find_columns, listed
from leporid.data.source_file import SourceFile, in_words
from leporid.data.text_files import MISSING, Layout, NoRowsError, batches_of, look, table_of
from leporid.errors import DataError

_BROKEN = "is not a whole parquet file"
_NULL = "__HIVE_DEFAULT_PARTITION__"


class _Part(NamedTuple):
    """A file of a log."""

    file: SourceFile
    partitions: Mapping[str, str | None]
    """Columns that its folders name, each with the one value that all its rows have."""


def read_log(source: SourceFile, asked: Asked) -> RawTable:
    """The user, item, time and (if asked for) rating and weight columns of all files."""
    raws = list(log_batches(source, asked, None))
    if len(raws) == 1:
        return raws[0]
    if not raws:
        raise DataError(f"{source.path} has no rows")
    report = replace(raws[0].report, rows=sum(raw.report.rows for raw in raws))
    whole = pa.concat_tables([pa.table(dict(raw.columns)) for raw in raws])
    return RawTable(dict(zip(whole.column_names, whole.columns, strict=True)), report)


def log_batches(source: SourceFile, asked: Asked, batch_rows: int | None) -> Iterator[RawTable]:
    """The same some at a time: `batch_rows` of parquet, a block of text; None: file by file.

    `report.rows` are those of the batch.
    """
    with in_words(source.path):
        parts = _parts(source)
        if not parts[0].file.is_parquet():
            yield from _text_tables(source.path, parts, asked, batch_rows)
        elif batch_rows is None:
            yield _parquet_table(source, parts, asked)
        else:
            yield from _parquet_batches(source.path, parts, asked, batch_rows)


def _parts(source: SourceFile) -> list[_Part]:
    """The file itself, or those of a folder in the order of their names: parquet, else text."""
    if not source.is_folder():
        return [_Part(source, {})]
    found = source.system.get_file_info(fs.FileSelector(source.content, recursive=True))
    inside = (
        PurePosixPath(info.path).relative_to(source.content) for info in found if info.is_file
    )
    names = [name for name in inside if not any(part[0] in "._" for part in name.parts)]
    files = {name: source.inside(str(name)) for name in sorted(names, key=lambda name: name.parts)}
    tables = [name for name in files if name.suffix in (".parquet", ".pq")] or [
        name
        for name, file in files.items()
        if name.name.startswith("part-") or file.suffix in (".csv", ".tsv", ".inter")
    ]
    if not tables:
        raise DataError(
            f"{source.path} is a directory without .parquet files, or text files whose names "
            f"begin with part- or end with .csv"
        )
    parts = [_Part(files[name], _partitions(name)) for name in tables]
    for part in parts:
        if part.partitions.keys() != parts[0].partitions.keys():
            raise DataError(
                f"{part.file.path} and {parts[0].file.path} lie in folders of different columns: "
                f"give one of these folders"
            )
    return parts


def _partitions(name: PurePosixPath) -> dict[str, str | None]:
    pairs = (folder.split("=", 1) for folder in name.parts[:-1] if "=" in folder)
    return {unquote(key): None if value == _NULL else unquote(value) for key, value in pairs}


def _constant(value: str | None, rows: int) -> pa.Array:
    """A column of one value, stored once."""
    codes = pa.array(np.zeros(rows, np.int32), mask=np.full(rows, value is None))
    return pa.DictionaryArray.from_arrays(codes, [value or ""])


def _parquet_table(source: SourceFile, parts: Sequence[_Part], asked: Asked) -> RawTable:
    """All rows; pyarrow reads several files at a time."""
    of_folder = pa.schema([(name, pa.string()) for name in parts[0].partitions])
    with in_words(source.path, _BROKEN):
        dataset = pa_dataset.dataset(
            [part.file.content for part in parts],
            format="parquet",
            filesystem=source.system,
            partitioning=pa_dataset.partitioning(of_folder, flavor="hive"),
            partition_base_dir=source.content,
        )
        names = dataset.schema.names
        columns = find_columns(names, asked, source.path)
        needed = [names[position] for position in columns.positions.values()]
        return RawTable.of(dataset.to_table(needed), columns, source.path, "parquet")


def _parquet_batches(
    origin: str, parts: Sequence[_Part], asked: Asked, batch_rows: int
) -> Iterator[RawTable]:
    needed: list[str] = []
    for part in parts:
        path = part.file.path
        with in_words(path, _BROKEN), part.file.parquet() as opened:
            names = list(dict.fromkeys((*opened.schema_arrow.names, *part.partitions)))
            if not needed:
                columns = find_columns(names, asked, origin)
                needed = [names[position] for position in columns.positions.values()]
            if missing := set(needed).difference(names):
                raise DataError(
                    f"{path} has no column {min(missing)!r}, as {parts[0].file.path} has"
                )
            inside = [name for name in needed if name not in part.partitions]

            batches = opened.iter_batches(batch_rows, columns=inside, use_threads=False)
            # `map` keeps no batch alive while the next one is decoded.
            yield from map(partial(_raw, needed, part.partitions, columns, origin), batches)


def _raw(
    names: Sequence[str],
    partitions: Mapping[str, str | None],
    columns: Columns,
    origin: str,
    rows: pa.Table | pa.RecordBatch,
    layout: Layout | None = None,
) -> RawTable:
    """The columns of these names, those of the folders among them."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    for name in set(names).difference(table.column_names):
        table = table.append_column(name, _constant(partitions[name], table.num_rows))
    table = table.select(names)
    if layout is None:
        return RawTable.of(table, columns, origin, "parquet")
    text = {"separator": layout.separator, "header": layout.header}
    return RawTable.of(table, columns, origin, "text", **text)


def _text_tables(
    origin: str, parts: Sequence[_Part], asked: Asked, batch_rows: int | None
) -> Iterator[RawTable]:
    """The first file with rows says how the others are laid out."""
    whole = batch_rows is None
    first: tuple[str, Columns] | None = None
    for part in parts:
        path = part.file.path
        try:
            layout = look(part.file, asked.separator, asked.header, asked.encoding)
            columns, partitions = _text_columns(layout, part, asked)
            if first is None:
                first = path, columns
                asked = asked._replace(separator=layout.separator, header=layout.header)
            elif columns != first[1]:
                raise DataError(
                    f"{path} has the columns {listed(columns.names.values())}, and {first[0]} "
                    f"{listed(first[1].names.values())}: the files of a log have the same"
                )
            names = [f"c{position}" for position in columns.positions.values()]
            convert = _conversion(names, columns, partitions, inferred=whole and len(parts) == 1)
            tables = iter([table_of(layout, convert)]) if whole else batches_of(layout, convert)
            yield from map(partial(_raw, names, partitions, columns, origin, layout=layout), tables)
        except NoRowsError:
            if len(parts) == 1:
                raise


def _text_columns(
    layout: Layout, part: _Part, asked: Asked
) -> tuple[Columns, dict[str, str | None]]:
    """The columns with a role; those that folders name follow those of the file."""
    path, width = part.file.path, len(layout.names)
    if width < 2:
        raise DataError(
            f"{path}, line {layout.line - layout.header}: found one column where at least a "
            f"user and an item are needed, splitting at {layout.separator!r}: give the separator"
        )
    named = {name: value for name, value in part.partitions.items() if name not in layout.names}
    first_row = None if layout.header else layout.first_row
    columns = find_columns([*layout.names, *named], asked, path, first_row)
    return columns, {f"c{width + n}": value for n, value in enumerate(named.values())}


def _conversion(
    names: Sequence[str], columns: Columns, partitions: Mapping[str, Any], inferred: bool
) -> pa_csv.ConvertOptions:
    """Ids as dictionaries ('007' stays '007'); the type of times is `inferred`, or text."""
    ids = pa.dictionary(pa.int32(), pa.string())
    types = {"user": ids, "item": ids, "rating": pa.float64(), "weight": pa.float64()}
    types |= {} if inferred else {"time": pa.string()}
    roles = dict(zip(names, columns.positions, strict=True))
    return pa_csv.ConvertOptions(
        include_columns=[name for name in names if name not in partitions],
        column_types={name: types[role] for name, role in roles.items() if role in types},
        null_values=list(MISSING),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
