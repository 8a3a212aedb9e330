"""Vectors of one side with their ids, from a file: parquet, CSV, `.npy`, RecBole."""

import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.data.arrays import AnyArray
from leporid.data.files import in_words
from leporid.errors import DataError

Vectors: TypeAlias = tuple[pa.Array, NDArray[np.float32]]
"""Ids (int64 or string) in the order of the file, and float32[n, d]."""


def _read_parquet(path: Path) -> Vectors:
    """Read columns `id`, and `vector` with lists of one length."""
    with in_words(str(path), "is not a parquet file of (id, vector)"):
        table = pq.read_table(path, columns=["id", "vector"]).combine_chunks()
    column = table.column("vector").combine_chunks()
    lengths = set(column.value_lengths().to_pylist())
    if len(lengths) != 1 or None in lengths:
        raise DataError(
            f"{path} must hold vectors of one length, not of {sorted(lengths)}"
        )
    flat = column.flatten().to_numpy(zero_copy_only=False)
    vectors = flat.reshape(len(table), -1).astype(np.float32)
    return table.column("id").combine_chunks(), vectors


def _read_csv(path: Path) -> Vectors:
    """Read the id from the first column, whatever its name, and the entries from the others."""
    with in_words(str(path), "is not a CSV of an id and numbers"):
        header = pcsv.open_csv(path).schema.names
        types = dict.fromkeys(header, pa.float32())
        types[header[0]] = pa.string()
        table = pcsv.read_csv(
            path,
            parse_options=pcsv.ParseOptions(newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(
                column_types=types,
                strings_can_be_null=False,
            ),
        )
    vectors = np.column_stack([table.column(c).to_numpy() for c in header[1:]])
    return table.column(0).combine_chunks(), vectors.astype(np.float32)


def _read_npy(path: Path) -> Vectors:
    """Read vectors, and ids from `users.ids.npy` beside `users.npy`.

    The ids of implicit's `user_factors.npy` are in `user_ids.npy`.
    """
    beside = path.with_name(f"{path.stem}.ids.npy".replace("_factors.ids", "_ids"))
    vectors = _load(path)
    ids = _load(beside)
    if vectors.ndim != 2:
        raise DataError(f"{path} must be a matrix, not of shape {vectors.shape}")
    return pa.array(ids.tolist()), vectors.astype(np.float32)


def _load(path: Path) -> AnyArray:
    try:
        with in_words(str(path)):
            # Mapped first: a header that promises more than the file has is not allocated.
            return np.array(np.load(path, allow_pickle=False, mmap_mode="r"))
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        raise DataError(f"{path} is not a plain .npy file: {error}") from None


def _read_recbole(path: Path) -> Vectors:
    """Read a header, then lines of an id, a tab and numbers."""
    rows = []
    for line in path.read_text(encoding="utf-8").split("\n")[1:]:
        if line:
            name, _, numbers = line.partition("\t")
            rows.append([name, *numbers.split()])
    if not rows:
        raise DataError(f"{path} holds no vectors")
    return _parsed(path, rows, len(rows[0]) - 1)


def _parsed(
    path: Path,
    rows: list[list[str]],
    dim: int,
) -> Vectors:
    """Return the ids and vectors of the lines after the header."""
    vectors = np.empty((len(rows), dim), np.float32)
    for index, (_, *numbers) in enumerate(rows):
        where = f"line {index + 2} of {path}"
        if len(numbers) != dim or dim == 0:
            raise DataError(f"{where} has {len(numbers)} numbers, not {dim}")
        try:
            vectors[index] = numbers
        except ValueError as error:
            raise DataError(f"{where} is not a vector: {error}") from None
    return pa.array([row[0] for row in rows], pa.string()), vectors


VECTOR_READERS: dict[str, Callable[[Path], Vectors]] = {
    "parquet": _read_parquet,
    "npy": _read_npy,
    "csv": _read_csv,
    "recbole": _read_recbole,
    "implicit": _read_npy,
}
"""The reader of each format."""
