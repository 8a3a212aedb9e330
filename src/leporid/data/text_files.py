"""Delimited text, plain or gzip, through pyarrow's CSV reader: no Python loop over lines."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.csv as pa_csv

from leporid.data.columns import Columns, find_columns, looks_like_header
from leporid.data.raw import LoadReport, RawTable
from leporid.errors import DataError

__all__ = ["read_text"]

_MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "\\N")
"""Unquoted fields that mean 'nothing here'."""
_UNIT_SEPARATOR = "\x1f"
"""Stands in for a separator of several bytes, which pyarrow cannot split at."""
_ROW = re.compile(r"Row #(\d+)")


@dataclass(frozen=True)
class _Layout:
    """What the beginning of the file says about all of it."""

    separator: str
    header: bool
    names: list[str]
    first_row: list[str]
    skip: int
    """Lines before the first row of data."""


def read_text(
    path: Path,
    given: Mapping[str, str | int | None],
    *,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    need_rating: bool = False,
) -> RawTable:
    """Read the user, item, time and (if asked for) rating columns of a delimited file."""
    layout = _look(path, separator, header, encoding)
    columns = find_columns(
        layout.names,
        given,
        str(path),
        first_row=None if layout.header else layout.first_row,
    )
    wanted = columns.places()
    if not need_rating:
        wanted.pop("rating", None)
    table = _read(path, layout, wanted, encoding)
    return RawTable(
        {role: table.column(f"c{place}") for role, place in wanted.items()},
        LoadReport(
            origin=str(path),
            format="text",
            columns=_named(columns, layout),
            guessed=columns.guessed,
            rows=table.num_rows,
            separator=layout.separator,
            header=layout.header,
        ),
    )


def _named(columns: Columns, layout: _Layout) -> dict[str, str]:
    return {role: layout.names[place] for role, place in columns.places().items()}


def _open(path: Path) -> IO[bytes]:
    with open(path, "rb") as file:
        magic = file.read(2)
    return cast(IO[bytes], gzip.open(path, "rb")) if magic == b"\x1f\x8b" else open(path, "rb")


def _look(path: Path, separator: str | None, header: bool | None, encoding: str) -> _Layout:
    """Find the separator, the header and the names from the first line that is not blank."""
    skip = 0
    try:
        with _open(path) as file:
            for line in file:
                if line.strip():
                    break
                skip += 1
            else:
                raise DataError(f"{path} is empty")
        text = line.decode(encoding).removeprefix("\ufeff").rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from None
    except (UnicodeDecodeError, LookupError) as error:
        raise _undecodable(path, skip + 1, encoding, error) from None
    separator = separator or _guess_separator(path, text)
    fields = _fields(text, separator)
    if len(fields) < 2:
        raise DataError(
            f"{path}, line {skip + 1}: found one column where at least a user and an item are "
            f"needed, splitting at {separator!r}: give the separator"
        )
    if header is None:
        header = looks_like_header(fields)
    names = fields if header else [f"column {place}" for place in range(len(fields))]
    return _Layout(separator, header, names, fields, skip + 1 if header else skip)


def _undecodable(path: Path, line: int, encoding: str, error: Exception) -> DataError:
    return DataError(
        f"{path}, line {line}: the bytes are not {encoding} text ({error}): "
        f"give the encoding, for example encoding='latin-1'"
    )


def _guess_separator(path: Path, line: str) -> str:
    """The separator the line uses; the order settles lines that hold several."""
    if path.name.removesuffix(".gz").endswith((".inter", ".tsv")) or "\t" in line:
        return "\t"
    if "::" in line:
        return "::"
    counts = {candidate: line.count(candidate) for candidate in (",", ";", "|")}
    best = max(counts, key=lambda candidate: counts[candidate])
    if counts[best]:
        return best
    return " " if " " in line.strip() else ","


def _fields(line: str, separator: str) -> list[str]:
    if len(separator) > 1:
        return line.split(separator)
    return [field.strip() for field in next(csv.reader([line], delimiter=separator), [])]


def _read(path: Path, layout: _Layout, wanted: Mapping[str, int], encoding: str) -> pa.Table:
    """Ids come as dictionaries (small, and '007' stays '007'); the type of times is inferred.

    Only a single-threaded pass knows line numbers, so an error is located by a second one.
    """
    types: dict[str, pa.DataType] = {}
    for role, place in wanted.items():
        if role in ("user", "item"):
            types[f"c{place}"] = pa.dictionary(pa.int32(), pa.string())
        elif role == "rating":
            types[f"c{place}"] = pa.float64()
    try:
        return _parse(path, layout, wanted, types, encoding, threads=True)
    except pa.ArrowInvalid:
        try:
            return _parse(path, layout, wanted, types, encoding, threads=False)
        except pa.ArrowInvalid as error:
            raise _located(path, layout, str(error), encoding) from None


def _parse(
    path: Path,
    layout: _Layout,
    wanted: Mapping[str, int],
    types: Mapping[str, pa.DataType],
    encoding: str,
    *,
    threads: bool,
) -> pa.Table:
    several = len(layout.separator.encode()) > 1
    names = [f"c{place}" for place in range(len(layout.names))]
    options = {
        "read_options": pa_csv.ReadOptions(
            column_names=names,
            skip_rows=layout.skip,
            use_threads=threads,
            encoding=encoding,
            block_size=4 << 20,
        ),
        "parse_options": pa_csv.ParseOptions(
            delimiter=_UNIT_SEPARATOR if several else layout.separator,
            quote_char=False if several or path.name.endswith(".inter") else '"',
        ),
        "convert_options": pa_csv.ConvertOptions(
            include_columns=[f"c{place}" for place in wanted.values()],
            column_types=types,
            null_values=list(_MISSING),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }
    try:
        with _open(path) as file:
            source = _Replaced(file, layout.separator.encode(encoding)) if several else file
            return pa_csv.read_csv(source, **options)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from None
    except UnicodeDecodeError as error:
        raise _undecodable(path, layout.skip + 1, encoding, error) from None


class _Replaced(io.RawIOBase):
    """A byte stream with a separator of several bytes replaced by one byte, chunk by chunk."""

    def __init__(self, file: IO[bytes], separator: bytes, chunk: int = 1 << 20) -> None:
        super().__init__()
        self._file, self._separator, self._chunk = file, separator, chunk
        self._ready = b""
        self._held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            read = self._file.read(self._chunk)
            text = (self._held + read).replace(self._separator, _UNIT_SEPARATOR.encode())
            # The end of this chunk may be the beginning of a separator.
            hold = 0
            if read:
                prefixes = range(len(self._separator) - 1, 0, -1)
                hold = next((n for n in prefixes if text.endswith(self._separator[:n])), 0)
            self._held = text[len(text) - hold :]
            self._ready = text[: len(text) - hold]
            if not read:
                break
        taken = self._ready[: len(buffer)]
        buffer[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)


def _located(path: Path, layout: _Layout, message: str, encoding: str) -> DataError:
    """pyarrow's complaint in our words: file, line, and what was expected there."""
    if "Empty CSV" in message:
        return DataError(
            f"{path} has a header and no rows" if layout.header else f"{path} is empty"
        )
    row = _ROW.search(message)
    line = _line_of_row(path, layout.skip, int(row.group(1))) if row else None
    where = f"{path}, line {line}" if line else str(path)
    if "UTF8" in message:
        return DataError(
            f"{where}: the bytes are not {encoding} text: "
            f"give the encoding, for example encoding='latin-1'"
        )
    counts = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if counts:
        return DataError(
            f"{where}: expected {counts.group(1)} columns, got {counts.group(2)}: "
            f"the line is malformed or the file was cut"
        )
    value = re.search(r"In CSV column #(\d+).*invalid value '(.*)'", message, re.DOTALL)
    if value:
        name = layout.names[int(value.group(1))]
        return DataError(f"{where}: column {name!r} holds {value.group(2)!r}, which is no number")
    return DataError(f"{where}: {message}")


def _line_of_row(path: Path, skip: int, row: int) -> int:
    """The line, counting from 1, of pyarrow's row number, which leaves out blank lines."""
    seen = skip
    number = 0
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if number > skip and line.strip(b"\r\n"):
                seen += 1
                if seen == row:
                    break
    return number
