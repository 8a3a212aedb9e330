"""A saved model is a directory that is wholly the old one or wholly the new one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.data.id_map import IdMap
from leporid.errors import DataError

__all__ = ["atomic_directory", "read_ids", "write_ids"]


@contextlib.contextmanager
def atomic_directory(target: Path) -> Iterator[Path]:
    """Yield a folder beside `target` that takes its place on success, and vanishes otherwise.

    Where `target` exists, the new folder starts with its files (hard links), so that what
    others keep there (checkpoints, logs) survives.
    """
    if target.exists() and not target.is_dir():
        raise DataError(f"cannot save a model to {target}: it is a file, choose a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise DataError(f"could not write {target}: {error.strerror or error}") from error
    fresh, retired = aside / "new", aside / "old"
    try:
        if target.exists():
            shutil.copytree(target, fresh, copy_function=_link)
        else:
            fresh.mkdir()
        yield fresh
        if target.exists():
            target.replace(retired)
        fresh.replace(target)
    except OSError as error:
        if retired.exists() and not target.exists():
            retired.replace(target)
        raise DataError(f"could not write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _link(source: str, destination: str) -> None:
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)


def write_ids(path: Path, ids: IdMap) -> None:
    """External ids as one parquet column: small and quick also for millions."""
    path.unlink(missing_ok=True)
    pq.write_table(pa.table({"id": ids.ids}), path)


def read_ids(path: Path, kind: str) -> IdMap:
    """The inverse of `write_ids`."""
    try:
        column = pq.read_table(path).column("id").combine_chunks()
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except (pa.ArrowInvalid, KeyError) as error:
        raise DataError(f"{path} is not a list of ids: {error}") from None
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return IdMap(column, kind)
