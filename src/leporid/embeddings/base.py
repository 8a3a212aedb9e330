"""`Initializer`: training interactions in, initial embeddings of users and items out.

`initial_embeddings` fits by name, or reads the cache, whose key is a hash of the method, its
parameters, the training data and the version of the code.
"""

import abc
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from leporid.arguments import check_argument, described
from leporid.artifacts import cache_directory, check_sealed, read_arrays, write_arrays
from leporid.config import Config, setting
from leporid.data import IdMap, Interactions, as_log
from leporid.embeddings.registry import available, get
from leporid.errors import ConfigError, DataError, article, warn
from leporid.hashing import canonical_hash
from leporid.machine import check_device, kept_torch_threads
from leporid.progress import Progress, ProgressLike, make_progress

_FORMAT = "leporid.embeddings.2"
_ROUNDING = 1e-9
"""Rows this much shorter than the longest one are rounding errors of zero."""


def standardize(
    vectors: NDArray[np.float32], scale: float = 1.0
) -> NDArray[np.float32]:
    """Z-score each column and multiply by `scale`; a constant column becomes zero."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    deviation = vectors.std(axis=0, dtype=np.float64)
    # Dividing a column that is constant up to rounding would amplify noise.
    constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    deviation[constant] = np.inf
    return np.ascontiguousarray((vectors - mean) / deviation * scale, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Embedding:
    """float32[n, d] vectors with their eigenvalues (where there are any) and provenance."""

    vectors: NDArray[np.float32]
    eigenvalues: NDArray[np.float64] | None = None
    """float64[d], eigenvalues of A in descending order; None for non-spectral methods."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Method, parameters and data hash, as JSON values."""

    def __repr__(self) -> str:
        method = self.provenance.get("method", "unknown method")
        return f"Embedding({self.n:,} rows, {self.dim} columns, {method})"

    @property
    def n(self) -> int:
        return int(self.vectors.shape[0])

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def isolated(self) -> NDArray[np.bool_]:
        """bool[n]: rows of zeros: nodes without neighbours."""
        return np.asarray(~self.vectors.any(axis=1))

    @property
    def size(self) -> float:
        """Root mean square of the entries, isolated rows left out; 0 where there are no others."""
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64)
        known = np.count_nonzero(squares)
        return float(np.sqrt(squares.sum() / max(known * self.dim, 1)))

    def standardized(self, scale: float = 1.0) -> Self:
        """Each column z-scored, times `scale`; vectors standardised before are only scaled."""
        provenance = {**self.provenance, "standardized": True, "scale": scale}
        if self.provenance.get("standardized"):
            factor = np.float32(scale / self.provenance.get("scale", 1.0))
            return replace(self, vectors=self.vectors * factor, provenance=provenance)
        return replace(
            self, vectors=standardize(self.vectors, scale), provenance=provenance
        )


