"""Delimited text through pyarrow's CSV reader: no Python loop over lines."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from leporid.data import quoting
from leporid.data.columns import looks_like_header
from leporid.data.source_file import LONGEST_ROW, SourceFile, shortened, too_long
from leporid.errors import ConfigError, DataError

MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "\\N")
"""Unquoted fields that mean 'nothing here'."""
_UNIT_SEPARATOR = "\x1f"
"""Stands in for a separator of several bytes, which pyarrow cannot split at."""
_UNDECODED = re.compile("[\ud800-\udfff]")
_JSON = re.compile(r'\s*[\[{]\s*["\[{]')


class EncodingError(DataError):
    """The bytes are not text in the encoding that was named."""

    def __init__(self, where: str, encoding: str, detail: str = "") -> None:
        super().__init__(
            f"{where}: the bytes are not {encoding} text{detail}: "
            f"give the encoding, for example encoding='latin-1'"
        )


class NoRowsError(DataError):
    """A file without any, of which a folder may have some."""


@dataclass(frozen=True)
class Layout:
    """What the beginning of the file says about all of it."""

    file: SourceFile
    encoding: str
    separator: str
    quoting: bool
    header: bool
    names: list[str]
    first_row: list[str]
    line: int
    """The line, from 1, on which the rows of data begin."""
    offset: int
    """Bytes before that line, as UTF-8."""


def read_lines(file: SourceFile) -> list[str]:
    """The lines of a small file that are not blank, without white space around them."""
    columns = text_table(file, _UNIT_SEPARATOR, quoting=False).to_pydict().values()
    lines = (_UNIT_SEPARATOR.join(row).strip() for row in zip(*columns, strict=True))
    return [line for line in lines if line]


def text_table(
    file: SourceFile, separator: str, *, quoting: bool = True, header: bool = False
) -> pa.Table:
    """All columns of a small table as text, under the names in its first row if it is a `header`.

    What is not UTF-8 is Latin-1, as MovieLens' old files are.
    """

    def read(encoding: str) -> pa.Table:
        layout = look(file, separator, header, encoding, quoting)
        types = {f"c{position}": pa.string() for position in range(len(layout.names))}
        convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return table_of(layout, convert).rename_columns(layout.names)

    try:
        return read("utf-8")
    except EncodingError:
        return read("latin-1")


def look(
    file: SourceFile,
    separator: str | None,
    header: bool | None,
    encoding: str,
    quoting: bool = True,
) -> Layout:
    """Find the separator, the header and the names from the first line that is not blank."""
    path, before, skipped = file.path, 0, 0
    with file.open() as content:
        try:
            text = io.TextIOWrapper(content, encoding, "surrogateescape", newline="")
        except (LookupError, ValueError) as error:
            raise EncodingError(str(path), encoding, f" ({error})") from None
        lines = iter(partial(text.readline, LONGEST_ROW), "")
        for line in lines:
            if line.strip("\ufeff \t\r\n"):
                break
            before, skipped = before + len(line.encode()), skipped + 1
        else:
            raise NoRowsError(f"{path} is empty")
        where, begin = f"{path}, line {skipped + 1}", line.removeprefix("\ufeff")
        if len(line) == LONGEST_ROW:
            raise DataError(too_long(where))
        if "\0" in line or (not line.isascii() and _UNDECODED.search(line)):
            raise EncodingError(where, encoding)
        if _JSON.match(begin):
            raise DataError(f"{where}: this looks like JSON: convert it to CSV or parquet")
        separator = separator or _guess_separator(file.suffix, begin)
        if any(character in separator for character in '"\r\n\0'):
            raise ConfigError(f"{separator!r} cannot separate fields: give another separator")
        several = len(separator.encode()) > 1
        quoting = quoting and not several and file.suffix != ".inter"
        before += len(line.encode()) - len(begin.encode())
        if quoting and '"' in begin:
            fields, taken = _quoted_row(begin, lines, separator, where)
        else:
            fields, taken = begin.rstrip("\r\n").split(separator), [begin]
    fields = [field.strip() for field in fields]
    if header is None:
        header = looks_like_header(fields)
    names = fields if header else [f"column {position}" for position in range(len(fields))]
    if header:
        before, skipped = before + len("".join(taken).encode()), skipped + len(taken)
    about = separator, quoting, header, names, fields
    return Layout(file, encoding, *about, skipped + 1, before)


def _quoted_row(
    line: str, rest: Iterator[str], separator: str, where: str
) -> tuple[list[str], list[str]]:
    """The fields of the first row and its lines: inside quotes it may go on over several."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for each in chain([line], rest):
            taken.append(each)
            yield each

    try:
        return next(csv.reader(lines(), delimiter=separator, strict=True)), taken
    except csv.Error as error:
        raise DataError(f"{_not_closed(where)} ({error})") from None


