"""`Initializer`: training interactions in, starting vectors for users and items out."""

from __future__ import annotations

import abc
import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import check_sealed, read_arrays, write_arrays
from leporid.config import Config, setting
from leporid.data import IdMap, Interactions
from leporid.errors import ConfigError, DataError, LeporidWarning
from leporid.progress import ProgressLike, make_progress
from leporid.spectral import Embedding

_OLD_NAMES = {"ids.utf8": "bytes", "ids.offsets": "offsets"}
"""What files written before version 0.2 call the arrays of text ids."""
_FORMAT, _BEFORE = "leporid.embeddings.2", "leporid.embeddings"
"""The first has a seal; the second, of version 0.2, had none."""
_ROUNDING = 1e-9
"""Rows this much shorter than the longest one are what rounding leaves of zero."""


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

    def standardized(self, scale: float = 1.0) -> InitialEmbeddings:
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
            arrays[side], provenance[side] = embedding.vectors, dict(embedding.provenance)
            if embedding.eigenvalues is not None:
                arrays[f"{side}.eigenvalues"] = embedding.eigenvalues
            if ids is not None:
                arrays |= {f"{side}.{name}": array for name, array in ids.to_arrays().items()}
        text = json.dumps(provenance, sort_keys=True, ensure_ascii=False)
        write_arrays(path, arrays, {"format": _FORMAT, "provenance": text}, sealed=True)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> InitialEmbeddings:
        """Read what `save` wrote; a file that was changed since is refused."""
        arrays, metadata = read_arrays(path)
        if metadata.get("format", _BEFORE) not in (_FORMAT, _BEFORE):
            raise DataError(
                f"{path} has the format {metadata['format']!r}, this release reads {_BEFORE} and "
                f"{_FORMAT}: embed again"
            )
        # Other programs write no metadata at all; what we wrote says its format.
        if metadata.get("format") == _FORMAT or ("format" not in metadata and metadata):
            check_sealed(path, metadata)
        try:
            provenance = json.loads(metadata.get("provenance", "{}"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"the provenance in {path} is not valid JSON: {error}") from None
        try:
            (users, user_ids), (items, item_ids) = (
                _read_side(arrays, side, provenance) for side in ("users", "items")
            )
        except DataError as error:
            raise DataError(f"{path} holds no embeddings: {error}") from None
        if users.dim != items.dim:
            raise DataError(f"{path} has vectors of {users.dim} and of {items.dim} entries")
        loaded = cls(users, items, user_ids, item_ids)
        if "checksum" in metadata and metadata["checksum"] != loaded.checksum():
            raise DataError(f"{path} does not match its checksum")
        return loaded

    def checksum(self) -> str:
        """A hash of the vectors and eigenvalues, which cache entries of version 0.2 carry."""
        hasher = hashlib.sha256()
        for array in [a for _, side, _ in self.sides() for a in (side.vectors, side.eigenvalues)]:
            if array is not None:
                hasher.update(repr((array.shape, str(array.dtype))).encode())
                hasher.update(np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()

    def aligned(self, users: IdMap, items: IdMap, seed: int = 0) -> InitialEmbeddings:
        """The vectors of these users and items, by their ids and in their order.

        One without a vector starts close to the mean of the others, a hundredth of their spread
        away at random; a warning counts them. Where nobody has one, that is a `DataError`. Vectors
        without ids are taken by position.
        """
        draws = np.random.default_rng(seed)
        pairs = zip(self.sides(), (users, items), strict=True)
        first, second = (_aligned(side, ids, wanted, draws) for (_, side, ids), wanted in pairs)
        return InitialEmbeddings(first, second, users, items)

    def sides(self) -> list[tuple[str, Embedding, IdMap | None]]:
        """Name, vectors and ids of the users and of the items."""
        return [("users", self.users, self.user_ids), ("items", self.items, self.item_ids)]


def _aligned(
    embedding: Embedding, ids: IdMap | None, wanted: IdMap, draws: np.random.Generator
) -> Embedding:
    if ids is None or ids == wanted:
        return embedding
    rows = ids.matches(wanted)
    missing = np.flatnonzero(rows < 0)
    if len(missing) == len(wanted):
        raise DataError(
            f"none of the {len(wanted):,} {wanted.kind}s of the training data has a vector: "
            f"the vectors are those of other {wanted.kind}s, embed this data"
        )
    vectors = embedding.vectors[rows]
    if len(missing):
        warnings.warn(
            f"{len(missing):,} of {len(wanted):,} {wanted.kind}s have no initial vector (the first "
            f"is {wanted.external(missing[0])!r}): they start from small random numbers",
            LeporidWarning,
            stacklevel=2,
        )
        known = vectors[rows >= 0]
        noise = draws.standard_normal((len(missing), embedding.dim), dtype=np.float32)
        vectors[missing] = known.mean(axis=0) + 0.01 * known.std(axis=0) * noise
    return replace(embedding, vectors=vectors)


def _read_side(
    arrays: Mapping[str, NDArray[Any]], side: str, provenance: Any
) -> tuple[Embedding, IdMap | None]:
    """Vectors and ids of a side that belong together and are finite."""
    vectors, values = arrays.get(side), arrays.get(f"{side}.eigenvalues")
    if vectors is None or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise DataError(f"it has no matrix of floats named {side!r}")
    if not np.isfinite(vectors).all():
        raise DataError(f"{side!r} has NaN or infinite entries")
    if values is not None and (values.shape != vectors.shape[1:] or not np.isfinite(values).all()):
        raise DataError(f"the eigenvalues of {side!r} are not one finite number per column")
    names = {name: name.removeprefix(f"{side}.") for name in arrays if name.startswith(f"{side}.")}
    stored = {_OLD_NAMES.get(short, short): arrays[name] for name, short in names.items()}
    stored.pop("eigenvalues", None)
    ids = IdMap.from_arrays(stored, side[:-1]) if stored else None
    if ids is not None and len(ids) != len(vectors):
        raise DataError(f"there are {len(vectors)} {side[:-1]} vectors but {len(ids)} ids")
    origin = provenance.get(side, {}) if isinstance(provenance, dict) else None
    if not isinstance(origin, dict):
        raise DataError(f"the provenance of {side!r} is not an object")
    return Embedding(np.ascontiguousarray(vectors, dtype=np.float32), values, origin), ids


def with_empty_rows(side: Embedding, known: NDArray[np.bool_]) -> Embedding:
    """`side` with zeros in the rows that are not `known`, and the number of its rows of zeros.

    What a solver leaves in such rows, and in rows its columns do not reach, is rounding: whether
    that is exactly zero depends on the processor.
    """
    length = np.abs(side.vectors).max(axis=1, initial=0)
    empty = ~known | (length <= _ROUNDING * length.max(initial=0))
    vectors = side.vectors
    if vectors[empty].any():
        vectors = vectors.copy()
        vectors[empty] = 0
    return replace(
        side, vectors=vectors, provenance={**side.provenance, "isolated": int(empty.sum())}
    )


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
    """Whether rows that nothing is known of are zero (random vectors are drawn for all rows)."""
    version: ClassVar[int] = 2
    """Raised whenever a change of the code changes the vectors: old cache entries then expire."""

    def __init__(self, config: InitializerConfig | None = None, **settings: Any) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif not isinstance(config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not {config!r}")
        self.config = config.replace(**settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.changed_words()})"

    def fit(
        self, train: Interactions, *, progress: bool | ProgressLike | None = None
    ) -> InitialEmbeddings:
        """The starting vectors for `train`; the same data and seed give the same bits.

        Rows without interactions (and, where content places items, without content) are exactly
        zero. `provenance["isolated"]` counts the rows of zeros of each side.
        """
        if len(train) == 0:
            raise DataError(f"the training data is empty: {self.name} has nothing to fit on")
        reporter = make_progress(progress)
        embeddings = self._fit(train, reporter)
        reporter.close()
        users, items = embeddings.users, embeddings.items
        if self.leaves_unknown_rows_empty:
            users = with_empty_rows(users, np.bincount(train.user, minlength=users.n) > 0)
            known = np.bincount(train.item, minlength=items.n) > 0
            items = with_empty_rows(items, known | bool(items.provenance.get("content")))
        return InitialEmbeddings(users, items, train.users, train.items)

    @abc.abstractmethod
    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """Do the work."""

    def provenance(self, digest: str) -> dict[str, Any]:
        """Where vectors come from: method, parameters, hash of the data, version of the code."""
        origin = {"method": self.name, "parameters": self.config.to_dict()}
        return {**origin, "data": digest, "code": self.version}

    def _embeddings(
        self, train: Interactions, users: Any, items: Any, **report: Any
    ) -> InitialEmbeddings:
        """float32[n, D] of each side with their provenance; `report` adds to it."""
        report = {**self.provenance(train.digest), **report}
        return InitialEmbeddings(Embedding(users, None, report), Embedding(items, None, report))
