"""Files that are read, here or at an address such as s3://bucket/key, and delimited text in them.

`reading` opens a file or folder, and whatever goes wrong is a `DataError` of one sentence. Text is
parsed by pyarrow's CSV reader; where something is wrong, the standard library's finds the line.
"""

import codecs
import csv
import errno
import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from pyarrow import fs

from leporid.data.columns import looks_like_header
from leporid.errors import ConfigError, DataError, LeporidError, shortened

LONGEST_ROW = 4 << 20
"""Bytes of a row of text: longer rows are refused, so that memory is bounded."""
SPLIT_SUMMARY = "split.json"
"""The file by which the folder of a `Split` is known."""
_CODECS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes to pyarrow's name of the compression."""
_UNDECODED = re.compile("[\ud800-\udfff]")
_NO_SEPARATOR = "\x1f\x1e\x1d"
"""What no line holds, for files with one column."""
_STAND_INS = [
    chr(n) for n in (*range(0x1F, 0, -1), *range(0x21, 0x7F)) if n not in b"\t\n\r"
]
"""One of them stands in for a separator of several bytes, which pyarrow cannot split at."""
_BYTE_ORDER_MARK = "\ufeff".encode()


class SourceFile(NamedTuple):
    """A file or folder that can be read more than once."""

    path: str
    """As the caller named it, without passwords: for messages, and for its ending."""
    content: str
    """Where its bytes lie in `system`: the path itself, or the copy of a pipe."""
    system: fs.FileSystem

    @property
    def suffix(self) -> str:
        """The ending that tells the format: `.csv` of `log.csv.gz`."""
        return PurePosixPath(re.sub(r"\.(gz|bz2|zst)$", "", self.path)).suffix

    def open(self) -> pa.NativeFile:
        """The bytes, decompressed where they are gzip, bzip2 or Zstandard."""
        first = self._beginning()
        codec = next(
            (name for magic, name in _CODECS.items() if first.startswith(magic)), None
        )
        return self.system.open_input_stream(self.content, compression=codec)

    def parquet(self, *, whole: bool = False) -> pa_parquet.ParquetFile:
        """A parquet file, of which some columns are read, all rows at once if `whole`."""
        return pa_parquet.ParquetFile(
            self.system.open_input_file(self.content), pre_buffer=whole
        )

    def is_folder(self) -> bool:
        return bool(
            self.system.get_file_info(self.content).type == fs.FileType.Directory
        )

    def is_parquet(self) -> bool:
        """A directory, or a file by its content: a parquet file may have any name."""
        if self.path.endswith((".parquet", ".pq")) or self.is_folder():
            return True
        return self._beginning().startswith(b"PAR1")

    def _beginning(self) -> bytes:
        with self.system.open_input_stream(self.content, compression=None) as file:
            return bytes(file.read(4))


def is_address(source: str | os.PathLike[str]) -> bool:
    """Whether this is s3://bucket/key or its like, and no path."""
    return (
        isinstance(source, str)
        and re.match(r"[a-z][a-z0-9+.-]+://", source) is not None
    )


def located(source: str | os.PathLike[str]) -> Path:
    """The path; `~nobody`, who has no home, stays as it is written, as in a shell."""
    return Path(os.path.expanduser(source))


