"""`log_parts`: the files of a log, one or a folder of them as Spark and Hive write it.

Names that begin with `_` or `.` are notes of the writer (`_SUCCESS`, `.part-0.crc`), and a folder
called `day=2024-01-01` gives every row in it a column `day`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyarrow import fs

from leporid.data.source_file import SourceFile
from leporid.errors import DataError

_NULL = "__HIVE_DEFAULT_PARTITION__"
_TEXT = (".csv", ".tsv", ".inter")
Partitions = Mapping[str, str | None]
"""Columns that a file's folders name, each with the one value that all its rows have."""


class Part(NamedTuple):
    """A file of a log."""

    file: SourceFile
    partitions: Partitions


def log_parts(source: SourceFile) -> list[Part]:
    """The file itself, or those of a folder in the order of their names: parquet, else text."""
    if not source.is_folder():
        return [Part(source, {})]
    names = sorted(_listed(source), key=lambda name: name.parts)
    tables = [name for name in names if name.suffix in (".parquet", ".pq")] or [
        name
        for name in names
        if name.name.startswith("part-") or name.name.removesuffix(".gz").endswith(_TEXT)
    ]
    if not tables:
        raise DataError(
            f"{source.path} is a directory without .parquet files, or text files whose names "
            f"begin with part- or end with .csv"
        )
    parts = [Part(source.inside(str(name)), _partitions(name)) for name in tables]
    for part in parts:
        if part.partitions.keys() != parts[0].partitions.keys():
            raise DataError(
                f"{part.file.path} and {parts[0].file.path} lie in folders of different columns: "
                f"give one of these folders"
            )
    return parts


def constant(value: str | None, rows: int) -> pa.Array:
    """A column of one value, stored once."""
    codes = pa.array(np.zeros(rows, np.int32), mask=np.full(rows, value is None))
    return pa.DictionaryArray.from_arrays(codes, [value or ""])


def _partitions(name: PurePath) -> dict[str, str | None]:
    pairs = (folder.split("=", 1) for folder in name.parts[:-1] if "=" in folder)
    return {unquote(key): None if value == _NULL else unquote(value) for key, value in pairs}


def _listed(source: SourceFile) -> list[PurePath]:
    """Files below a folder, relative to it; a folder in it that cannot be read is an error."""
    if source.system is not None:
        base = PurePosixPath(str(source.content))
        found = source.system.get_file_info(fs.FileSelector(str(base), recursive=True))
        files = [PurePosixPath(i.path).relative_to(base) for i in found if i.is_file]
        return [file for file in files if not any(part[0] in "._" for part in file.parts)]

    def refuse(error: OSError) -> None:
        raise DataError(f"could not read {error.filename}: {error.strerror}") from None

    listed: list[PurePath] = []
    for folder, inner, names in os.walk(source.content, onerror=refuse):
        inner[:] = [name for name in inner if name[0] not in "._"]
        here = PurePath(folder).relative_to(source.content)
        listed += [here / name for name in names if name[0] not in "._"]
    return listed
