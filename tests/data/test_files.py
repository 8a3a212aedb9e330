"""The door of every file: pipes, devices, paths that lead nowhere, and errors as sentences."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leporid import load
from leporid.data import (
    ItemInfo,
    Split,
    is_split,
    load_items,
    read_ids,
    store_interactions,
    write_log,
)
from leporid.data.files import in_words
from leporid.errors import DataError

_NO_MEMORY = (
    "the memory of this process ran out while reading a.csv: give it more memory, or read a part "
    "of the log"
)
_ROWS = 30_000
_LOG = "user,item,time\n" + "".join(f"{n % 97},{n},{n}\n" for n in range(_ROWS))


@pytest.fixture
def piped(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A named pipe that brings `content`."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    threads = []

    def pipe(content: bytes, name: str = "pipe") -> Path:
        path = tmp_path / name
        os.mkfifo(path)

        def write() -> None:
            with contextlib.suppress(BrokenPipeError), open(path, "wb", buffering=0) as file:
                file.write(content)

        threads.append(threading.Thread(target=write, daemon=True))
        threads[-1].start()
        return path

    yield pipe
    for thread in threads:
        thread.join(60)  # a pipe that nothing has opened is left to the end of the process


@pytest.fixture
def parquet(tmp_path: Path) -> bytes:
    (tmp_path / "log.csv").write_text(_LOG)
    return write_log(load(tmp_path / "log.csv"), tmp_path / "log.parquet").read_bytes()


def test_a_pipe_loses_nothing(piped: Callable[..., Path], parquet: bytes, tmp_path: Path) -> None:
    assert len(load(piped(_LOG.encode()))) == _ROWS
    assert len(load(piped(gzip.compress(_LOG.encode()), "zipped"))) == _ROWS
    assert len(load(piped(parquet, "table"))) == _ROWS
    stored = store_interactions(piped(parquet, "streamed"), tmp_path / "stored", "100GB")
    assert len(stored) == _ROWS
    assert read_ids(piped(b"bea\nal\n", "ids")) == ["bea", "al"]
    assert load_items(piped(b"item,title\n1,Ran\n", "items")) == {1: ItemInfo("Ran")}


def test_messages_name_the_pipe_and_not_its_copy(piped: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"/pipe, line 3: expected 2 columns, got 1"):
        load(piped(b"user,item\n1,2\n3\n"))
    with pytest.raises(DataError, match=r"/zipped is not a whole compressed file"):
        load(piped(gzip.compress(_LOG.encode())[:-9], "zipped"))


@pytest.mark.parametrize(
    "read",
    [load, load_items, read_ids, Split.load, lambda path: store_interactions(path, "x", "100GB")],
)
@pytest.mark.parametrize("path", ["~nobody-here/a", "x" * 5000, "a\0b", "/dev/zero", "/dev/null/x"])
def test_paths_that_lead_nowhere(read: Callable[[str], Any], path: str) -> None:
    assert not is_split(path)
    with pytest.raises(DataError, match=r"no such file|is a device|holds no split"):
        read(path)


def test_a_folder_of_parquet_files_may_hold_folders(tmp_path: Path, parquet: bytes) -> None:
    inner = tmp_path / "logs" / "day.parquet"
    inner.mkdir(parents=True)
    (inner / "part.parquet").write_bytes(parquet)
    assert len(load(tmp_path / "logs")) == _ROWS


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied"), "could not read a.csv: Permission denied"),
        (
            OSError("Couldn't deserialize\nthrift"),
            "could not read a.csv: Couldn't deserialize thrift",
        ),
        (MemoryError(), _NO_MEMORY),
        (pa.ArrowMemoryError("malloc of size 8589934592 failed"), _NO_MEMORY),
        (
            pa.ArrowException("Unknown error: Failed to launch worker thread: Resource"),
            "a.csv could not be read, because no thread could be started: allow this process more "
            "memory or more threads",
        ),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), _NO_MEMORY),
        (
            OSError("Truncated compressed stream"),
            "a.csv is not a whole compressed file: Truncated compressed stream",
        ),
        (DataError("as it is"), "as it is"),
    ],
)
def test_errors_become_one_sentence(error: Exception, sentence: str) -> None:
    with pytest.raises(DataError) as raised, in_words("a.csv"):
        raise error
    assert str(raised.value) == sentence
