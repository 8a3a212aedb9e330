"""Everything that is not delimited text: parquet, frames, and sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from leporid.data.columns import find_columns
from leporid.data.raw import LoadReport, RawTable
from leporid.errors import DataError

__all__ = ["is_frame", "read_frame", "read_matrix", "read_parquet"]

Given = Mapping[str, str | int | None]


def read_parquet(path: Path, given: Given, *, need_rating: bool = False) -> RawTable:
    """A parquet file, or a directory of them in the order of their names."""
    import pyarrow.dataset as pa_dataset

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} is a directory without .parquet files")
    try:
        dataset = pa_dataset.dataset([str(file) for file in files], format="parquet")
        names = dataset.schema.names
        columns = find_columns(names, given, str(path))
        wanted = columns.places()
        if not need_rating:
            wanted.pop("rating", None)
        table = dataset.to_table(columns=[names[place] for place in wanted.values()])
    except pa.ArrowException as error:
        raise DataError(f"{path} is not a whole parquet file: {error}") from None
    except OSError as error:
        raise DataError(f"could not read {path}: {error}") from None
    return _raw(table, wanted, names, columns.guessed, str(path), "parquet", columns.places())


def is_frame(source: Any) -> bool:
    """A pyarrow table, a mapping of columns, or anything that speaks Arrow (pandas, polars)."""
    return (
        isinstance(source, pa.Table | Mapping)
        or hasattr(source, "__arrow_c_stream__")
        or hasattr(source, "collect_schema")
        or type(source).__module__.split(".")[0] == "pandas"
    )


def read_frame(source: Any, given: Given, *, need_rating: bool = False) -> RawTable:
    """A pandas or polars frame, a pyarrow table or a mapping of columns; neither is imported."""
    package = type(source).__module__.split(".")[0]
    origin = f"the {package} {type(source).__name__}"
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):  # polars.LazyFrame
        source = source.collect()
    names = [str(name) for name in _names(source)]
    columns = find_columns(names, given, origin)
    wanted = columns.places()
    if not need_rating:
        wanted.pop("rating", None)
    try:
        table = _to_arrow(source, package, list(wanted.values()))
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"{origin} cannot be read as columns: {error}") from None
    return _raw(table, wanted, names, columns.guessed, origin, "frame", columns.places())


def _names(source: Any) -> Any:
    if isinstance(source, pa.Table):
        return source.column_names
    if isinstance(source, Mapping):
        return source.keys()
    return source.columns if hasattr(source, "columns") else pa.table(source).column_names


def _to_arrow(source: Any, package: str, places: list[int]) -> pa.Table:
    """Only the wanted columns are converted."""
    if package == "pandas":
        return pa.Table.from_pandas(source.iloc[:, places], preserve_index=False)
    if isinstance(source, Mapping):
        values = list(source.values())
        chosen = [_column(values[place]) for place in places]
        return pa.table(chosen, names=[str(place) for place in places])
    table = source if isinstance(source, pa.Table) else pa.table(source)
    return table.select(places)


def _column(values: Any) -> pa.Array:
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)


def _raw(
    table: pa.Table,
    wanted: Mapping[str, int],
    names: list[str],
    guessed: tuple[str, ...],
    origin: str,
    kind: str,
    found: Mapping[str, int],
) -> RawTable:
    report = LoadReport(
        origin=origin,
        format=kind,
        columns={role: names[place] for role, place in found.items()},
        guessed=guessed,
        rows=table.num_rows,
    )
    return RawTable({role: table.column(i) for i, role in enumerate(wanted)}, report)


def read_matrix(matrix: Any) -> RawTable:
    """A scipy sparse matrix: rows are users, columns items, values ratings; no times."""
    entries = matrix.tocoo()
    columns = {
        "user": pa.chunked_array([pa.array(np.asarray(entries.row, dtype=np.int64))]),
        "item": pa.chunked_array([pa.array(np.asarray(entries.col, dtype=np.int64))]),
        "rating": pa.chunked_array([pa.array(np.asarray(entries.data, dtype=np.float64))]),
    }
    report = LoadReport(
        origin=f"the {matrix.shape[0]} x {matrix.shape[1]} {type(matrix).__name__}",
        format="matrix",
        columns={"user": "row", "item": "column", "rating": "value"},
        guessed=(),
        rows=len(entries.data),
    )
    return RawTable(columns, report)
