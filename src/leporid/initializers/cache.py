"""Fitted initialisers on disk, found again by what made them.

The key is a hash of the method, its parameters, the training data and the version of the code.
A second fit with the same four reads the file; a change of any of them never does.
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from leporid.artifacts import cache_directory, read_arrays
from leporid.config import canonical_hash
from leporid.data.interactions import Interactions
from leporid.errors import DataError, LeporidWarning
from leporid.initializers.base import InitialEmbeddings, Initializer
from leporid.progress import ProgressLike

__all__ = ["cache_directory", "cache_path", "cached_fit"]


def cache_path(initializer: Initializer, train: Interactions, directory: str | Path) -> Path:
    """The file that holds, or would hold, the vectors of this initialiser for this data."""
    key = canonical_hash(initializer.provenance(train))
    return Path(directory) / "initializers" / f"{initializer.name}-{key}.safetensors"


def cached_fit(
    initializer: Initializer,
    train: Interactions,
    *,
    cache_dir: str | Path | None = None,
    use_cache: bool = True,
    progress: bool | ProgressLike | None = None,
) -> InitialEmbeddings:
    """`initializer.fit(train)`, read from the cache where it has been done before.

    A damaged entry is fitted again with a warning; a folder that cannot be written only costs
    the saving, also with a warning.
    """
    directory = cache_directory() if cache_dir is None else cache_dir
    if directory is None or not use_cache:
        return initializer.fit(train, progress=progress)
    path = cache_path(initializer, train, directory)
    if path.is_file():
        try:
            return _read(path, initializer.provenance(train), train)
        except DataError as error:
            warnings.warn(
                f"1 cache entry was damaged and is fitted again: {error}",
                LeporidWarning,
                stacklevel=2,
            )
    made = initializer.fit(train, progress=progress)
    try:
        made.save(path, {"checksum": _checksum(made)})
    except (DataError, OSError) as error:
        warnings.warn(
            f"the vectors were not cached: {error}; set LEPORID_CACHE to a writable folder or off",
            LeporidWarning,
            stacklevel=2,
        )
    return made


def _read(path: Path, wanted: dict[str, Any], train: Interactions) -> InitialEmbeddings:
    arrays, metadata = read_arrays(path)
    made = InitialEmbeddings.from_arrays(arrays, metadata, path)
    if metadata.get("checksum") != _checksum(made):
        raise DataError(f"{path} does not match its checksum")
    for embedding in (made.users, made.items):
        # The file name is a shortened hash: what it stands for is compared in full.
        if any(embedding.provenance.get(key) != value for key, value in wanted.items()):
            raise DataError(f"{path} was made from other data or settings")
    return InitialEmbeddings(made.users, made.items, train.users, train.items)


def _checksum(made: InitialEmbeddings) -> str:
    hasher = hashlib.sha256()
    for embedding in (made.users, made.items):
        for array in (embedding.vectors, embedding.eigenvalues):
            if array is not None:
                hasher.update(repr((array.shape, str(array.dtype))).encode())
                hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()