@dataclass(frozen=True, eq=False)
class InitialEmbeddings:
    """One vector for every user and every item, as the initialiser computed them (not scaled)."""

    users: Embedding
    items: Embedding
    user_ids: IdMap | None = None
    """External ids of the user rows; None where only positions are known."""
    item_ids: IdMap | None = None
    """External ids of the item rows; None where only positions are known."""

    def __repr__(self) -> str:
        method = self.users.provenance.get("method", "unknown method")
        rows = f"{self.users.n:,} users, {self.items.n:,} items"
        return f"InitialEmbeddings({rows}, {self.users.dim} columns, {method})"

    def standardized(self, scale: float = 1.0) -> Self:
        """Both sides z-scored by column, times `scale`."""
        users, items = self.users.standardized(scale), self.items.standardized(scale)
        return replace(self, users=users, items=items)

    def save(self, path: str | Path) -> Path:
        """Write one sealed safetensors file: vectors, eigenvalues, ids and provenance.

        Tensors `users` and `items` are float32[n, d]; beside them `users.eigenvalues` and the
        arrays of `IdMap.to_arrays`, such as `users.ids`.
        """
        arrays: dict[str, NDArray[Any]] = {}
        provenance = {}
        for side, embedding, ids in self.sides():
            arrays[side], provenance[side] = (
                embedding.vectors,
                dict(embedding.provenance),
            )
            if embedding.eigenvalues is not None:
                arrays[f"{side}.eigenvalues"] = embedding.eigenvalues
            if ids is not None:
                arrays |= {
                    f"{side}.{name}": array for name, array in ids.to_arrays().items()
                }
        text = json.dumps(provenance, sort_keys=True, ensure_ascii=False)
        write_arrays(path, arrays, {"format": _FORMAT, "provenance": text}, sealed=True)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; a file that was changed since is refused."""
        arrays, metadata = read_arrays(path)
        if metadata.get("format", _FORMAT) != _FORMAT:
            raise DataError(
                f"{path} has the format {metadata['format']!r}, this release reads {_FORMAT}: "
                f"embed again"
            )
        if metadata:  # other programs write none
            check_sealed(path, metadata)
        try:
            provenance = json.loads(metadata.get("provenance", "{}"))
            (users, user_ids), (items, item_ids) = (
                _read_side(arrays, side, provenance) for side in ("users", "items")
            )
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} holds no embeddings: {error}") from None
        if users.dim != items.dim:
            raise DataError(
                f"{path} has vectors of {users.dim} and of {items.dim} entries"
            )
        return cls(users, items, user_ids, item_ids)

    def aligned(self, users: IdMap, items: IdMap, seed: int = 0) -> Self:
        """The vectors of these users and items, by their ids and in their order.

        One without a vector gets the mean of the others plus noise of a hundredth of their
        spread; a warning counts them. It is a `DataError` if none has a vector. Vectors without
        ids are taken by position.
        """
        draws = np.random.default_rng(seed)
        pairs = zip(self.sides(), (users, items), strict=True)
        first, second = (
            _aligned(side, ids, target, draws) for (_, side, ids), target in pairs
        )
        return replace(self, users=first, items=second, user_ids=users, item_ids=items)

    def sides(self) -> list[tuple[str, Embedding, IdMap | None]]:
        """Name, vectors and ids of the users and of the items."""
        return [
            ("users", self.users, self.user_ids),
            ("items", self.items, self.item_ids),
        ]


def _aligned(
    embedding: Embedding, ids: IdMap | None, target: IdMap, draws: np.random.Generator
) -> Embedding:
    if ids is None or ids == target:
        return embedding
    rows = ids.encode(target.ids)
    missing = np.flatnonzero(rows < 0)
    if len(missing) == len(target):
        raise DataError(
            f"none of the {len(target):,} {target.kind}s of the training data has a vector: "
            f"the vectors are those of other {target.kind}s, embed this data"
        )
    vectors = embedding.vectors[rows]
    if len(missing):
        warn(
            f"{len(missing):,} of {len(target):,} {target.kind}s have no initial vector (the first "
            f"is {target.external(missing[0])!r}): theirs are small random numbers"
        )
        known = vectors[rows >= 0]
        noise = draws.standard_normal((len(missing), embedding.dim), dtype=np.float32)
        vectors[missing] = known.mean(axis=0) + 0.01 * known.std(axis=0) * noise
    return replace(embedding, vectors=vectors)


def _read_side(
    arrays: Mapping[str, NDArray[Any]], side: str, provenance: Any
) -> tuple[Embedding, IdMap | None]:
    vectors, values = arrays.get(side), arrays.get(f"{side}.eigenvalues")
    if vectors is None or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise DataError(f"it has no matrix of floats named {side!r}")
    if not np.isfinite(vectors).all():
        raise DataError(f"{side!r} has NaN or infinite entries")
    if values is not None and (
        values.shape != vectors.shape[1:] or not np.isfinite(values).all()
    ):
        raise DataError(
            f"the eigenvalues of {side!r} are not one finite number per column"
        )
    names = [name for name in arrays if name.startswith(f"{side}.")]
    stored = {name.removeprefix(f"{side}."): arrays[name] for name in names}
    stored.pop("eigenvalues", None)
    ids = IdMap.from_arrays(stored, side[:-1]) if stored else None
    if ids is not None and len(ids) != len(vectors):
        raise DataError(
            f"there are {len(vectors)} {side[:-1]} vectors but {len(ids)} ids"
        )
    origin = provenance.get(side, {}) if isinstance(provenance, dict) else None
    if not isinstance(origin, dict):
        raise DataError(f"the provenance of {side!r} is not an object")
    return Embedding(
        np.ascontiguousarray(vectors, dtype=np.float32), values, origin
    ), ids


def padded(vectors: NDArray[Any], dim: int) -> NDArray[np.float32]:
    """float32[n, dim]: up to `dim` columns, and zeros where there are fewer."""
    out = np.zeros((len(vectors), dim), dtype=np.float32)
    out[:, : vectors.shape[1]] = vectors
    return out


def with_empty_rows(side: Embedding, known: NDArray[np.bool_]) -> Embedding:
    """`side` with zeros in the rows that are not `known`, and the number of its rows of zeros.

    Solvers leave rounding errors there that depend on the processor.
    """
    length = np.abs(side.vectors).max(axis=1, initial=0)
    empty = ~known | (length <= _ROUNDING * length.max(initial=0))
    vectors = np.where(empty[:, None], np.float32(0), side.vectors)
    about = {**side.provenance, "isolated": int(empty.sum())}
    return replace(side, vectors=vectors, provenance=about)


@dataclass(frozen=True, kw_only=True)
class InitializerConfig(Config):
    """Settings every initialiser has."""

    dim: int = setting(64, at_least=1)
    """Number of columns D."""
    seed: int = 0
    """Seeds every random choice the method makes."""


class Initializer(abc.ABC):
    """Base class of all initialisers."""

    name: ClassVar[str]
    config_class: ClassVar[type[InitializerConfig]]
    standardize_by_default: ClassVar[bool] = True
    """Whether models should z-score the vectors (random vectors are used as drawn)."""
    leaves_unknown_rows_empty: ClassVar[bool] = True
    """Whether rows without data are zero (random vectors are drawn for all rows)."""
    version: ClassVar[int] = 2
    """Raised whenever a change of the code changes the vectors: old cache entries then expire."""

    def __init__(
        self, config: InitializerConfig | None = None, **settings: Any
    ) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif not isinstance(config, self.config_class):
            raise ConfigError(
                f"{self.name} takes {article(self.config_class.__name__)}, not {config!r}"
            )
        self.config = config.replace(**settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.changed_words()})"

    def check_device(self) -> None:
        """Refuse a device that is not there, of a method that has this setting."""
        settings = self.config.to_dict()
        if "device" in settings:
            check_device(settings["device"])

    def fit(
        self, train: Interactions, *, progress: Progress = None
    ) -> InitialEmbeddings:
        """The initial embeddings for `train`; the same data and seed give the same bits.

        Rows without interactions (and, where the method reads content, without content) are
        zero. `provenance["isolated"]` counts the rows of zeros of each side.
        """
        train = as_log(train, f"{type(self).__name__}.fit(train)")
        self.check_device()
        if len(train) == 0:
            raise DataError(
                f"the training data is empty: {self.name} has nothing to fit on"
            )
        reporter = make_progress(progress)
        embeddings = self._fit(train, reporter)
        reporter.close()
        users, items = embeddings.users, embeddings.items
        if self.leaves_unknown_rows_empty:
            users = with_empty_rows(
                users, np.bincount(train.user, minlength=users.n) > 0
            )
            known = train.popularity > 0
            items = with_empty_rows(
                items, known | bool(items.provenance.get("content"))
            )
        return InitialEmbeddings(users, items, train.users, train.items)

    @abc.abstractmethod
    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """Do the work."""

    def provenance(self, digest: str) -> dict[str, Any]:
        """Where vectors come from: method, parameters, hash of the data, version of the code."""
        origin = {"method": self.name, "parameters": self.config.to_dict()}
        return {**origin, "data": digest, "code": self.version}

    def _embeddings(
        self, train: Interactions, users: Any, items: Any
    ) -> InitialEmbeddings:
        """float32[n, D] of each side with their provenance."""
        origin = self.provenance(train.digest)
        return InitialEmbeddings(
            Embedding(users, None, origin), Embedding(items, None, origin)
        )


def initial_embeddings(
    source: str | InitialEmbeddings | None,
    train: Interactions,
    *,
    cache: bool = True,
    progress: Progress = None,
    **settings: Any,
) -> InitialEmbeddings | None:
    """Initial embeddings of the users and items of `train`.

    `train` is `Interactions`, or what `leporid.load` reads: a frame, a path, a data set's name.
    `source` is the name of an initialiser, embeddings that exist already (returned as they are),
    or None or "none": the model then draws small random numbers. `settings` are the
    initialiser's, `dim` and `seed` among them. With `cache` fitted vectors are read again.
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
    with kept_torch_threads():
        return cached_fit(
            get(source)(**settings), train, use_cache=cache, progress=progress
        )


