"""The door of every file that is read: pipes are copied once, and what goes wrong is a `DataError`.

`reading` opens it; `in_words` alone is for what is converted later or lies in several files.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import select
import stat
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

import pyarrow as pa

from leporid.errors import DataError, LeporidError, LeporidWarning

LONGEST_ROW = 4 << 20
"""Bytes of a row of text: longer ones are refused, so that nothing takes all memory or no end."""
_PATIENCE = 3.0
"""Seconds after which a pipe that brings nothing is spoken of."""
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


class SourceFile(NamedTuple):
    """A file that can be read more than once."""

    path: Path
    """As the caller named it: for messages, and for its ending."""
    content: Path
    """Where its bytes lie: the path itself, or the copy of a pipe."""

    def open(self) -> IO[bytes]:
        """The bytes, unpacked where they are gzip."""
        if self.begins_with(_GZIP):
            return cast(IO[bytes], gzip.open(self.content, "rb"))
        return open(self.content, "rb")

    def is_parquet(self) -> bool:
        """A directory, or a file by its content: a parquet file may have any name."""
        if self.content.is_dir() or self.path.suffix in (".parquet", ".pq"):
            return True
        return self.begins_with(_PARQUET)

    def begins_with(self, magic: bytes) -> bool:
        """Whether these are the first bytes."""
        with open(self.content, "rb") as file:
            return file.read(len(magic)) == magic


def located(source: str | os.PathLike[str]) -> Path:
    """The path; `~nobody`, who has no home, stays as it is written, as in a shell."""
    return Path(os.path.expanduser(source))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[SourceFile]:
    """A file or directory to read; a pipe is copied into a temporary file first."""
    with in_words(str(path)):
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            with _copied(path) as content:
                yield SourceFile(path, content)
        elif stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            yield SourceFile(path, path)
        else:
            raise DataError(f"{path} is a device or a socket: give a file or a pipe")


@contextlib.contextmanager
def in_words(origin: str, trouble: str = "cannot be read") -> Iterator[None]:
    """Whatever reading and converting raises, as a `DataError` of one sentence about `origin`."""
    try:
        yield
    except LeporidError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{origin} is not a whole gzip file: {shortened(error)}") from None
    except OSError as error:
        raise DataError(f"could not read {origin}: {error.strerror or shortened(error)}") from None
    except (pa.ArrowException, csv.Error, UnicodeError, OverflowError, MemoryError) as error:
        reason = shortened(error) or "there is not enough memory"
        raise DataError(f"{origin} {trouble}: {reason}") from None


def shortened(text: object, most: int = 200) -> str:
    """Text for a message: one line, and not a whole file."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[:most]}..."


@contextlib.contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """The copy of all that a pipe brings; who waits is told so."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb", buffering=0) as pipe, tempfile.NamedTemporaryFile() as copy:
        if not select.select([pipe], [], [], _PATIENCE)[0]:
            text = f"{path} is a pipe that nothing has been written to: waiting for it"
            warnings.warn(text, LeporidWarning, stacklevel=6)
            select.select([pipe], [], [])
        os.set_blocking(handle, True)
        source, unbroken = SourceFile(path, Path(copy.name)), 0
        while block := pipe.read(1 << 20):
            copy.write(block)
            unbroken = 0 if b"\n" in block or b"\r" in block else unbroken + len(block)
            if unbroken > LONGEST_ROW:
                copy.flush()
                if not (source.is_parquet() or source.begins_with(_GZIP)):
                    raise DataError(too_long(str(path)))
                unbroken = 0
        copy.flush()
        yield source.content


def too_long(where: str) -> str:
    """What is said of a row that is no row."""
    size = f"{LONGEST_ROW / (1 << 20):g} MiB"
    return f"{where}: a row is longer than {size}: this is no log, or a quote is not closed"
