"""One call to write embeddings in any format, one to read them back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leporid.artifacts import atomic_folder
from leporid.errors import DataError, UnknownNameError
from leporid.initializers.base import InitialEmbeddings
from leporid.interop.arrays import read_implicit, read_npy, write_implicit, write_npy
from leporid.interop.recbole import read_recbole, write_recbole
from leporid.interop.tables import read_csv, read_parquet, write_csv, write_parquet
from leporid.interop.word2vec import read_word2vec, write_word2vec

__all__ = ["FORMATS", "read_embeddings", "write_embeddings"]

SAFETENSORS = "embeddings.safetensors"

_WRITERS: dict[str, Callable[[InitialEmbeddings, Path, str], object]] = {
    "safetensors": lambda embeddings, folder, name: embeddings.save(folder / SAFETENSORS),
    "parquet": write_parquet,
    "npy": write_npy,
    "csv": write_csv,
    "word2vec": write_word2vec,
    "recbole": write_recbole,
    "implicit": write_implicit,
}
_READERS: dict[str, Callable[[Path], InitialEmbeddings]] = {
    "safetensors": lambda folder: InitialEmbeddings.load(folder / SAFETENSORS),
    "parquet": read_parquet,
    "npy": read_npy,
    "csv": read_csv,
    "word2vec": read_word2vec,
    "recbole": read_recbole,
    "implicit": read_implicit,
}
_SIGNS = {
    "safetensors": SAFETENSORS,
    "parquet": "users.parquet",
    "npy": "users.npy",
    "csv": "users.csv",
    "word2vec": "users.w2v.txt",
    "recbole": "*.useremb",
    "implicit": "user_factors.npy",
}
"""The file by which a folder's format is recognised."""

FORMATS = tuple(_WRITERS)


def write_embeddings(
    embeddings: InitialEmbeddings,
    path: str | Path,
    format: str = "safetensors",
    *,
    name: str | None = None,
) -> list[Path]:
    """Write users and items with their ids into the folder `path`; returns the files.

    A path ending in `.safetensors` is written as that one file. `name` is the dataset name
    RecBole's files are called after (default: the folder's own name). Everything appears at
    once when it is complete, or not at all.
    """
    path = Path(path)
    if format not in _WRITERS:
        raise UnknownNameError("format", format, FORMATS)
    if path.suffix == ".safetensors":
        if format != "safetensors":
            raise DataError(f"{path} names a safetensors file but the format is {format!r}")
        return [embeddings.save(path)]
    with atomic_folder(path) as folder:
        _WRITERS[format](embeddings, folder, name or path.resolve().name)
        files = sorted(file.name for file in folder.iterdir())
    return [path / file for file in files]


def read_embeddings(path: str | Path, format: str | None = None) -> InitialEmbeddings:
    """Read what `write_embeddings` wrote; the format is recognised by the files' names."""
    path = Path(path)
    if format is not None and format not in _READERS:
        raise UnknownNameError("format", format, FORMATS)
    if path.is_file():
        return InitialEmbeddings.load(path)
    if not path.is_dir():
        raise DataError(f"no such file or folder: {path}")
    if format is None:
        found = [name for name, sign in _SIGNS.items() if any(path.glob(sign))]
        if len(found) != 1:
            held = f"holds {' and '.join(found)}" if found else "holds no embeddings"
            raise DataError(f"{path} {held}: name the format, one of {', '.join(FORMATS)}")
        format = found[0]
    return _READERS[format](path)
