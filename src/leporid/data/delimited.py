"""Delimited text: its separator, header and quotes, and the table in it.

Text is parsed by pyarrow's CSV reader; where something is wrong, the standard library's finds the
line.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.csv as pa_csv

from leporid.data.columns import looks_like_header
from leporid.data.files import SourceFile
from leporid.errors import ConfigError, DataError, shortened

LONGEST_ROW = 4 << 20
"""Bytes of a row of text: longer rows are refused, so that memory is bounded."""
_UNDECODED = re.compile("[\ud800-\udfff]")
_NO_SEPARATOR = "\x1f\x1e\x1d"
"""What no line holds, for files with one column."""
_STAND_INS = [
    chr(n) for n in (*range(0x1F, 0, -1), *range(0x21, 0x7F)) if n not in b"\t\n\r"
]
"""One of them stands in for a separator of several bytes, which pyarrow cannot split at."""
_BYTE_ORDER_MARK = "\ufeff".encode()


class EncodingError(DataError):
    """The bytes are not text in the encoding that was named."""

    def __init__(
        self,
        where: str,
        encoding: str,
        detail: str = "",
    ) -> None:
        super().__init__(
            f"{where}: the bytes are not {encoding} text{detail}: "
            f"give the encoding, for example encoding='latin-1'"
        )


class NoRowsError(DataError):
    """A file has no rows, which is no mistake in a folder where other files have some."""


@dataclass(frozen=True)
class Layout:
    """What the beginning of a text file says about all of it."""

    file: SourceFile
    encoding: str
    separator: str
    delimiter: str
    """The separator, or a character of one byte, nowhere else in the file, for it."""
    quoting: bool
    header: bool
    names: list[str]
    first_row: list[str]
    line: int
    """The line, from 1, on which the rows of data begin."""

    @property
    def parsed_encoding(self) -> str:
        """The encoding of the bytes that are parsed: UTF-8 once the separator is replaced."""
        return self.encoding if self.delimiter == self.separator else "utf-8"


def read_lines(file: SourceFile) -> list[str]:
    """Return the lines of a small file that are not blank, without white space around them."""
    (column,) = text_table(file, _NO_SEPARATOR).columns
    lines = [line.strip() for line in column.to_pylist()]
    return [line for line in lines if line]


def text_table(
    file: SourceFile,
    separator: str,
    *,
    header: bool = False,
) -> pa.Table:
    """Return all columns of a small table as text, named by the first row if it is a `header`.

    What is not UTF-8 is Latin-1, as MovieLens' old files are.
    """
    try:
        return _text_table(file, separator, header, "utf-8")
    except EncodingError:
        return _text_table(file, separator, header, "latin-1")


def _text_table(
    file: SourceFile,
    separator: str,
    header: bool,
    encoding: str,
) -> pa.Table:
    layout = sniff(file, separator, header, encoding)
    types = {f"c{position}": pa.string() for position in range(len(layout.names))}
    convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return table_of(layout, convert).rename_columns(layout.names)


def sniff(
    file: SourceFile,
    separator: str | None,
    header: bool | None,
    encoding: str,
) -> Layout:
    """Find the separator, the header and the names from the first line that is not blank."""
    with file.open() as content:
        try:
            lines = io.TextIOWrapper(content, encoding, "surrogateescape", newline="")
        except (LookupError, ValueError) as error:
            raise EncodingError(file.path, encoding, f" ({error})") from None
        line, text = _first_line(lines, file.path, encoding)
        where = f"{file.path}, line {line}"
        separator = separator or _guess_separator(file.suffix, text)
        if any(character in separator for character in '"\r\n\0'):
            raise ConfigError(
                f"{separator!r} cannot separate fields: give another separator"
            )
        is_one_byte = len(separator.encode()) == 1
        quoting = is_one_byte and file.suffix not in (".inter", ".item")
        if quoting and '"' in text:
            fields, lines_taken = _quoted_row(text, lines, separator, where)
        else:
            fields = text.rstrip("\r\n").split(separator)
            lines_taken = 1
    fields = [field.strip() for field in fields]
    if header is None:
        header = looks_like_header(fields)
    return Layout(
        file,
        encoding,
        separator,
        separator if is_one_byte else _stand_in(file, encoding, separator),
        quoting,
        header,
        fields if header else [f"column {n}" for n in range(len(fields))],
        fields,
        line + lines_taken if header else line,
    )


def _first_line(
    lines: io.TextIOWrapper,
    path: str,
    encoding: str,
) -> tuple[int, str]:
    """Return the first line that is not blank, after its number."""
    line = 0
    text = ""
    while not text.strip("\ufeff \t\r\n"):
        text = lines.readline(LONGEST_ROW)
        line += 1
        if not text:
            raise NoRowsError(f"{path} is empty")
    where = f"{path}, line {line}"
    if len(text) == LONGEST_ROW:
        raise DataError(too_long(where))
    if "\0" in text or (not text.isascii() and _UNDECODED.search(text)):
        raise EncodingError(where, encoding)
    text = text.removeprefix("\ufeff")
    if re.match(r'\s*[\[{]\s*["\[{]', text):
        raise DataError(
            f"{where}: this looks like JSON: write one object on each line, into a file whose "
            f"name ends with .jsonl"
        )
    return line, text


def _quoted_row(
    text: str,
    lines: io.TextIOWrapper,
    separator: str,
    where: str,
) -> tuple[list[str], int]:
    """Return the fields of a row that begins with `text`, and over how many lines it goes."""
    reader = csv.reader(chain([text], lines), delimiter=separator, strict=True)
    try:
        return next(reader), reader.line_num
    except csv.Error as error:
        raise DataError(f"{_not_closed(where)} ({error})") from None


def _stand_in(
    file: SourceFile,
    encoding: str,
    separator: str,
) -> str:
    """Return a character of one byte that is nowhere in the file."""
    free = [character for character in _STAND_INS if character not in separator]
    try:
        with file.open() as content:
            text = _as_utf8(content, encoding)
            while block := text.read(LONGEST_ROW):
                free = [
                    character for character in free if character.encode() not in block
                ]
    except UnicodeError as error:
        raise EncodingError(file.path, encoding, f" ({error})") from None
    if not free:
        raise DataError(
            f"{file.path} holds every ASCII character, so none can stand in for the separator "
            f"{separator!r}: separate its fields with one character"
        )
    return free[0]


def _as_utf8(file: pa.NativeFile, encoding: str) -> pa.NativeFile:
    """Return the bytes of a text in UTF-8."""
    if codecs.lookup(encoding).name == "utf-8":
        return file
    return pa.transcoding_input_stream(file, encoding, "utf-8")


def _guess_separator(suffix: str, line: str) -> str:
    """Return the separator the line uses; the order settles lines that hold several."""
    if suffix in (".inter", ".tsv") or "\t" in line:
        return "\t"
    if "::" in line:
        return "::"
    best = max(",;|", key=line.count)
    if best not in line and " " in line.strip():
        return " "
    return best


def _not_closed(where: str) -> str:
    return (
        f"{where}: a quote opens here and is not closed where its field ends: close it, and write "
        f"quotes that belong to a field twice"
    )


def too_long(where: str) -> str:
    """Return what is wrong with a row of `LONGEST_ROW` bytes or more."""
    size = f"{LONGEST_ROW / (1 << 20):g} MiB"
    return f"{where}: a row is longer than {size}: this is no log, or a quote is not closed"


def table_of(layout: Layout, convert: pa_csv.ConvertOptions) -> pa.Table:
    """Read the whole file."""
    # In a pool of one thread, pyarrow up to 22 at least may wait for ever after a broken file.
    read = _read_options(layout, threads=pa.cpu_count() > 1)
    try:
        with _opened(layout, in_one_read=True) as text:
            return pa_csv.read_csv(text, read, _parse_options(layout), convert)
    except pa.ArrowInvalid as error:
        raise _fault(layout, str(error)) from None


def batches_of(
    layout: Layout,
    convert: pa_csv.ConvertOptions,
) -> Iterator[pa.RecordBatch]:
    """Read the file a block of text at a time."""
    read = _read_options(layout, threads=False)
    try:
        with _opened(layout) as text:
            yield from pa_csv.open_csv(text, read, _parse_options(layout), convert)
    except pa.ArrowInvalid as error:
        raise _fault(layout, str(error)) from None


def _read_options(layout: Layout, threads: bool) -> pa_csv.ReadOptions:
    return pa_csv.ReadOptions(
        skip_rows=layout.line - 1,
        column_names=[f"c{position}" for position in range(len(layout.names))],
        encoding=layout.parsed_encoding,
        use_threads=threads,
        block_size=_block_size(layout),
    )


def _parse_options(layout: Layout) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=layout.delimiter,
        quote_char='"' if layout.quoting else False,
        newlines_in_values=layout.quoting,
    )


def _block_size(layout: Layout) -> int:
    """Find a size of blocks that ends none inside a quoted line break; refuse wrong quotes."""
    size = LONGEST_ROW
    while layout.quoting and _cuts_a_quoted_line_break(layout, size):
        size += 1
    return size


class _QuotePatterns(NamedTuple):
    """What quotes may look like between the separators of a file."""

    well_formed: re.Pattern[bytes]
    """Text up to a quoted field that is wrong, or whose end is not yet read."""
    complete: re.Pattern[bytes]
    """A quoted field and what follows it."""

    @classmethod
    def of(cls, delimiter: bytes) -> Self:
        ends = re.escape(delimiter) + rb"\r\n"
        blanks = b" \t".replace(delimiter, b"")
        closed = rb'"[^"]*+(?:""[^"]*+)*+"'
        after = rb"[%b]*+[%b]" % (blanks, ends)
        # Plain fields are taken together, which makes files whose fields are all quoted fast.
        plain = rb'(?:"[^"]*+"[%b]++)++' % ends
        field = rb"(?<=[%b])(?:%b|%b(?=%b))" % (ends, plain, closed, after)
        # A quote anywhere else than where a field begins is a character like others.
        inside_a_field = rb'(?<![%b])"' % ends
        return cls(
            re.compile(rb'(?:[^"]++|%b|%b)*+' % (field, inside_a_field)),
            re.compile(rb"%b[%b]*+[^%b]" % (closed, blanks, blanks)),
        )


def _cuts_a_quoted_line_break(layout: Layout, size: int) -> bool:
    """Return whether a block ends inside a CR LF in quotes: pyarrow would drop one half.

    A quote that is not closed where its field ends is a `DataError`: pyarrow reads on up to the
    next quote, however far below, or joins what follows to the field.
    """
    patterns = _QuotePatterns.of(layout.delimiter.encode())
    # What is not yet known to be well-formed, after the byte before it: the text begins as if
    # after a line break.
    pending = b"\n"
    position = -1
    with _opened(layout) as file:
        for block in _blocks(_as_utf8(file, layout.encoding), size):
            is_in_quotes = len(pending) > 1
            if is_in_quotes and pending.endswith(b"\r") and block.startswith(b"\n"):
                return True
            if position < 0 and block.startswith(_BYTE_ORDER_MARK):
                block = block.removeprefix(_BYTE_ORDER_MARK)
                position += len(_BYTE_ORDER_MARK)
            known = pending + (block or b"\n")
            end = len(known)
            if is_in_quotes or b'"' in block:
                well_formed = patterns.well_formed.match(known, 1)
                end = well_formed.end() if well_formed else 1
            position += end - 1
            pending = known[end - 1 :]
            is_open = len(pending) > 1
            if is_open and (not block or patterns.complete.match(pending, 1)):
                raise DataError(_not_closed(_place(layout, position + 1)))
            if len(pending) > 2 * LONGEST_ROW:
                raise DataError(too_long(_place(layout, position + 1)))
    return False


def _blocks(text: pa.NativeFile, size: int) -> Iterator[bytes]:
    """Read blocks of this size, and after the last one an empty block."""
    while block := text.read(size):
        yield block
    yield b""


def _place(layout: Layout, position: int) -> str:
    """Return the file, and the line of a byte of its text in UTF-8."""
    line = 1
    last = b""
    with _opened(layout) as file:
        text = _as_utf8(file, layout.encoding)
        while position > 0 and (block := text.read(min(position, LONGEST_ROW))):
            position -= len(block)
            line += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
            line -= last == b"\r" and block.startswith(b"\n")
            last = block[-1:]
    return f"{layout.file.path}, line {line}"


@contextmanager
def _opened(
    layout: Layout,
    in_one_read: bool = False,
) -> Iterator[pa.NativeFile | io.BufferedReader]:
    """Open the bytes for pyarrow, with a separator of one byte.

    pyarrow's threads must not read through Python where the process may end soon: they abort it.
    """
    try:
        with layout.file.open() as file:
            if layout.delimiter == layout.separator:
                yield file
                return
            replaced = _Replaced(_as_utf8(file, layout.encoding))
            replaced.separator = layout.separator.encode()
            replaced.delimiter = layout.delimiter.encode()
            if in_one_read:
                yield pa.BufferReader(b"".join(iter(replaced.read, b"")))
            else:
                yield replaced
    except UnicodeError as error:
        raise EncodingError(layout.file.path, layout.encoding, f" ({error})") from None


class _Replaced(io.BufferedReader):
    """A file with another separator, a block at a time; no block ends inside a separator."""

    separator: bytes
    delimiter: bytes

    def read(self, size: int | None = -1, /) -> bytes:
        block = super().read(LONGEST_ROW)
        while block[-1:] in self.separator and (following := super().read(1)):
            block += following
        return block.replace(self.separator, self.delimiter)

    read1 = read


def _fault(layout: Layout, message: str) -> DataError:
    """Find the first row that is wrong and its line, as the standard library reads the file.

    `message` is what pyarrow said; its rows leave out blank lines, and have no numbers in threads.
    """
    path = layout.file.path
    if "Empty CSV" in message:
        return NoRowsError(f"{path} has no rows")
    limit = csv.field_size_limit(LONGEST_ROW)
    try:
        with _opened(layout) as file:
            error = _first_wrong_row(layout, file)
    finally:
        csv.field_size_limit(limit)
    return error or DataError(f"{path}: {shortened(message)}")


def _first_wrong_row(
    layout: Layout,
    file: pa.NativeFile | io.BufferedReader,
) -> DataError | None:
    width = len(layout.names)
    text = io.TextIOWrapper(file, layout.parsed_encoding, "surrogateescape", newline="")
    for _ in range(layout.line - 1):
        text.readline()
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if layout.quoting else csv.QUOTE_NONE
    reader = csv.reader(text, delimiter=layout.delimiter, quoting=quoting)
    where = f"{layout.file.path}, line {layout.line}"
    try:
        for fields in reader:
            row = "".join(fields)
            if fields and len(fields) != width:
                return DataError(
                    f"{where}: expected {width} columns, got {len(fields)}: the line is malformed "
                    f"or the file was cut"
                )
            if not row.isascii() and _UNDECODED.search(row):
                return EncodingError(where, layout.encoding)
            if len(row) > LONGEST_ROW:
                return DataError(too_long(where))
            where = f"{layout.file.path}, line {layout.line + reader.line_num}"
    except csv.Error as error:
        is_too_long = "limit" in str(error)
        return DataError(too_long(where) if is_too_long else _not_closed(where))
    return None
