"""The door of every file that is read: pipes are copied once, and what goes wrong is a `DataError`.

An address such as s3://bucket/key is read through pyarrow's file systems.
`reading` opens it; `in_words` alone is for what is converted later or lies in several files.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import re
import select
import stat
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast
from urllib.parse import urlencode, urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs

from leporid.errors import DataError, LeporidError, LeporidWarning

LONGEST_ROW = 4 << 20
"""Bytes of a row of text: longer ones are refused, so that nothing takes all memory or no end."""
_PATIENCE = 3.0
"""Seconds after which a pipe that brings nothing is spoken of."""
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


class Address(PurePosixPath):
    """An address such as s3://bucket/key, for messages and for its ending: without passwords."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)


class SourceFile(NamedTuple):
    """A file or folder that can be read more than once."""

    path: Path | Address
    """As the caller named it: for messages, and for its ending."""
    content: Path | PurePosixPath
    """Where its bytes lie: the path itself, the copy of a pipe, or the path in `system`."""
    system: fs.FileSystem | None = None
    """None for files of this machine."""

    def open(self) -> IO[bytes]:
        """The bytes, unpacked where they are gzip."""
        if not self.begins_with(_GZIP):
            return self._opened()
        packed = self.content if self.system is None else self._opened()
        return cast(IO[bytes], gzip.open(cast(Path, packed), "rb"))

    def is_folder(self) -> bool:
        """Whether it holds files."""
        if self.system is None:
            return Path(self.content).is_dir()
        return bool(self.system.get_file_info(str(self.content)).type == fs.FileType.Directory)

    def inside(self, name: str) -> SourceFile:
        """A file of this folder."""
        return self._replace(path=self.path / name, content=self.content / name)

    def is_parquet(self) -> bool:
        """A directory, or a file by its content: a parquet file may have any name."""
        if self.path.suffix in (".parquet", ".pq") or self.is_folder():
            return True
        return self.begins_with(_PARQUET)

    def begins_with(self, magic: bytes) -> bool:
        """Whether these are the first bytes."""
        with self._opened() as file:
            return file.read(len(magic)) == magic

    def _opened(self) -> IO[bytes]:
        if self.system is None:
            return open(self.content, "rb")
        return cast(IO[bytes], self.system.open_input_file(str(self.content)))


def is_address(source: str | os.PathLike[str]) -> bool:
    """Whether this is s3://bucket/key or its like, and no path."""
    return isinstance(source, str) and re.match(r"[a-z][a-z0-9+.-]+://", source) is not None


def located(source: str | os.PathLike[str]) -> Path:
    """The path; `~nobody`, who has no home, stays as it is written, as in a shell."""
    return Path(os.path.expanduser(source))


@contextlib.contextmanager
def reading(source: Path | str) -> Iterator[SourceFile]:
    """A file or directory to read, also by its address; a pipe is copied into a file first."""
    if is_address(source):
        parts = urlsplit(str(source))
        shown = Address(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")
        with in_words(str(shown)):
            yield _remote(str(source), shown)
        return
    path = Path(source)
    with in_words(str(path)):
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            with _copied(path) as content:
                yield SourceFile(path, content)
        elif stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            yield SourceFile(path, path)
        else:
            raise DataError(f"{path} is a device or a socket: give a file or a pipe")


def _remote(address: str, shown: Address) -> SourceFile:
    """What lies at an address; AWS_ENDPOINT_URL names another host than Amazon's for s3://."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    parts = urlsplit(address)
    if parts.scheme == "s3" and endpoint and "endpoint_override=" not in parts.query:
        host = urlsplit(endpoint)
        query = urlencode({"scheme": host.scheme, "endpoint_override": host.netloc})
        address = urlunsplit(parts._replace(query=f"{parts.query}&{query}".lstrip("&")))
    system, path = fs.FileSystem.from_uri(address)
    if system.get_file_info(path).type == fs.FileType.NotFound:
        raise DataError(f"no such file: {shown}")
    return SourceFile(shown, PurePosixPath(path), system)


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
        yield Path(copy.name)


def too_long(where: str) -> str:
    """What is said of a row that is no row."""
    size = f"{LONGEST_ROW / (1 << 20):g} MiB"
    return f"{where}: a row is longer than {size}: this is no log, or a quote is not closed"