def is_split(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a folder that `Split.save` wrote."""
    return os.path.isfile(located(path) / SPLIT_SUMMARY)


@contextmanager
def reading(source: str | os.PathLike[str]) -> Iterator[SourceFile]:
    """A file or directory to read, also by its address; a pipe is copied into a file first."""
    if is_address(source):
        parts = urlsplit(str(source))
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        with in_words(shown):
            system, content = fs.FileSystem.from_uri(str(source))
            if system.get_file_info(content).type == fs.FileType.NotFound:
                raise DataError(f"no such file: {shown}")
            yield SourceFile(shown, content.rstrip("/"), system)
        return
    path, system = located(source), fs.LocalFileSystem()
    if not os.path.exists(path):
        raise DataError(f"no such file: {path}")
    with in_words(str(path)):
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            with tempfile.NamedTemporaryFile() as copy:
                with open(path, "rb") as pipe:
                    shutil.copyfileobj(pipe, copy, 1 << 20)
                copy.flush()
                yield SourceFile(str(path), copy.name, system)
        elif stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            yield SourceFile(str(path), path.as_posix(), system)
        else:
            raise DataError(f"{path} is a device or a socket: give a file or a pipe")


@contextmanager
def in_words(origin: str, trouble: str = "cannot be read") -> Iterator[None]:
    """Whatever reading and converting raises, as a `DataError` of one sentence about `origin`."""
    try:
        yield
    except LeporidError:
        raise
    except FileNotFoundError:
        raise DataError(f"no such file: {origin}") from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise DataError(_no_memory(origin)) from None
        reason = error.strerror or shortened(error)
        if re.search("compressed|decompress|inflate|zlib|BZ2|ZSTD", reason):
            raise DataError(
                f"{origin} is not a whole compressed file: {reason}"
            ) from None
        raise DataError(f"could not read {origin}: {reason}") from None
    except MemoryError:  # pyarrow's is one too
        raise DataError(_no_memory(origin)) from None
    except (pa.ArrowException, csv.Error, UnicodeError, OverflowError) as error:
        if "launch worker thread" in str(error):
            raise DataError(
                f"{origin} could not be read, because no thread could be started: allow this "
                f"process more memory or more threads"
            ) from None
        raise DataError(f"{origin} {trouble}: {shortened(error)}") from None


def _no_memory(origin: str) -> str:
    return (
        f"the memory of this process ran out while reading {origin}: give it more memory, or read "
        f"a part of the log"
    )


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
        """Of the bytes that are parsed, which are UTF-8 once the separator is replaced."""
        return self.encoding if self.delimiter == self.separator else "utf-8"


def read_lines(file: SourceFile) -> list[str]:
    """The lines of a small file that are not blank, without white space around them."""
    (column,) = text_table(file, _NO_SEPARATOR).columns
    lines = (line.strip() for line in column.to_pylist())
    return [line for line in lines if line]


def text_table(file: SourceFile, separator: str, *, header: bool = False) -> pa.Table:
    """All columns of a small table as text, under the names in its first row if it is a `header`.

    What is not UTF-8 is Latin-1, as MovieLens' old files are.
    """

    def read(encoding: str) -> pa.Table:
        layout = look(file, separator, header, encoding)
        types = {f"c{position}": pa.string() for position in range(len(layout.names))}
        convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return table_of(layout, convert).rename_columns(layout.names)

    try:
        return read("utf-8")
    except EncodingError:
        return read("latin-1")


def look(
    file: SourceFile, separator: str | None, header: bool | None, encoding: str
) -> Layout:
    """Find the separator, the header and the names from the first line that is not blank."""
    path, line, text = file.path, 0, ""
    with file.open() as content:
        try:
            lines = io.TextIOWrapper(content, encoding, "surrogateescape", newline="")
        except (LookupError, ValueError) as error:
            raise EncodingError(path, encoding, f" ({error})") from None
        while not text.strip("\ufeff \t\r\n"):
            text, line = lines.readline(LONGEST_ROW), line + 1
            if not text:
                raise NoRowsError(f"{path} is empty")
        where = f"{path}, line {line}"
        if len(text) == LONGEST_ROW:
            raise DataError(_too_long(where))
        if "\0" in text or (not text.isascii() and _UNDECODED.search(text)):
            raise EncodingError(where, encoding)
        text = text.removeprefix("\ufeff")
        if re.match(r'\s*[\[{]\s*["\[{]', text):
            raise DataError(
                f"{where}: this looks like JSON: convert it to CSV or parquet"
            )
        separator = separator or _guess_separator(file.suffix, text)
        if any(character in separator for character in '"\r\n\0'):
            raise ConfigError(
                f"{separator!r} cannot separate fields: give another separator"
            )
        single = len(separator.encode()) == 1
        quoting = single and file.suffix not in (".inter", ".item")
        fields, taken = text.rstrip("\r\n").split(separator), 1
        if (
            quoting and '"' in text
        ):  # inside quotes the row may go on over several lines
            reader = csv.reader(chain([text], lines), delimiter=separator, strict=True)
            try:
                fields, taken = next(reader), reader.line_num
            except csv.Error as error:
                raise DataError(f"{_not_closed(where)} ({error})") from None
    delimiter = separator if single else _stand_in(file, encoding, separator)
    fields = [field.strip() for field in fields]
    if header is None:
        header = looks_like_header(fields)
    names = (
        fields if header else [f"column {position}" for position in range(len(fields))]
    )
    begin = line + taken if header else line
    return Layout(
        file, encoding, separator, delimiter, quoting, header, names, fields, begin
    )


def _stand_in(file: SourceFile, encoding: str, separator: str) -> str:
    """A character of one byte that is nowhere in the file."""
    free = dict.fromkeys(
        character for character in _STAND_INS if character not in separator
    )
    try:
        with file.open() as content:
            for block in iter(
                partial(_as_utf8(content, encoding).read, LONGEST_ROW), b""
            ):
                free = {
                    character: None
                    for character in free
                    if character.encode() not in block
                }
    except UnicodeError as error:
        raise EncodingError(file.path, encoding, f" ({error})") from None
    if not free:
        raise DataError(
            f"{file.path} holds every ASCII character, so none can stand in for the separator "
            f"{separator!r}: separate its fields with one character"
        )
    return next(iter(free))


def _as_utf8(file: pa.NativeFile, encoding: str) -> pa.NativeFile:
    """The bytes of a text in UTF-8."""
    if codecs.lookup(encoding).name == "utf-8":
        return file
    return pa.transcoding_input_stream(file, encoding, "utf-8")


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
    # In a pool of one thread, pyarrow up to 22 at least may wait for ever after a broken file.
    options = _options(layout, _block_size(layout), threads=pa.cpu_count() > 1)
    try:
        with _opened(layout, whole=True) as text:
            return pa_csv.read_csv(text, *options, convert)
    except pa.ArrowInvalid as error:
        raise _fault(layout, str(error)) from None


def batches_of(
    layout: Layout, convert: pa_csv.ConvertOptions
) -> Iterator[pa.RecordBatch]:
    """What `table_of` reads, a block of text at a time."""
    options = _options(layout, _block_size(layout), threads=False)
    try:
        with _opened(layout) as text:
            yield from pa_csv.open_csv(text, *options, convert)
    except pa.ArrowInvalid as error:
        raise _fault(layout, str(error)) from None


def _block_size(layout: Layout) -> int:
    """A size of blocks that ends none inside a quoted line break; wrong quotes are refused."""
    size = LONGEST_ROW
    while layout.quoting and _cuts_a_quoted_line_break(layout, size):
        size += 1
    return size


def _cuts_a_quoted_line_break(layout: Layout, size: int) -> bool:
    """Whether a block ends between the halves of a CR LF in quotes: pyarrow would drop one half.

    A quote that is not closed where its field ends is a `DataError`: pyarrow reads on up to the
    next quote, however far below, or joins what follows to the field.
    """
    delimiter = layout.delimiter.encode()
    ends = re.escape(delimiter) + rb"\r\n"
    blanks = b" \t".replace(delimiter, b"")
    closed = rb'"[^"]*+(?:""[^"]*+)*+"'
    after = rb"[%b]*+[%b]" % (blanks, ends)
    plain = rb'(?:"[^"]*+"[%b]++)++' % ends
    # Plain fields are taken together: this alone makes files whose fields are all quoted fast.
    # A quote anywhere else than where a field begins is a character like others.
    well_formed = re.compile(
        rb'(?:[^"]++|(?<=[%b])(?:%b|%b(?=%b))|(?<![%b])")*+'
        % (ends, plain, closed, after, ends)
    )
    complete = re.compile(rb"%b[%b]*+[^%b]" % (closed, blanks, blanks))
    start, pending = -1, b"\n"
    with _opened(layout) as file:
        text = _as_utf8(file, layout.encoding)
        for block in chain(iter(partial(text.read, size), b""), [b""]):
            # More than the byte before the next field is a quoted field whose end is not yet read.
            inside = len(pending) > 1
            if inside and pending.endswith(b"\r") and block.startswith(b"\n"):
                return True
            if start < 0 and block.startswith(_BYTE_ORDER_MARK):
                block, start = (
                    block.removeprefix(_BYTE_ORDER_MARK),
                    start + len(_BYTE_ORDER_MARK),
                )
            known = pending + (block or b"\n")
            end = len(known)
            if inside or b'"' in block:
                found = well_formed.match(known, 1)
                end = found.end() if found else 1
            start, pending = start + end - 1, known[end - 1 :]
            if len(pending) > 1 and (not block or complete.match(pending, 1)):
                raise DataError(_not_closed(_place(layout, start + 1)))
            if len(pending) > 2 * LONGEST_ROW:
                raise DataError(_too_long(_place(layout, start + 1)))
    return False


def _place(layout: Layout, position: int) -> str:
    """The file, and the line of a byte of its text in UTF-8."""
    line, last = 1, b""
    with _opened(layout) as file:
        text = _as_utf8(file, layout.encoding)
        while position > 0 and (block := text.read(min(position, LONGEST_ROW))):
            position -= len(block)
            line += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
            line -= last == b"\r" and block.startswith(b"\n")
            last = block[-1:]
    return f"{layout.file.path}, line {line}"


def _options(layout: Layout, block_size: int, threads: bool) -> tuple[Any, ...]:
    read = pa_csv.ReadOptions(
        skip_rows=layout.line - 1,
        column_names=[f"c{position}" for position in range(len(layout.names))],
        encoding=layout.parsed_encoding,
        use_threads=threads,
        block_size=block_size,
    )
    parse = pa_csv.ParseOptions(
        delimiter=layout.delimiter,
        quote_char='"' if layout.quoting else False,
        newlines_in_values=layout.quoting,
    )
    return read, parse


@contextmanager
def _opened(layout: Layout, whole: bool = False) -> Iterator[Any]:
    """The bytes for pyarrow, with a separator of one byte.

    pyarrow's threads must not read through Python where the process may end soon: they abort it.
    """
    try:
        with layout.file.open() as file:
            if layout.delimiter == layout.separator:
                yield file
                return
            replaced = _Replaced(_as_utf8(file, layout.encoding))
            replaced.pair = layout.separator.encode(), layout.delimiter.encode()
            yield (
                pa.BufferReader(b"".join(iter(replaced.read, b"")))
                if whole
                else replaced
            )
    except UnicodeError as error:
        raise EncodingError(layout.file.path, layout.encoding, f" ({error})") from None


class _Replaced(io.BufferedReader):
    """A file with another separator, a block at a time; no block ends inside a separator."""

    pair: tuple[bytes, bytes]

    def read(self, size: int | None = -1, /) -> bytes:
        block = super().read(LONGEST_ROW)
        while block[-1:] in self.pair[0] and (more := super().read(1)):
            block += more
        return block.replace(*self.pair)

    read1 = read


def _fault(layout: Layout, message: str) -> DataError:
    """The first row that is wrong and its line, as the standard library reads the file.

    `message` is what pyarrow said; its rows leave out blank lines, and have no numbers in threads.
    """
    path, width = layout.file.path, len(layout.names)
    if "Empty CSV" in message:
        return NoRowsError(f"{path} has no rows")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if layout.quoting else csv.QUOTE_NONE
    line, limit = layout.line, csv.field_size_limit(LONGEST_ROW)
    with _opened(layout) as file:
        text = io.TextIOWrapper(
            file, layout.parsed_encoding, "surrogateescape", newline=""
        )
        for _ in range(layout.line - 1):
            text.readline()
        reader = csv.reader(text, delimiter=layout.delimiter, quoting=quoting)
        try:
            for fields in reader:
                where, row = f"{path}, line {line}", "".join(fields)
                if fields and len(fields) != width:
                    counts = f"expected {width} columns, got {len(fields)}"
                    return DataError(
                        f"{where}: {counts}: the line is malformed or the file was cut"
                    )
                if not row.isascii() and _UNDECODED.search(row):
                    return EncodingError(where, layout.encoding)
                if len(row) > LONGEST_ROW:
                    return DataError(_too_long(where))
                line = layout.line + reader.line_num
        except csv.Error as error:
            say = _too_long if "limit" in str(error) else _not_closed
            return DataError(say(f"{path}, line {line}"))
        finally:
            csv.field_size_limit(limit)
    return DataError(f"{path}: {shortened(message)}")