def _guess_separator(suffix: str, line: str) -> str:
    """The separator the line uses; the order settles lines that hold several."""
    if suffix in (".inter", ".tsv") or "\t" in line:
        return "\t"
    if "::" in line:
        return "::"
    best = max(",;|", key=line.count)
    return " " if best not in line and " " in line.strip() else best


def _not_closed(where: str) -> str:
    return (
        f"{where}: a quote opens here and is not closed where its field ends: close it, and write "
        f"quotes that belong to a field twice"
    )


def table_of(layout: Layout, convert: pa_csv.ConvertOptions, exact: bool = False) -> pa.Table:
    """Fast where lines are rows; else, and to find the line of an error, in an exact pass."""
    try:
        with layout.file.open() as file:
            return pa_csv.read_csv(*_arguments(layout, convert, file, exact))
    except pa.ArrowInvalid as error:
        if exact:
            raise _located(layout, str(error)) from None
    except UnicodeError as error:
        raise EncodingError(str(layout.file.path), layout.encoding, f" ({error})") from None
    return table_of(layout, convert, exact=True)


def batches_of(layout: Layout, convert: pa_csv.ConvertOptions) -> Iterator[pa.RecordBatch]:
    """What `table_of` reads, a block of text at a time."""
    try:
        with layout.file.open() as file:
            yield from pa_csv.open_csv(*_arguments(layout, convert, file, exact=True))
    except pa.ArrowInvalid as error:
        raise _located(layout, str(error)) from None
    except UnicodeError as error:
        raise EncodingError(str(layout.file.path), layout.encoding, f" ({error})") from None


def _arguments(
    layout: Layout, convert: pa_csv.ConvertOptions, file: pa.NativeFile, exact: bool
) -> tuple[Any, ...]:
    """What pyarrow's readers take."""
    read = pa_csv.ReadOptions(
        column_names=[f"c{position}" for position in range(len(layout.names))],
        # In a pool of one thread, pyarrow up to 22 at least may wait for ever after a broken file.
        use_threads=not exact and pa.cpu_count() > 1,
        block_size=LONGEST_ROW,
    )
    parse = pa_csv.ParseOptions(
        delimiter=_one_byte(layout.separator),
        quote_char='"' if layout.quoting else False,
        newlines_in_values=exact and layout.quoting,
    )
    return _Blocks(_checked(_rows(layout, file), layout, exact)), read, parse, convert


def _one_byte(separator: str) -> str:
    return _UNIT_SEPARATOR if len(separator.encode()) > 1 else separator


def _rows(layout: Layout, file: pa.NativeFile) -> Iterator[bytes]:
    """The rows of data as UTF-8 with a separator of one byte, a block at a time."""
    if codecs.lookup(layout.encoding).name != "utf-8":
        file = pa.transcoding_input_stream(file, layout.encoding, "utf-8")
    file.read(layout.offset)
    blocks = iter(partial(file.read, LONGEST_ROW), b"")
    if len(layout.separator.encode()) > 1:
        return replaced(blocks, layout.separator.encode(), _UNIT_SEPARATOR.encode())
    return blocks


