"""Files and folders that are read, here or at an address such as s3://bucket/key.

`reading` opens them: a pipe is copied into a file first, and whatever goes wrong is a `DataError`
of one sentence. `in_words` alone is for what is converted later or lies in several files.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.parquet as pa_parquet
from pyarrow import fs

from leporid.errors import DataError, LeporidError

_CODECS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes to pyarrow's name of the compression."""
_ENDINGS = (".gz", ".bz2", ".zst")


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
        path = PurePosixPath(self.path)
        return (path.with_suffix("") if path.suffix in _ENDINGS else path).suffix

    def open(self) -> pa.NativeFile:
        """The bytes, decompressed where they are gzip, bzip2 or Zstandard."""
        first = self._beginning()
        codec = next((name for magic, name in _CODECS.items() if first.startswith(magic)), None)
        return self.system.open_input_stream(self.content, compression=codec)

    def parquet(self) -> pa_parquet.ParquetFile:
        """A parquet file, to read some of its columns."""
        return pa_parquet.ParquetFile(self.system.open_input_file(self.content), pre_buffer=False)

    def is_folder(self) -> bool:
        """Whether it holds files."""
        return bool(self.system.get_file_info(self.content).type == fs.FileType.Directory)

    def inside(self, name: str) -> SourceFile:
        """A file of this folder."""
        return self._replace(
            path=f"{self.path.rstrip('/')}/{name}", content=f"{self.content}/{name}"
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
    return isinstance(source, str) and re.match(r"[a-z][a-z0-9+.-]+://", source) is not None


def located(source: str | os.PathLike[str]) -> Path:
    """The path; `~nobody`, who has no home, stays as it is written, as in a shell."""
    return Path(os.path.expanduser(source))


@contextlib.contextmanager
def reading(source: Path | str) -> Iterator[SourceFile]:
    """A file or directory to read, also by its address; a pipe is copied into a file first."""
    if is_address(source):
        parts = urlsplit(str(source))
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        with in_words(shown):
            yield _remote(str(source), shown)
        return
    path, here = Path(source), fs.LocalFileSystem()
    with in_words(str(path)):
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            with tempfile.NamedTemporaryFile() as copy:
                with open(path, "rb") as pipe:
                    shutil.copyfileobj(pipe, copy, 1 << 20)
                copy.flush()
                yield SourceFile(str(path), copy.name, here)
        elif stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            yield SourceFile(str(path), path.as_posix(), here)
        else:
            raise DataError(f"{path} is a device or a socket: give a file or a pipe")


def _remote(address: str, shown: str) -> SourceFile:
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
    return SourceFile(shown, path.rstrip("/"), system)


@contextlib.contextmanager
def in_words(origin: str, trouble: str = "cannot be read") -> Iterator[None]:
    """Whatever reading and converting raises, as a `DataError` of one sentence about `origin`."""
    try:
        yield
    except LeporidError:
        raise
    except OSError as error:
        reason = error.strerror or shortened(error)
        if re.search("compressed|decompress|inflate|zlib|BZ2|ZSTD", reason):
            raise DataError(f"{origin} is not a whole compressed file: {reason}") from None
        raise DataError(f"could not read {origin}: {reason}") from None
    except (pa.ArrowException, csv.Error, UnicodeError, OverflowError, MemoryError) as error:
        reason = shortened(error) or "there is not enough memory"
        raise DataError(f"{origin} {trouble}: {reason}") from None


def shortened(text: object, most: int = 200) -> str:
    """Text for a message: one line, and not a whole file."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[:most]}..."
