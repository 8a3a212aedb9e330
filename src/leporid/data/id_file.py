"""`read_ids`: a list of ids from a text file or from a column of a table."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from leporid.data.columns import find_column, normalise, usual_names
from leporid.data.id_map import uuids_as_text
from leporid.errors import DataError


def read_ids(path: str | Path, role: str = "user", column: str | None = None) -> list[Any]:
    """The ids in a file, in its order, each once.

    A parquet, CSV or TSV file has them in `column`, else in its only column or in the one that
    looks like the `role` ("user" or "item"); any other file has one id per line.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    if path.suffix in (".parquet", ".pq"):
        values = _from_parquet(path, role, column)
    elif path.suffix in (".csv", ".tsv"):
        values = _from_text(path, role, column)
    else:
        values = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    ids = list(dict.fromkeys(value for value in values if value not in (None, "")))
    if not ids:
        raise DataError(f"{path} holds no {role} ids")
    return ids


def _from_parquet(path: Path, role: str, column: str | None) -> list[Any]:
    try:
        with pa_parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            name = names[find_column(names, role, column, str(path))]
            values = file.read([name]).column(0)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a whole parquet file: {error}") from None
    return [value for chunk in values.chunks for value in uuids_as_text(chunk).to_pylist()]


def _from_text(path: Path, role: str, column: str | None) -> list[Any]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        rows = [[field.strip() for field in line] for line in lines if line]
    if not rows:
        return []
    names = rows[0]
    # A single column of text may begin with an id: only a usual name is taken for one.
    has_names = (
        len(names) > 1 or column in names or normalise(names[0]) in ("id", *usual_names(role))
    )
    place = find_column(names, role, column, str(path))
    if short := next((row for row in rows if len(row) <= place), None):
        raise DataError(f"{path}: a row has {len(short)} columns, not {len(names)}: {short}")
    return [row[place] for row in rows[has_names:]]
