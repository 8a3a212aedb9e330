"""The files of a log, parquet or text: one, or a folder as Spark and Hive write it.

Names that begin with `_` or `.` are notes of the writer (`_SUCCESS`, `.part-0.crc`), and a folder
called `day=2024-01-01` gives every row in it a column `day`. `read_log` reads all rows,
`log_batches` some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple
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

_NULL = "__HIVE_DEFAULT_PARTITION__"
_BROKEN = "is not a whole parquet file"
Partitions = Mapping[str, str | None]
"""Columns that a file's folders name, each with the one value that all its rows have."""


class _Part(NamedTuple):
    """A file of a log."""

    file: SourceFile
    partitions: Partitions


def read_log(source: SourceFile, asked: Asked) -> RawTable:
    """The user, item, time and (if asked for) rating and weight columns of all files."""
    parts, origin = _parts(source), str(source.path)
    if parts[0].file.is_parquet():
        return _read_parquet(source, parts, asked)
    if len(parts) == 1 and not parts[0].partitions:
        plan = _TextPlan.of(parts[0], asked, inferred=True)
        return plan.raw(table_of(plan.layout, plan.convert), origin)
    raws = []
    for plan in _text_plans(parts, asked):
        with suppress(NoRowsError):
            raws.append(plan.raw(table_of(plan.layout, plan.convert), origin))
    if not raws:
        raise DataError(f"{origin} has no rows")
    report = replace(raws[0].report, rows=sum(raw.report.rows for raw in raws))
    columns = {
        role: pa.chunked_array([chunk for raw in raws for chunk in raw.columns[role].chunks])
        for role in raws[0].columns
    }
    return RawTable(columns, report)


def log_batches(source: SourceFile, asked: Asked, batch_rows: int) -> Iterator[RawTable]:
    """What `read_log` reads, some at a time: `batch_rows` of parquet, a block of text.

    `report.rows` are those of the batch.
    """
    origin = str(source.path)
    with in_words(origin):
        parts = _parts(source)
        if parts[0].file.is_parquet():
            yield from _parquet_batches(origin, parts, asked, batch_rows)
            return
        for plan in _text_plans(parts, asked):
            with suppress(NoRowsError):
                for batch in batches_of(plan.layout, plan.convert):
                    yield plan.raw(pa.Table.from_batches([batch]), origin)


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


def _read_parquet(source: SourceFile, parts: Sequence[_Part], asked: Asked) -> RawTable:
    origin = str(source.path)
    of_folder = pa.schema([(name, pa.string()) for name in parts[0].partitions])
    with in_words(origin, _BROKEN):
        dataset = pa_dataset.dataset(
            [part.file.content for part in parts],
            format="parquet",
            filesystem=source.system,
            partitioning=pa_dataset.partitioning(of_folder, flavor="hive"),
            partition_base_dir=source.content,
        )
        names = dataset.schema.names
        columns = find_columns(names, asked, origin)
        table = dataset.to_table(
            columns=[names[position] for position in columns.positions.values()]
        )
    return RawTable.of(table, columns, origin, "parquet")


def _parquet_batches(
    origin: str, parts: Sequence[_Part], asked: Asked, batch_rows: int
) -> Iterator[RawTable]:
    first = parts[0]
    with in_words(str(first.file.path), _BROKEN), first.file.parquet() as opened:
        names = opened.schema_arrow.names
    names += [name for name in first.partitions if name not in names]
    columns = find_columns(names, asked, origin)
    needed = [names[position] for position in columns.positions.values()]

    def raw(partitions: Partitions, batch: pa.RecordBatch) -> RawTable:
        table = pa.Table.from_batches([batch])
        for name in set(needed).intersection(partitions):
            table = table.append_column(name, _constant(partitions[name], len(batch)))
        return RawTable.of(table.select(needed), columns, origin, "parquet")

    for part in parts:
        with in_words(str(part.file.path), _BROKEN), part.file.parquet() as opened:
            inside = [name for name in needed if name not in part.partitions]
            if missing := set(inside) - set(opened.schema_arrow.names):
                raise DataError(
                    f"{part.file.path} has no column {min(missing)!r}, as {first.file.path} has"
                )
            # `map` keeps no batch alive while the next one is decoded.
            batches = opened.iter_batches(batch_rows, columns=inside, use_threads=False)
            yield from map(partial(raw, part.partitions), batches)


@dataclass(frozen=True)
class _TextPlan:
    """How the columns that matter are read from one text file."""

    layout: Layout
    columns: Columns
    convert: pa_csv.ConvertOptions
    partitions: Partitions

    @classmethod
    def of(cls, part: _Part, asked: Asked, *, inferred: bool) -> _TextPlan:
        """By the beginning of the file; the type of times is `inferred`, or text."""
        layout = look(part.file, asked.separator, asked.header, asked.encoding)
        origin = str(part.file.path)
        if len(layout.names) < 2:
            raise DataError(
                f"{origin}, line {layout.line - layout.header}: found one column where at least a "
                f"user and an item are needed, splitting at {layout.separator!r}: give the "
                f"separator"
            )
        first_row = None if layout.header else layout.first_row
        partitions = {k: v for k, v in part.partitions.items() if k not in layout.names}
        columns = find_columns([*layout.names, *partitions], asked, origin, first_row)
        # Ids come as dictionaries: small, and '007' stays '007'.
        ids = pa.dictionary(pa.int32(), pa.string())
        types = {"user": ids, "item": ids, "rating": pa.float64(), "weight": pa.float64()}
        types |= {} if inferred else {"time": pa.string()}
        positions = {role: at for role, at in columns.positions.items() if at < len(layout.names)}
        convert = pa_csv.ConvertOptions(
            include_columns=[f"c{position}" for position in positions.values()],
            column_types={
                f"c{positions[role]}": types[role] for role in positions if role in types
            },
            null_values=list(MISSING),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return cls(layout, columns, convert, partitions)

    def raw(self, table: pa.Table, origin: str) -> RawTable:
        """The columns as read, and those that the folders of the file name."""
        named = list(self.partitions)
        for position, at in enumerate(self.columns.positions.values()):
            if at >= len(self.layout.names):
                name = named[at - len(self.layout.names)]
                column = _constant(self.partitions[name], table.num_rows)
                table = table.add_column(position, name, column)
        text = {"separator": self.layout.separator, "header": self.layout.header}
        return RawTable.of(table, self.columns, origin, "text", **text)


def _text_plans(parts: Sequence[_Part], asked: Asked) -> Iterator[_TextPlan]:
    """One for each file with rows; the first says how the others are laid out."""
    first: _TextPlan | None = None
    for part in parts:
        try:
            plan = _TextPlan.of(part, asked, inferred=False)
        except NoRowsError:
            continue
        if first is None:
            first, layout = plan, plan.layout
            asked = asked._replace(separator=layout.separator, header=layout.header)
        elif plan.columns != first.columns:
            names = listed(plan.columns.names.values())
            raise DataError(
                f"{part.file.path} has the columns {names}, and {first.layout.file.path} "
                f"{listed(first.columns.names.values())}: the files of a log have the same"
            )
        yield plan
