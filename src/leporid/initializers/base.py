"""`Initializer`: training interactions in, starting vectors for users and items out."""

from __future__ import annotations

import abc
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import read_arrays, write_arrays
from leporid.config import Config, setting
from leporid.data import IdMap, Interactions
from leporid.errors import ConfigError, DataError
from leporid.progress import ProgressLike, make_progress
from leporid.spectral import Embedding

_OLD_NAMES = {"ids.utf8": "bytes", "ids.offsets": "offsets"}
"""What files written before version 0.2 call the arrays of text ids."""


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

    def save(self, path: str | Path, metadata: Mapping[str, str] | None = None) -> Path:
        """Write one safetensors file: vectors, eigenvalues, ids and provenance.

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
        about = {"format": "leporid.embeddings", "provenance": text, **(metadata or {})}
        write_arrays(path, arrays, about)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> InitialEmbeddings:
        """Read what `save` wrote; a checksum among its metadata must match."""
        arrays, metadata = read_arrays(path)
        try:
            provenance = json.loads(metadata.get("provenance", "{}"))
        except json.JSONDecodeError as error:
            raise DataError(f"the provenance in {path} is not valid JSON: {error}") from None
        sides: list[tuple[Embedding, IdMap | None]] = []
        for side in ("users", "items"):
            if side not in arrays or arrays[side].ndim != 2:
                raise DataError(f"{path} holds no embeddings: it has no matrix named {side!r}")
            vectors = np.ascontiguousarray(arrays[side], dtype=np.float32)
            values, ids = arrays.get(f"{side}.eigenvalues"), _read_ids(arrays, side)
            if ids is not None and len(ids) != len(vectors):
                raise DataError(f"{path} has {len(vectors)} {side[:-1]} vectors but {len(ids)} ids")
            sides.append((Embedding(vectors, values, provenance.get(side, {})), ids))
        (users, user_ids), (items, item_ids) = sides
        loaded = cls(users, items, user_ids, item_ids)
        if "checksum" in metadata and metadata["checksum"] != loaded.checksum():
            raise DataError(f"{path} does not match its checksum")
        return loaded

    def checksum(self) -> str:
        """A hash of the vectors and eigenvalues."""
        hasher = hashlib.sha256()
        for array in [a for _, side, _ in self.sides() for a in (side.vectors, side.eigenvalues)]:
            if array is not None:
                hasher.update(repr((array.shape, str(array.dtype))).encode())
                hasher.update(np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()

    def sides(self) -> list[tuple[str, Embedding, IdMap | None]]:
        """Name, vectors and ids of the users and of the items."""
        return [("users", self.users, self.user_ids), ("items", self.items, self.item_ids)]


def _read_ids(arrays: Mapping[str, NDArray[Any]], side: str) -> IdMap | None:
    names = {name: name.removeprefix(f"{side}.") for name in arrays if name.startswith(f"{side}.")}
    stored = {_OLD_NAMES.get(short, short): arrays[name] for name, short in names.items()}
    stored.pop("eigenvalues", None)
    return IdMap.from_arrays(stored, side[:-1]) if stored else None


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
    version: ClassVar[int] = 1
    """Raised whenever a change of the code changes the vectors: old cache entries then expire."""

    def __init__(self, config: InitializerConfig | None = None, **settings: Any) -> None:
        config = self.config_class() if config is None else config
        if not isinstance(config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not {config!r}")
        self.config = config.replace(**settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.changed_words()})"

    def fit(
        self, train: Interactions, *, progress: bool | ProgressLike | None = None
    ) -> InitialEmbeddings:
        """The starting vectors for `train`; the same data and seed give the same bits."""
        if len(train) == 0:
            raise DataError(f"the training data is empty: {self.name} has nothing to fit on")
        reporter = make_progress(progress)
        embeddings = self._fit(train, reporter)
        reporter.close()
        return replace(embeddings, user_ids=train.users, item_ids=train.items)

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
