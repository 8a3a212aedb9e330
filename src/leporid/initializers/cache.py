"""Fitted vectors on disk, found again by what they were computed from.

The key is a hash of the method, its parameters, the training data and the version of the code.
A second fit with the same four reads the file; a change of any of them never does.
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np

from leporid.artifacts import cache_directory, read_arrays
from leporid.config import canonical_hash
from leporid.data import Interactions
from leporid.errors import DataError, LeporidWarning
from leporid.initializers.base import InitialEmbeddings, Initializer
from leporid.progress import ProgressLike


def cache_path(initializer: Initializer, train: Interactions, directory: str | Path) -> Path:
    """The file that holds, or would hold, the vectors of this initialiser for this data."""
    key = canonical_hash(initializer.provenance(train.digest))
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
            return _read(path, initializer, train)
        except DataError as error:
            _warn(f"1 cache entry was damaged and is fitted again: {error}")
    embeddings = initializer.fit(train, progress=progress)
    try:
        embeddings.save(path, {"checksum": _checksum(embeddings)})
    except (DataError, OSError) as error:
        _warn(
            f"the vectors were not cached: {error}; set LEPORID_CACHE to a writable folder or off"
        )
    return embeddings


def _warn(message: str) -> None:
    warnings.warn(message, LeporidWarning, stacklevel=3)


def _read(path: Path, initializer: Initializer, train: Interactions) -> InitialEmbeddings:
    arrays, metadata = read_arrays(path)
    embeddings = InitialEmbeddings.from_arrays(arrays, metadata, path)
    if metadata.get("checksum") != _checksum(embeddings):
        raise DataError(f"{path} does not match its checksum")
    wanted = initializer.provenance(train.digest)
    for embedding in (embeddings.users, embeddings.items):
        # The file name is a shortened hash: what it stands for is compared in full.
        if any(embedding.provenance.get(key) != value for key, value in wanted.items()):
            raise DataError(f"{path} was computed from other data or settings")
    return InitialEmbeddings(embeddings.users, embeddings.items, train.users, train.items)


def _checksum(embeddings: InitialEmbeddings) -> str:
    hasher = hashlib.sha256()
    for embedding in (embeddings.users, embeddings.items):
        for array in (embedding.vectors, embedding.eigenvalues):
            if array is not None:
                hasher.update(repr((array.shape, str(array.dtype))).encode())
                hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()
