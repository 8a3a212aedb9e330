"""Formats made of tables: parquet (id, vector) and CSV (id, then one column an entry)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from leporid.errors import DataError
from leporid.initializers.base import InitialEmbeddings
from leporid.interop.sides import (
    SIDES,
    Side,
    assemble,
    ids_of,
    read_provenance,
    write_provenance,
)

__all__ = ["read_csv", "read_parquet", "write_csv", "write_parquet"]


def write_parquet(embeddings: InitialEmbeddings, folder: Path, name: str) -> None:
    """`users.parquet` and `items.parquet`: `id`, and `vector` as a fixed-size list."""
    for side, embedding, ids in embeddings.sides():
        vector = pa.FixedSizeListArray.from_arrays(
            pa.array(embedding.vectors.ravel()), embedding.dim
        )
        table = pa.table({"id": ids_of(ids, embedding.n), "vector": vector})
        note = json.dumps(dict(embedding.provenance), sort_keys=True)
        pq.write_table(
            table.replace_schema_metadata({"leporid.provenance": note}), folder / f"{side}.parquet"
        )
    write_provenance(folder, embeddings)


def read_parquet(folder: Path) -> InitialEmbeddings:
    """The inverse of `write_parquet`."""
    sides: list[Side] = []
    for side in SIDES:
        path = folder / f"{side}.parquet"
        try:
            table = pq.read_table(path, columns=["id", "vector"]).combine_chunks()
        except FileNotFoundError:
            raise DataError(f"no such file: {path}") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path} is not a parquet file of (id, vector): {error}") from None
        column = table.column("vector")
        lengths = set(column.combine_chunks().value_lengths().to_pylist())
        if len(lengths) != 1 or None in lengths:
            raise DataError(f"{path} must hold vectors of one length, found {sorted(lengths)}")
        flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
        vectors = flat.reshape(len(table), -1).astype(np.float32)
        sides.append((table.column("id").combine_chunks(), vectors))
    return assemble(sides[0], sides[1], read_provenance(folder), folder)


def write_csv(embeddings: InitialEmbeddings, folder: Path, name: str) -> None:
    """`users.csv` and `items.csv`: a header, then the id and the D entries of each row."""
    for side, embedding, ids in embeddings.sides():
        columns: dict[str, Any] = {"id": ids_of(ids, embedding.n)}
        for index, column in enumerate(embedding.vectors.T.copy()):
            columns[f"v{index}"] = column
        pcsv.write_csv(
            pa.table(columns),
            folder / f"{side}.csv",
            pcsv.WriteOptions(quoting_style="needed"),
        )
    write_provenance(folder, embeddings)


def read_csv(folder: Path) -> InitialEmbeddings:
    """The inverse of `write_csv`; the first column is the id, whatever its name."""
    sides: list[Side] = []
    for side in SIDES:
        path = folder / f"{side}.csv"
        try:
            header = pcsv.open_csv(path).schema.names
            types = dict.fromkeys(header[1:], pa.float32()) | {header[0]: pa.string()}
            options = pcsv.ConvertOptions(column_types=types, strings_can_be_null=False)
            parse = pcsv.ParseOptions(newlines_in_values=True)
            table = pcsv.read_csv(path, parse_options=parse, convert_options=options)
        except FileNotFoundError:
            raise DataError(f"no such file: {path}") from None
        except pa.ArrowInvalid as error:
            raise DataError(f"{path} is not a CSV of an id and numbers: {error}") from None
        vectors = np.column_stack([table.column(c).to_numpy() for c in header[1:]])
        sides.append((table.column(0).combine_chunks(), vectors.astype(np.float32)))
    return assemble(sides[0], sides[1], read_provenance(folder), folder)
