"""What is known of the items: the columns of an item table, or vectors from elsewhere, by id."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.artifacts import read_arrays
from leporid.data.columns import place_of
from leporid.data.id_map import IdMap
from leporid.data.item_titles import ID_NAMES, read_item_table
from leporid.data.vector_files import VECTOR_READERS
from leporid.errors import DataError

_VECTOR_FILES = {".npy": "npy", ".txt": "word2vec", ".vec": "word2vec", ".itememb": "recbole"}
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^(?i:nan)$"


class ItemColumns(NamedTuple):
    """A table about items, one row per item."""

    name: str
    """The file it came from, for messages."""
    ids: pa.Array
    columns: dict[str, pa.Array]

    def places(self, items: IdMap) -> NDArray[np.int64]:
        """int64[rows]: the index of the item of each row; -1 for others, and for a second row."""
        ids = self.ids
        if pa.types.is_floating(ids.type):  # what frames make of integers with gaps
            ids = ids.cast(pa.int64(), safe=False)
        text = ids.cast(pa.string())
        if items.is_integer:
            whole = pc.match_substring_regex(text, r"^-?\d{1,18}$")
            text = pc.if_else(whole, text, pa.scalar(None, pa.string())).cast(pa.int64())
        place = items.encode(text).astype(np.int64)
        first = np.unique(place, return_index=True)[1]
        again = np.ones(len(place), bool)
        again[first] = False
        place[again] = -1
        return place


def read_item_columns(source: Any) -> ItemColumns:
    """An item table as columns.

    `source` is a file as for `load_items` (titles are not needed), a table or frame in memory
    (Arrow, pandas, Polars, a dict of columns), or vectors by id: `.npy` with `.ids.npy` beside it,
    parquet, word2vec text, RecBole's `.itememb`, or the safetensors file of `leporid embed`.
    """
    if isinstance(source, ItemColumns):
        return source
    if not isinstance(source, str | os.PathLike):
        return _by_id(_in_memory(source), "the item table")
    path = Path(source).expanduser()
    if path.suffix in _VECTOR_FILES and path.is_file():
        return _vectors(path, *VECTOR_READERS[_VECTOR_FILES[path.suffix]](path))
    if path.suffix == ".safetensors":
        arrays, _ = read_arrays(path)
        prefix = "items." if any(name.startswith("items.") for name in arrays) else ""
        matrix = arrays.get("items", arrays.get("vectors"))
        if matrix is None or not {f"{prefix}ids", f"{prefix}bytes"} & arrays.keys():
            raise DataError(f"{path} holds no item vectors with their ids: write parquet instead")
        return _vectors(path, IdMap.from_arrays(arrays, "item", prefix).ids, matrix)
    if path.suffix in (".parquet", ".pq") and path.is_file():
        try:
            return _by_id(pq.read_table(path), str(path))
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path} is not a parquet file: {error}") from None
    if path.suffix in (".csv", ".tsv") and path.is_file():
        return _by_id(_delimited(path), str(path))
    table = read_item_table(source)
    columns = zip(*table.records, strict=True) if table.records else ([] for _ in table.names)
    return _by_id(
        pa.table([pa.array(c, pa.string()) for c in columns], table.names), str(table.path)
    )


def _vectors(path: Path, ids: pa.Array, matrix: NDArray[Any]) -> ItemColumns:
    if matrix.ndim != 2 or len(ids) != len(matrix):
        raise DataError(f"{path} has {len(ids)} ids for an array of shape {matrix.shape}")
    flat = pa.array(np.ascontiguousarray(matrix, np.float32).ravel())
    vectors = pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
    return ItemColumns(str(path), ids, {"vector": vectors})


def _in_memory(source: Any) -> pa.Table:
    try:
        if hasattr(source, "to_arrow"):
            return source.to_arrow()
        is_frame = type(source).__module__.startswith("pandas.")
        return pa.Table.from_pandas(source, preserve_index=False) if is_frame else pa.table(source)
    except (TypeError, ValueError, OverflowError, pa.ArrowInvalid) as error:
        kind = type(source).__name__
        raise DataError(
            f"an item table is a file, a frame or columns, not {kind}: {error}"
        ) from None


def _delimited(path: Path) -> pa.Table:
    """All columns as text. A cell may be as long as the file: it is read in one block."""
    separator = "\t" if path.suffix == ".tsv" else ","
    block = pcsv.ReadOptions(block_size=min(path.stat().st_size + 1, 2**31 - 1))
    parse = pcsv.ParseOptions(delimiter=separator, newlines_in_values=True)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            names = next(csv.reader(file, delimiter=separator), [])
        text = pcsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        return pcsv.read_csv(path, block, parse, text)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a table of items: {error}") from None


def _by_id(table: pa.Table, name: str) -> ItemColumns:
    """The column of ids found by its name; text that holds numbers only becomes numbers."""
    names = [str(column) for column in table.column_names]
    key = place_of(names, ID_NAMES)
    if key is None:
        raise DataError(
            f"{name} needs a column of item ids, such as item_id (columns found: "
            f"{', '.join(names) or 'none'})"
        )
    if len(table) == 0:
        raise DataError(f"{name} holds no items")
    columns = dict(zip(names, map(_whole, table.columns), strict=True))
    ids = columns.pop(names[key])
    return ItemColumns(name, ids, {name: _decoded(column) for name, column in columns.items()})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _decoded(column: pa.Array) -> pa.Array:
    """Cells without blanks around them; null where they are empty."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    column = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.large_string()), column)
    numbers = pc.all(pc.match_substring_regex(column, _NUMBER)).as_py()
    return column.cast(pa.float64()) if numbers and column.null_count < len(column) else column
