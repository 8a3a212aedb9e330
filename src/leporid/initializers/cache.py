"""`initial_embeddings`: fitted by name, or read from the cache.

The key is a hash of the method, its parameters, the training data and the version of the code.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from leporid.artifacts import cache_directory
from leporid.config import canonical_hash
from leporid.data import Interactions
from leporid.errors import DataError, LeporidWarning
from leporid.initializers.base import InitialEmbeddings, Initializer
from leporid.initializers.catalogue import get
from leporid.progress import ProgressLike
from leporid.threads import kept_torch_threads


def initial_embeddings(
    source: str | InitialEmbeddings | None,
    train: Interactions,
    *,
    cache: bool = True,
    progress: bool | ProgressLike | None = None,
    **settings: Any,
) -> InitialEmbeddings | None:
    """Initial embeddings of the users and items of `train`.

    `source` is the name of an initialiser, embeddings that exist already (returned as they are),
    or None or "none": the model then draws small random numbers. `settings` are the
    initialiser's, `dim` and `seed` among them. With `cache` fitted vectors are read again.
    """
    if source is None or source == "none":
        return None
    if not isinstance(source, str):
        return source
    with kept_torch_threads():
        return cached_fit(get(source)(**settings), train, use_cache=cache, progress=progress)


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

    A damaged entry is fitted again, and a folder that cannot be written is left alone; both with
    a warning.
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
        embeddings.save(path)
    except DataError as error:
        _warn(f"vectors were not cached: {error}; set LEPORID_CACHE to a writable folder or off")
    return embeddings


def _warn(message: str) -> None:
    warnings.warn(message, LeporidWarning, stacklevel=3)


def _read(path: Path, initializer: Initializer, train: Interactions) -> InitialEmbeddings:
    embeddings = InitialEmbeddings.load(path)
    # The file name is a shortened hash: the provenance is compared in full.
    target = initializer.provenance(train.digest)
    if any({**side.provenance, **target} != side.provenance for _, side, _ in embeddings.sides()):
        raise DataError(f"{path} was computed from other data or settings")
    sides = zip(embeddings.sides(), (train.users, train.items), strict=True)
    if any(e.vectors.shape != (len(ids), initializer.config.dim) for (_, e, _), ids in sides):
        raise DataError(f"{path} does not have one vector per user and item")
    return replace(embeddings, user_ids=train.users, item_ids=train.items)
