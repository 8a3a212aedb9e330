"""Parquet, whole or a batch at a time: one file, or the parts of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pa_parquet

from leporid.data.columns import Asked, RawTable, find_columns
from leporid.data.log_parts import Part, Partitions, constant
from leporid.data.source_file import SourceFile, in_words
from leporid.errors import DataError

_BROKEN = "is not a whole parquet file"


def read_parquet(source: SourceFile, parts: Sequence[Part], asked: Asked) -> RawTable:
    """The parts of `source`, in their order."""
    origin = str(source.path)
    of_folder = pa.schema([(name, pa.string()) for name in parts[0].partitions])
    with in_words(origin, _BROKEN):
        dataset = pa_dataset.dataset(
            [str(part.file.content) for part in parts],
            format="parquet",
            filesystem=source.system,
            partitioning=pa_dataset.partitioning(of_folder, flavor="hive"),
            partition_base_dir=str(source.content),
        )
        names = dataset.schema.names
        columns = find_columns(names, asked, origin)
        table = dataset.to_table(columns=[names[place] for place in columns.places.values()])
    return RawTable.of(table, columns, origin, "parquet")


def parquet_batches(
    source: SourceFile, parts: Sequence[Part], asked: Asked, batch_rows: int
) -> Iterator[RawTable]:
    """What `read_parquet` reads, at most `batch_rows` rows at a time; `report.rows` are those."""
    first, origin = parts[0], str(source.path)
    with in_words(str(first.file.path), _BROKEN), _opened(first.file) as opened:
        names = opened.schema_arrow.names
    names += [name for name in first.partitions if name not in names]
    columns = find_columns(names, asked, origin)
    wanted = [names[place] for place in columns.places.values()]

    def raw(partitions: Partitions, batch: pa.RecordBatch) -> RawTable:
        table = pa.Table.from_batches([batch])
        for name in set(wanted).intersection(partitions):
            table = table.append_column(name, constant(partitions[name], len(batch)))
        return RawTable.of(table.select(wanted), columns, origin, "parquet")

    for part in parts:
        with in_words(str(part.file.path), _BROKEN), _opened(part.file) as opened:
            inside = [name for name in wanted if name not in part.partitions]
            if missing := set(inside) - set(opened.schema_arrow.names):
                raise DataError(
                    f"{part.file.path} has no column {min(missing)!r}, as {first.file.path} has"
                )
            # `map` keeps no batch alive while the next one is decoded.
            batches = opened.iter_batches(batch_rows, columns=inside, use_threads=False)
            yield from map(partial(raw, part.partitions), batches)


def _opened(file: SourceFile) -> pa_parquet.ParquetFile:
    return pa_parquet.ParquetFile(
        str(file.content), filesystem=file.system, memory_map=True, pre_buffer=False
    )
