"""Delimited text, plain or gzip, through pyarrow's CSV reader: no Python loop over lines."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.csv as pa_csv

from leporid.data.columns import RawTable, Requested, find_columns, looks_like_header
from leporid.errors import DataError

_MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "\\N")
"""Unquoted fields that mean 'nothing here'."""
_UNIT_SEPARATOR = "\x1f"
"""Stands in for a separator of several bytes, which pyarrow cannot split at."""
_GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class _Layout:
    """What the beginning of the file says about all of it."""

    path: Path
    encoding: str
    separator: str
    header: bool
    names: list[str]
    first_row: list[str]
    skip: int
    """Lines before the first row of data."""


def read_text(
    path: Path,
    requested: Requested,
    need_rating: bool,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
) -> RawTable:
    """Read the user, item, time and (if asked for) rating columns of a delimited file."""
    layout = _look(path, separator, header, encoding)
    first_row = None if layout.header else layout.first_row
    columns = find_columns(layout.names, requested, str(path), need_rating, first_row=first_row)
    table = _read(layout, columns.places)
    text = {"separator": layout.separator, "header": layout.header}
    return RawTable.of(table, columns, str(path), "text", **text)


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
    except _GZIP_ERRORS as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from None
    except (UnicodeDecodeError, LookupError) as error:
        raise _undecodable(f"{path}, line {skip + 1}", encoding, f" ({error})") from None
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
    return _Layout(path, encoding, separator, header, names, fields, skip + header)


def _undecodable(where: str, encoding: str, detail: str = "") -> DataError:
    return DataError(
        f"{where}: the bytes are not {encoding} text{detail}: "
        f"give the encoding, for example encoding='latin-1'"
    )


def _guess_separator(path: Path, line: str) -> str:
    """The separator the line uses; the order settles lines that hold several."""
    if path.name.removesuffix(".gz").endswith((".inter", ".tsv")) or "\t" in line:
        return "\t"
    if "::" in line:
        return "::"
    best = max(",;|", key=line.count)
    return " " if best not in line and " " in line.strip() else best


def _fields(line: str, separator: str) -> list[str]:
    if len(separator) > 1:
        return line.split(separator)
    return [field.strip() for field in next(csv.reader([line], delimiter=separator), [])]


def _read(layout: _Layout, places: Mapping[str, int]) -> pa.Table:
    """Ids come as dictionaries (small, and '007' stays '007'); the type of times is inferred.

    Only a single-threaded pass knows line numbers, so an error is located by a second one.
    """
    ids = pa.dictionary(pa.int32(), pa.string())
    types = {"user": ids, "item": ids, "rating": pa.float64()}
    convert = pa_csv.ConvertOptions(
        include_columns=[f"c{place}" for place in places.values()],
        column_types={f"c{places[role]}": types[role] for role in places if role in types},
        null_values=list(_MISSING),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        return _parse(layout, convert, threads=True)
    except pa.ArrowInvalid:
        try:
            return _parse(layout, convert, threads=False)
        except pa.ArrowInvalid as error:
            raise _located(layout, str(error)) from None


def _parse(layout: _Layout, convert: pa_csv.ConvertOptions, *, threads: bool) -> pa.Table:
    path, separator = layout.path, layout.separator.encode(layout.encoding)
    several = len(layout.separator.encode()) > 1
    read = pa_csv.ReadOptions(
        column_names=[f"c{place}" for place in range(len(layout.names))],
        skip_rows=layout.skip,
        use_threads=threads,
        encoding=layout.encoding,
        block_size=4 << 20,
    )
    parse = pa_csv.ParseOptions(
        delimiter=_UNIT_SEPARATOR if several else layout.separator,
        quote_char=False if several or path.name.endswith(".inter") else '"',
    )
    try:
        with _open(path) as file:
            source = _Replaced(file, separator) if several else file
            return pa_csv.read_csv(source, read, parse, convert)
    except _GZIP_ERRORS as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from None
    except UnicodeDecodeError as error:
        where = f"{path}, line {layout.skip + 1}"
        raise _undecodable(where, layout.encoding, f" ({error})") from None


class _Replaced(io.RawIOBase):
    """A byte stream with a separator of several bytes replaced by one byte, some lines a time."""

    def __init__(self, file: IO[bytes], separator: bytes, chunk: int = 1 << 20) -> None:
        super().__init__()
        self._file, self._separator, self._chunk = file, separator, chunk
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            lines = b"".join(self._file.readlines(self._chunk))
            self._ready = lines.replace(self._separator, _UNIT_SEPARATOR.encode())
        taken = self._ready[: len(buffer)]
        buffer[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)


def _located(layout: _Layout, message: str) -> DataError:
    """pyarrow's complaint in our words: file, line, and what was expected there."""
    path = layout.path
    if "Empty CSV" in message:
        return DataError(f"{path} {'has a header and no rows' if layout.header else 'is empty'}")
    row = re.search(r"Row #(\d+)", message)
    where = f"{path}, line {_line_of_row(layout, int(row[1]))}" if row else str(path)
    if "UTF8" in message:
        return _undecodable(where, layout.encoding)
    if counts := re.search(r"Expected \d+ columns, got \d+", message):
        return DataError(f"{where}: {counts[0].lower()}: the line is malformed or the file was cut")
    if value := re.search(r"In CSV column #(\d+).*invalid value '(.*)'", message, re.DOTALL):
        name = layout.names[int(value[1])]
        return DataError(f"{where}: column {name!r} holds {value[2]!r}, which is no number")
    return DataError(f"{where}: {message}")


def _line_of_row(layout: _Layout, row: int) -> int:
    """The line, counting from 1, of pyarrow's row number, which leaves out blank lines."""
    with _open(layout.path) as file:
        lines = (number for number, line in enumerate(file, start=1) if line.strip(b"\r\n"))
        after = (number for number in lines if number > layout.skip)
        return next(itertools.islice(after, row - layout.skip - 1, None), layout.skip)
