"""Initial embeddings by name, and the cache of those fitted before.

The key of a cache entry is a hash of the method, its parameters, the training data and the version
of the code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from leporid.data import Interactions, as_log
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.registry import get
from leporid.embeddings.vectors import FORMAT, InitialEmbeddings
from leporid.errors import ConfigError, DataError, warn
from leporid.foundation import (
    Progress,
    SettingValue,
    cache_directory,
    canonical_hash,
    check_argument,
    described,
    kept_torch_threads,
)

OWN_MODEL_SETTINGS: Mapping[str, Mapping[str, SettingValue]] = {
    "leporid": {"alpha": "auto", "row_norm": "auto", "fold_in_users": True},
}
"""Settings of initialisers whose vectors are for a model of one's own, by method.

The models of this library keep the defaults of the settings, with which they were tuned.
"""


@dataclass(frozen=True)
class EmbeddingSpec:
    """Which initial embeddings to fit: a method, all its settings, and whether to use the cache."""

    method: str
    """Registry name of the initialiser."""
    settings: InitializerConfig
    """Settings of the initialiser, checked, with every default filled in."""
    use_cache: bool = False
    """Whether fitted vectors are read from the cache and written to it."""

    @classmethod
    def resolve(
        cls,
        method: str,
        settings: Mapping[str, SettingValue],
        *,
        use_cache: bool = False,
    ) -> Self:
        """Look up `method` and check its settings; what is left out gets the default."""
        config_class = get(method).config_class
        return cls(method, config_class.from_dict(settings), use_cache)

    def fit(
        self,
        train: Interactions,
        progress: Progress = None,
    ) -> InitialEmbeddings:
        """Fit the embeddings of the users and items of `train`, or read them from the cache."""
        initializer = get(self.method)(self.settings)
        return cached_fit(
            initializer,
            train,
            use_cache=self.use_cache,
            progress=progress,
        )


def initial_embeddings(
    source: str | InitialEmbeddings | None,
    train: Interactions,
    *,
    cache: bool = True,
    progress: Progress = None,
    **settings: SettingValue,
) -> InitialEmbeddings | None:
    """Return the initial embeddings of the users and items of `train`.

    `train` is `Interactions`, or what `leporid.load` reads: a frame, a path, a data set's name.
    `source` is the name of an initialiser, embeddings that exist already (returned as they are),
    or None or "none": the model then draws small random numbers. `settings` are the
    initialiser's, `dim` and `seed` among them. With `cache` fitted vectors are read again.

    "leporid" adapts to the data (`OWN_MODEL_SETTINGS`), and what `settings` says wins. Vectors with
    the settings of the paper are `get("leporid")().fit(train)`.
    """
    if source is None or source == "none":
        return None
    if isinstance(source, InitialEmbeddings):
        return source
    if not isinstance(source, str):
        raise ConfigError(
            f"initial embeddings are the name of an initialiser, InitialEmbeddings or None, not "
            f"{described(source)}: InitialEmbeddings(users, items) puts two Embedding together, "
            f"and InitialEmbeddings.load(path) reads them"
        )
    check_argument("initial_embeddings", "cache", cache, bool)
    train = as_log(train, "initial_embeddings(source, train)")
    chosen = {**OWN_MODEL_SETTINGS.get(source, {}), **settings}
    spec = EmbeddingSpec.resolve(source, chosen, use_cache=cache)
    return spec.fit(train, progress)


def cache_path(
    initializer: Initializer,
    train: Interactions,
    directory: str | Path | None = None,
) -> Path | None:
    """Return the file that holds the vectors of this initialiser for this data, once fitted.

    None if the cache is off and no directory was named.
    """
    # Entries of another format have other names: they are not read, and nobody is warned.
    key = canonical_hash([FORMAT, initializer.provenance(train)])
    directory = cache_directory() if directory is None else directory
    if directory is None:
        return None
    return Path(directory) / "initializers" / f"{initializer.name}-{key}.safetensors"


def cached_fit(
    initializer: Initializer,
    train: Interactions,
    *,
    cache_dir: str | Path | None = None,
    use_cache: bool = True,
    progress: Progress = None,
) -> InitialEmbeddings:
    """Return `initializer.fit(train)`, read from the cache where it has been done before.

    A damaged entry is fitted again, and a folder that cannot be written is left alone; both with
    a warning.
    """
    initializer.check_device()
    path = cache_path(initializer, train, cache_dir) if use_cache else None
    if path is not None and path.is_file():
        try:
            return _read_entry(path, initializer, train)
        except DataError as error:
            warn(f"1 cache entry was damaged and is fitted again: {error}")
    with kept_torch_threads():
        embeddings = initializer.fit(train, progress=progress)
    if path is None:
        return embeddings
    try:
        embeddings.save(path)
    except DataError as error:
        warn(
            f"vectors were not cached: {error}; set LEPORID_CACHE to a writable folder or off"
        )
    return embeddings


def _read_entry(
    path: Path,
    initializer: Initializer,
    train: Interactions,
) -> InitialEmbeddings:
    embeddings = InitialEmbeddings.load(path)
    # The file name is a shortened hash: the provenance is compared in full.
    expected = initializer.provenance(train)
    for side, ids in (
        (embeddings.users, train.users),
        (embeddings.items, train.items),
    ):
        if {**side.provenance, **expected} != side.provenance:
            raise DataError(f"{path} was computed from other data or settings")
        if side.vectors.shape != (len(ids), initializer.config.dim):
            raise DataError(f"{path} does not have one vector per user and item")
    return replace(embeddings, user_ids=train.users, item_ids=train.items)