def standardizes(method: str | None, otherwise: bool) -> bool:
    """Whether models z-score the vectors of `method`; `otherwise` for those of unknown origin."""
    return get(method).standardize_by_default if method in available() else otherwise


def cache_path(
    initializer: Initializer, train: Interactions, directory: str | Path
) -> Path:
    """The file that holds, or would hold, the vectors of this initialiser for this data."""
    key = canonical_hash(initializer.provenance(train.digest))
    return Path(directory) / "initializers" / f"{initializer.name}-{key}.safetensors"


def cached_fit(
    initializer: Initializer,
    train: Interactions,
    *,
    cache_dir: str | Path | None = None,
    use_cache: bool = True,
    progress: Progress = None,
) -> InitialEmbeddings:
    """`initializer.fit(train)`, read from the cache where it has been done before.

    A damaged entry is fitted again, and a folder that cannot be written is left alone; both with
    a warning.
    """
    initializer.check_device()
    directory = cache_directory() if cache_dir is None else cache_dir
    if directory is None or not use_cache:
        return initializer.fit(train, progress=progress)
    path = cache_path(initializer, train, directory)
    if path.is_file():
        try:
            return _read(path, initializer, train)
        except DataError as error:
            warn(f"1 cache entry was damaged and is fitted again: {error}")
    embeddings = initializer.fit(train, progress=progress)
    try:
        embeddings.save(path)
    except DataError as error:
        warn(
            f"vectors were not cached: {error}; set LEPORID_CACHE to a writable folder or off"
        )
    return embeddings


def _read(
    path: Path, initializer: Initializer, train: Interactions
) -> InitialEmbeddings:
    embeddings = InitialEmbeddings.load(path)
    # The file name is a shortened hash: the provenance is compared in full.
    target = initializer.provenance(train.digest)
    for (_, side, _), ids in zip(
        embeddings.sides(), (train.users, train.items), strict=True
    ):
        if {**side.provenance, **target} != side.provenance:
            raise DataError(f"{path} was computed from other data or settings")
        if side.vectors.shape != (len(ids), initializer.config.dim):
            raise DataError(f"{path} does not have one vector per user and item")
    return replace(embeddings, user_ids=train.users, item_ids=train.items)
