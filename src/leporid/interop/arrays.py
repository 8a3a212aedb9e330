"""Formats made of numpy arrays: `.npy` with ids, and the factors `implicit` works with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.errors import DataError
from leporid.initializers.base import InitialEmbeddings
from leporid.interop.sides import assemble, ids_of, read_provenance, write_provenance

__all__ = ["read_implicit", "read_npy", "write_implicit", "write_npy"]

_NPY = (("users.npy", "users.ids.npy"), ("items.npy", "items.ids.npy"))
_IMPLICIT = (("user_factors.npy", "user_ids.npy"), ("item_factors.npy", "item_ids.npy"))


def write_npy(embeddings: InitialEmbeddings, folder: Path, name: str) -> None:
    """`users.npy`, `users.ids.npy`, `items.npy`, `items.ids.npy`."""
    _write(embeddings, folder, _NPY)


def read_npy(folder: Path) -> InitialEmbeddings:
    """The inverse of `write_npy`."""
    return _read(folder, _NPY)


def write_implicit(embeddings: InitialEmbeddings, folder: Path, name: str) -> None:
    """`user_factors.npy` and `item_factors.npy`: row r belongs to row r of `*_ids.npy`."""
    _write(embeddings, folder, _IMPLICIT)


def read_implicit(folder: Path) -> InitialEmbeddings:
    """The inverse of `write_implicit`."""
    return _read(folder, _IMPLICIT)


def _write(embeddings: InitialEmbeddings, folder: Path, names: tuple[tuple[str, str], ...]) -> None:
    for (_, embedding, ids), (file, id_file) in zip(embeddings.sides(), names, strict=True):
        np.save(folder / file, embedding.vectors, allow_pickle=False)
        values = ids_of(ids, embedding.n)
        plain = np.array(values.to_pylist()) if len(values) else np.empty(0, np.int64)
        np.save(folder / id_file, plain, allow_pickle=False)
    write_provenance(folder, embeddings)


def _read(folder: Path, names: tuple[tuple[str, str], ...]) -> InitialEmbeddings:
    sides = []
    for file, id_file in names:
        vectors = _load(folder / file)
        if vectors.ndim != 2:
            raise DataError(f"{folder / file} must be a matrix, not of shape {vectors.shape}")
        ids = _load(folder / id_file)
        sides.append((pa.array(ids.tolist()), vectors.astype(np.float32)))
    return assemble(sides[0], sides[1], read_provenance(folder), folder)


def _load(path: Path) -> NDArray[Any]:
    try:
        loaded: NDArray[Any] = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is not a plain .npy file: {error}") from None
    return loaded
