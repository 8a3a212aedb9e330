"""Files that are read, here or at an address such as s3://bucket/key.

`reading` opens a file or folder, and whatever goes wrong is a `DataError` of one sentence.
"""

import csv
import errno
import glob
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pa_parquet
from pyarrow import fs

from leporid.errors import DataError, LeporidError, shortened

SPLIT_SUMMARY = "split.json"
"""The file by which the folder of a `Split` is known."""
_CODECS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes to pyarrow's name of the compression."""


class SourceFile(NamedTuple):
    """A file or folder that can be read more than once."""

    path: str
    """The name the caller gave, without passwords: for messages, and for its ending."""
    content: str
    """Where the bytes lie in `system`: the path itself, or the copy of a pipe."""
    system: fs.FileSystem

    @property
    def suffix(self) -> str:
        """The ending that tells the format: `.csv` of `log.csv.gz`."""
        return PurePosixPath(re.sub(r"\.(gz|bz2|zst)$", "", self.path)).suffix

    def open(self) -> pa.NativeFile:
        """Open the bytes, decompressed where they are gzip, bzip2 or Zstandard."""
        beginning = self._beginning()
        compression = None
        for magic, name in _CODECS.items():
            if beginning.startswith(magic):
                compression = name
        return self.system.open_input_stream(self.content, compression=compression)

    def parquet(self, *, in_one_read: bool = False) -> pa_parquet.ParquetFile:
        """Open a parquet file, of which some columns are read, perhaps all rows at once."""
        opened = self.system.open_input_file(self.content)
        return pa_parquet.ParquetFile(opened, pre_buffer=in_one_read)

    def is_folder(self) -> bool:
        info = self.system.get_file_info(self.content)
        return bool(info.type == fs.FileType.Directory)

    def is_parquet(self) -> bool:
        """Return whether this is a folder or has the content of parquet, under any name."""
        if self.path.endswith((".parquet", ".pq")) or self.is_folder():
            return True
        return self._beginning().startswith(b"PAR1")

    def format(self) -> str:
        """Return "parquet", "JSON lines", "text" or "empty", by the name or else the content."""
        if self.is_parquet():
            return "parquet"
        if self.suffix in (".jsonl", ".ndjson"):
            return "JSON lines"
        if self.suffix in (".csv", ".tsv", ".inter"):
            return "text"
        with self.open() as file:
            beginning = file.read(100)
        if not beginning:
            return "empty"
        is_json = re.match(rb'(\xef\xbb\xbf)?\s*\{\s*"', beginning)
        return "JSON lines" if is_json else "text"

    def _beginning(self) -> bytes:
        with self.system.open_input_stream(self.content, compression=None) as file:
            return bytes(file.read(4))


def is_address(source: str | os.PathLike[str]) -> bool:
    """Return whether this is s3://bucket/key or its like, and no path."""
    if not isinstance(source, str):
        return False
    return re.match(r"[a-z][a-z0-9+.-]+://", source) is not None


def located(source: str | os.PathLike[str]) -> Path:
    """Return the path; `~nobody`, who has no home, stays as it is written, as in a shell."""
    return Path(os.path.expanduser(source))


def matching(source: str | os.PathLike[str]) -> list[str | os.PathLike[str]]:
    """Return the paths that a pattern such as `log-*.csv` matches, in order; else the path alone.

    An address is no pattern, nor is the name of a file that exists.
    """
    path = str(located(source))
    is_pattern = glob.has_magic(path) and not os.path.lexists(path)
    if is_address(source) or not is_pattern:
        return [source]
    found = glob.glob(path, recursive=True)
    if not found:
        raise DataError(f"no file matches {source}")
    return [*sorted(found, key=lambda name: Path(name).parts)]


def is_split(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a folder that `Split.save` wrote."""
    return os.path.isfile(located(path) / SPLIT_SUMMARY)


@contextmanager
def reading(source: str | os.PathLike[str]) -> Iterator[SourceFile]:
    """Open a file or folder, also by its address; a pipe is copied into a file first."""
    if is_address(source):
        with _reading_address(str(source)) as file:
            yield file
        return
    path = located(source)
    system = fs.LocalFileSystem()
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
def _reading_address(address: str) -> Iterator[SourceFile]:
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    shown = f"{parts.scheme}://{host}{parts.path}"
    with in_words(shown):
        system, content = fs.FileSystem.from_uri(address)
        if system.get_file_info(content).type == fs.FileType.NotFound:
            raise DataError(f"no such file: {shown}")
        yield SourceFile(shown, content.rstrip("/"), system)


@contextmanager
def in_words(origin: str, trouble: str = "cannot be read") -> Iterator[None]:
    """Turn whatever reading and converting raises into a `DataError` of one sentence.

    `origin` is what is read, and `trouble` what the sentence says of it.
    """
    try:
        yield
    except LeporidError:
        raise
    except FileNotFoundError:
        raise DataError(f"no such file: {origin}") from None
    except OSError as error:
        raise _in_words(origin, error) from None
    except MemoryError:  # pyarrow's is one too
        raise DataError(_no_memory(origin)) from None
    except (pa.ArrowException, csv.Error, UnicodeError, OverflowError) as error:
        if "launch worker thread" in str(error):
            raise DataError(
                f"{origin} could not be read, because no thread could be started: allow this "
                f"process more memory or more threads"
            ) from None
        raise DataError(f"{origin} {trouble}: {shortened(error)}") from None


def _in_words(origin: str, error: OSError) -> DataError:
    if error.errno == errno.ENOMEM:
        return DataError(_no_memory(origin))
    reason = error.strerror or shortened(error)
    if re.search("compressed|decompress|inflate|zlib|BZ2|ZSTD", reason):
        return DataError(f"{origin} is not a whole compressed file: {reason}")
    return DataError(f"could not read {origin}: {reason}")


def _no_memory(origin: str) -> str:
    return (
        f"the memory of this process ran out while reading {origin}: give it more memory, or read "
        f"a part of the log"
    )
