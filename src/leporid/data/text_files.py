"""Delimited text through pyarrow's CSV reader: no Python loop over lines.

Where something is wrong, the standard library's reader finds the line.
"""

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

import pyarrow as pa
import pyarrow.csv as pa_csv

from leporid.data.columns import looks_like_header
from leporid.data.source_file import SourceFile, shortened
from leporid.errors import ConfigError, DataError

LONGEST_ROW = 4 << 20
"""Bytes of a row of text: longer rows are refused, so that memory is bounded."""
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

    @property
    def delimiter(self) -> str:
        """The separator, or the byte that stands in for it."""
        return _UNIT_SEPARATOR if len(self.separator.encode()) > 1 else self.separator


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
            raise EncodingError(path, encoding, f" ({error})") from None
        lines = iter(partial(text.readline, LONGEST_ROW), "")
        for line in lines:
            if line.strip("\ufeff \t\r\n"):
                break
            before, skipped = before + len(line.encode()), skipped + 1
        else:
            raise NoRowsError(f"{path} is empty")
        where, begin = f"{path}, line {skipped + 1}", line.removeprefix("\ufeff")
        if len(line) == LONGEST_ROW:
            raise DataError(_too_long(where))
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


def _too_long(where: str) -> str:
    size = f"{LONGEST_ROW / (1 << 20):g} MiB"
    return f"{where}: a row is longer than {size}: this is no log, or a quote is not closed"


def table_of(layout: Layout, convert: pa_csv.ConvertOptions) -> pa.Table:
    """The whole file."""
    # In a pool of one thread, pyarrow up to 22 at least may wait for ever after a broken file.
    try:
        return _read(layout, convert, threads=pa.cpu_count() > 1)
    except pa.ArrowInvalid:
        pass
    try:
        return _read(layout, convert, threads=False)  # one thread counts the rows
    except pa.ArrowInvalid as error:
        raise _located(layout, str(error)) from None


def _read(layout: Layout, convert: pa_csv.ConvertOptions, threads: bool) -> pa.Table:
    with layout.file.open() as file:
        text = _Text(layout, file)
        table = pa_csv.read_csv(text, *_options(layout, threads), convert)
    text.check(table.num_rows)
    return table


def batches_of(layout: Layout, convert: pa_csv.ConvertOptions) -> Iterator[pa.RecordBatch]:
    """What `table_of` reads, a block of text at a time."""
    rows = 0
    try:
        with layout.file.open() as file:
            text = _Text(layout, file)
            for batch in pa_csv.open_csv(text, *_options(layout, threads=False), convert):
                rows += len(batch)
                yield batch
    except pa.ArrowInvalid as error:
        raise _located(layout, str(error)) from None
    text.check(rows)


def _options(layout: Layout, threads: bool) -> tuple[pa_csv.ReadOptions, pa_csv.ParseOptions]:
    read = pa_csv.ReadOptions(
        column_names=[f"c{position}" for position in range(len(layout.names))],
        use_threads=threads,
        block_size=LONGEST_ROW,
    )
    parse = pa_csv.ParseOptions(
        delimiter=layout.delimiter,
        quote_char='"' if layout.quoting else False,
        newlines_in_values=layout.quoting,
    )
    return read, parse


class _Text(io.RawIOBase):
    """The rows of data as UTF-8 with a separator of one byte, for pyarrow to read."""

    def __init__(self, layout: Layout, file: pa.NativeFile) -> None:
        super().__init__()
        self._layout, self._lines, self._quotes, self._ended = layout, 0, 0, True
        if codecs.lookup(layout.encoding).name != "utf-8":
            file = pa.transcoding_input_stream(file, layout.encoding, "utf-8")
        file.read(layout.offset)
        self._blocks: Iterator[bytes] = iter(partial(file.read, LONGEST_ROW), b"")
        if layout.delimiter != layout.separator:
            separator, single = layout.separator.encode(), layout.delimiter.encode()
            self._blocks = replaced(self._blocks, separator, single)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        try:
            block = next(self._blocks, b"")
        except UnicodeError as error:
            layout = self._layout
            raise EncodingError(layout.file.path, layout.encoding, f" ({error})") from None
        if block:
            self._quotes += block.count(b'"')
            self._lines += block.count(b"\n")
            self._ended = block.endswith(b"\n")
        return block

    def check(self, rows: int) -> None:
        """Where lines may have gone into a quoted field, that its quotes are closed.

        pyarrow reads on up to the next quote, however far below.
        """
        lines = self._lines + (not self._ended)
        if self._layout.quoting and self._quotes and (rows != lines or self._quotes % 2):
            _line_of_row(self._layout)


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


def _located(layout: Layout, message: str) -> DataError:
    """pyarrow's complaint in our words: file, line, and what was expected there."""
    path = layout.file.path
    if "Empty CSV" in message:
        return NoRowsError(f"{path} has no rows")
    row = re.search(r"Row #(\d+)", message)
    line = _line_of_row(layout, int(row[1]) if row else None)
    where = f"{path}, line {line}" if row else path
    if "UTF8" in message:
        return EncodingError(where, layout.encoding)
    if "straddling" in message:
        return DataError(_too_long(where))
    if counts := re.search(r"Expected \d+ columns, got \d+", message):
        return DataError(f"{where}: {counts[0].lower()}: the line is malformed or the file was cut")
    if value := re.search(r"In CSV column #(\d+).*invalid value '(.*)'", message, re.DOTALL):
        name = layout.names[int(value[1])]
        shown = shortened(value[2], 60)
        return DataError(f"{where}: column {name!r} holds {shown!r}, which is no number")
    return DataError(f"{where}: {shortened(message)}")


def _line_of_row(layout: Layout, row: int | None = None) -> int:
    """The line on which a row begins, the first is 1; blank lines are no rows.

    A quote before it that is not closed is an error, and so is a field that is too long.
    """
    quotes: Any = {"strict": True} if layout.quoting else {"quoting": csv.QUOTE_NONE}
    line, rows, limit = layout.line, 0, csv.field_size_limit(LONGEST_ROW)
    with layout.file.open() as file:
        text = io.TextIOWrapper(_Text(layout, file), "utf-8", "surrogateescape", newline="")  # type: ignore[arg-type]
        reader = csv.reader(text, delimiter=layout.delimiter, **quotes)
        try:
            for fields in reader:
                rows += bool(fields)
                if rows == row:
                    break
                line = layout.line + reader.line_num
        except csv.Error as error:
            say = _too_long if "limit" in str(error) else _not_closed
            raise DataError(say(f"{layout.file.path}, line {line}")) from None
        finally:
            csv.field_size_limit(limit)
    return line
