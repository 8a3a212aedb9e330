"""Formats made of arrays: parquet (id, vector), CSV (id, one column per entry) and `.npy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.errors import DataError
from leporid.spectral import Embedding

_ID_FILES = {
    "users.npy": "users.ids.npy",
    "items.npy": "items.ids.npy",
    "user_factors.npy": "user_ids.npy",
    "item_factors.npy": "item_ids.npy",
}
"""Row r of the vectors belongs to row r of the ids. The second pair is named as in `implicit`."""


def write_parquet(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """`id`, and `vector` as a fixed-size list."""
    vector = pa.FixedSizeListArray.from_arrays(pa.array(embedding.vectors.ravel()), embedding.dim)
    note = json.dumps(dict(embedding.provenance), sort_keys=True)
    table = pa.table({"id": ids, "vector": vector})
    pq.write_table(table.replace_schema_metadata({"leporid.provenance": note}), path)


def read_parquet(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_parquet`."""
    try:
        table = pq.read_table(path, columns=["id", "vector"]).combine_chunks()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} is not a parquet file of (id, vector): {error}") from None
    column = table.column("vector").combine_chunks()
    lengths = set(column.value_lengths().to_pylist())
    if len(lengths) != 1 or None in lengths:
        raise DataError(f"{path} must hold vectors of one length, not of {sorted(lengths)}")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return table.column("id").combine_chunks(), flat.reshape(len(table), -1).astype(np.float32)


def write_csv(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """A header, then the id and the D entries of each row."""
    columns: dict[str, Any] = {"id": ids}
    columns |= {f"v{index}": column for index, column in enumerate(embedding.vectors.T.copy())}
    pcsv.write_csv(pa.table(columns), path, pcsv.WriteOptions(quoting_style="needed"))


def read_csv(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_csv`; the first column is the id, whatever its name."""
    try:
        header = pcsv.open_csv(path).schema.names
        types = dict.fromkeys(header[1:], pa.float32()) | {header[0]: pa.string()}
        options = pcsv.ConvertOptions(column_types=types, strings_can_be_null=False)
        parse = pcsv.ParseOptions(newlines_in_values=True)
        table = pcsv.read_csv(path, parse_options=parse, convert_options=options)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a CSV of an id and numbers: {error}") from None
    vectors = np.column_stack([table.column(c).to_numpy() for c in header[1:]])
    return table.column(0).combine_chunks(), vectors.astype(np.float32)


def write_npy(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """One file of vectors, one of ids beside it."""
    np.save(path, embedding.vectors, allow_pickle=False)
    plain = np.array(ids.to_pylist()) if len(ids) else np.empty(0, np.int64)
    np.save(path.with_name(_ID_FILES[path.name]), plain, allow_pickle=False)


def read_npy(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_npy`."""
    vectors, ids = (_load(file) for file in (path, path.with_name(_ID_FILES[path.name])))
    if vectors.ndim != 2:
        raise DataError(f"{path} must be a matrix, not of shape {vectors.shape}")
    return pa.array(ids.tolist()), vectors.astype(np.float32)


def _load(path: Path) -> NDArray[Any]:
    try:
        loaded: NDArray[Any] = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is not a plain .npy file: {error}") from None
    return loaded