def replaced(chunks: Iterable[bytes], separator: bytes, single: bytes) -> Iterator[bytes]:
    """The chunks with `single` for every `separator`, also for one that lies across two chunks."""
    held = b""
    for chunk in chunks:
        text = (held + chunk).replace(separator, single)
        sizes = range(len(separator) - 1, 0, -1)
        size = next((n for n in sizes if text.endswith(separator[:n])), 0)
        text, held = text[: len(text) - size], text[len(text) - size :]
        if text:
            yield text
    if held:
        yield held


def _checked(chunks: Iterable[bytes], layout: Layout, exact: bool) -> Iterator[bytes]:
    """The chunks as they are; a quote that is not closed, or a row that is too long, is an error.

    pyarrow reads over such quotes. Where not `exact`, nothing is looked at before the first quote,
    and line breaks inside quotes are left to the exact pass, which also finds the line of an error.
    """
    path, separator = layout.file.path, ord(_one_byte(layout.separator))
    state, last = None, ord("\n")
    for chunk in chunks:
        if exact or state is not None or (layout.quoting and b'"' in chunk):
            if state is None:
                within = last not in (ord("\r"), ord("\n"), separator)
                state = quoting.initial_state(layout.line, within)
            text = np.frombuffer(chunk, np.uint8)
            broken = quoting.scan(text, separator, layout.quoting, -1, state)
            if broken or (state[quoting.INNER] and not exact):
                raise _unclosed(path, state[quoting.OPENED], exact)
            if exact and state[quoting.LENGTH] > LONGEST_ROW:
                raise DataError(too_long(f"{path}, line {state[quoting.BEGAN]}"))
        last = chunk[-1]
        yield chunk
    if state is not None and state[quoting.MODE] == quoting.IN_QUOTES:
        raise _unclosed(path, state[quoting.OPENED], exact)


def _unclosed(path: object, line: int, exact: bool) -> Exception:
    return DataError(_not_closed(f"{path}, line {line}")) if exact else pa.ArrowInvalid("a quote")


class _Blocks(io.RawIOBase):
    """Chunks of bytes as a file whose blocks do not end between a CR and its LF.

    pyarrow drops a line feed that begins a block, also inside quotes.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks, self._following = chunks, next(chunks, b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        block, self._following = self._following, next(self._chunks, b"")
        if block.endswith(b"\r") and self._following.startswith(b"\n"):
            self._following = self._following[1:] or next(self._chunks, b"")
            return block + b"\n"
        return block


def _located(layout: Layout, message: str) -> DataError:
    """pyarrow's complaint in our words: file, line, and what was expected there."""
    path = layout.file.path
    if "Empty CSV" in message:
        return NoRowsError(f"{path} has no rows")
    row = re.search(r"Row #(\d+)", message)
    where = f"{path}, line {_line_of_row(layout, int(row[1]))}" if row else str(path)
    if "UTF8" in message:
        return EncodingError(where, layout.encoding)
    if "straddling" in message:
        return DataError(too_long(where))
    if counts := re.search(r"Expected \d+ columns, got \d+", message):
        return DataError(f"{where}: {counts[0].lower()}: the line is malformed or the file was cut")
    if value := re.search(r"In CSV column #(\d+).*invalid value '(.*)'", message, re.DOTALL):
        name = layout.names[int(value[1])]
        shown = shortened(value[2], 60)
        return DataError(f"{where}: column {name!r} holds {shown!r}, which is no number")
    return DataError(f"{where}: {shortened(message)}")


def _line_of_row(layout: Layout, row: int) -> int:
    """The line, counting from 1, of pyarrow's row number, which leaves out blank lines."""
    state, separator = quoting.initial_state(layout.line), ord(_one_byte(layout.separator))
    with layout.file.open() as file:
        for chunk in _rows(layout, file):
            text = np.frombuffer(chunk, np.uint8)
            if quoting.scan(text, separator, layout.quoting, row - 1, state):
                break
    return int(state[quoting.BEGAN])
