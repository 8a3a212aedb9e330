"""`read_ids`: a list of ids from a text file or from a column of a table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from leporid.data.columns import USUAL_NAMES, find_column, normalise
from leporid.data.id_map import uuids_as_text
from leporid.data.source_file import SourceFile, in_words, located, reading
from leporid.data.text_files import read_lines, read_rows
from leporid.errors import DataError


def read_ids(path: str | Path, role: str = "user", column: str | None = None) -> list[Any]:
    """The ids in a file, in its order, each once.

    A parquet, CSV or TSV file has them in `column`, else in its only column or in the one that
    looks like the `role` ("user" or "item"); any other file has one id per line.
    """
    path = located(path)
    if not os.path.exists(path):
        raise DataError(f"no such file: {path}")
    with reading(path) as file:
        if file.is_parquet():
            values = _from_parquet(file, role, column)
        elif path.suffix in (".csv", ".tsv"):
            values = _from_text(file, role, column)
        else:
            values = read_lines(file)
    ids = list(dict.fromkeys(value for value in values if value not in (None, "")))
    if not ids:
        raise DataError(f"{path} holds no {role} ids")
    return ids


def _from_parquet(file: SourceFile, role: str, column: str | None) -> list[Any]:
    origin = str(file.path)
    with (
        in_words(origin, "is not a whole parquet file"),
        pa_parquet.ParquetFile(file.content) as opened,
    ):
        names = opened.schema_arrow.names
        place = find_column(names, role, column, origin)
        values = opened.read([names[place]]).column(0)
        if pa.types.is_nested(values.type):
            raise DataError(f"{origin}: the column {names[place]!r} has type {values.type}, no id")
        return [value for chunk in values.chunks for value in uuids_as_text(chunk).to_pylist()]


def _from_text(file: SourceFile, role: str, column: str | None) -> list[Any]:
    separator = "\t" if file.path.suffix == ".tsv" else ","
    rows = read_rows(file, separator, quoting=True)
    names = [name.strip() for name in rows[0]]
    # A single column of text may begin with an id: only a usual name is taken for one.
    usual = ("id", *USUAL_NAMES[role].split())
    has_names = len(names) > 1 or column in names or normalise(names[0]) in usual
    place = find_column(names, role, column, str(file.path))
    return [row[place].strip() for row in rows[has_names:]]
