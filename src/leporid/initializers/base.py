"""`Initializer`: training interactions in, starting vectors for users and items out."""

from __future__ import annotations

import abc
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.artifacts import read_arrays, write_arrays
from leporid.config import Config
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.errors import ConfigError, DataError
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.embedding import Embedding

__all__ = ["InitialEmbeddings", "Initializer", "InitializerConfig"]


@dataclass(frozen=True, eq=False)
class InitialEmbeddings:
    """One vector for every user and every item, as the initialiser made them (not scaled)."""

    users: Embedding
    items: Embedding
    user_ids: IdMap | None = None
    """External ids of the user rows; None where only positions are known."""
    item_ids: IdMap | None = None
    """External ids of the item rows; None where only positions are known."""

    def standardized(self, scale: float = 1.0) -> InitialEmbeddings:
        """Both sides z-scored by column, times `scale`."""
        return replace(
            self, users=self.users.standardized(scale), items=self.items.standardized(scale)
        )

    def save(self, path: str | Path, metadata: Mapping[str, str] | None = None) -> Path:
        """Write one safetensors file: vectors, eigenvalues, ids and provenance.

        Tensors `users` and `items` are float32[n, d]. Integer ids are int64 tensors
        `users.ids` and `items.ids`; string ids are UTF-8 bytes and int64 offsets.
        """
        arrays: dict[str, NDArray[Any]] = {}
        provenance: dict[str, Any] = {}
        for side, embedding, ids in self.sides():
            arrays[side] = embedding.vectors
            provenance[side] = dict(embedding.provenance)
            if embedding.eigenvalues is not None:
                arrays[f"{side}.eigenvalues"] = embedding.eigenvalues
            if ids is not None:
                arrays.update(_pack_ids(side, ids))
        text = json.dumps(provenance, sort_keys=True, ensure_ascii=False)
        write_arrays(
            path, arrays, {"format": "leporid.embeddings", "provenance": text, **(metadata or {})}
        )
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> InitialEmbeddings:
        """Read what `save` wrote."""
        arrays, metadata = read_arrays(path)
        return cls.from_arrays(arrays, metadata, path)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str], path: str | Path
    ) -> InitialEmbeddings:
        """The inverse of `save` on what is in memory; `path` is named in errors."""
        for side in ("users", "items"):
            if side not in arrays or arrays[side].ndim != 2:
                raise DataError(f"{path} holds no embeddings: it has no matrix named {side!r}")
        try:
            provenance = json.loads(metadata.get("provenance", "{}"))
        except json.JSONDecodeError as error:
            raise DataError(f"the provenance in {path} is not valid JSON: {error}") from None
        made = [
            Embedding(
                np.ascontiguousarray(arrays[side], dtype=np.float32),
                arrays.get(f"{side}.eigenvalues"),
                provenance.get(side, {}),
            )
            for side in ("users", "items")
        ]
        ids = [
            _unpack_ids(side, arrays, embedding.n, path)
            for side, embedding in zip(("users", "items"), made, strict=True)
        ]
        return cls(made[0], made[1], ids[0], ids[1])

    def sides(self) -> list[tuple[str, Embedding, IdMap | None]]:
        """Name, vectors and ids of the users and of the items."""
        return [("users", self.users, self.user_ids), ("items", self.items, self.item_ids)]


def _pack_ids(side: str, ids: IdMap) -> dict[str, NDArray[Any]]:
    if ids.is_integer:
        return {f"{side}.ids": np.asarray(ids.values, dtype=np.int64)}
    encoded = [str(value).encode() for value in ids.values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return {f"{side}.ids.utf8": text, f"{side}.ids.offsets": offsets}


def _unpack_ids(
    side: str, arrays: Mapping[str, NDArray[Any]], n: int, path: str | Path
) -> IdMap | None:
    kind = side[:-1]
    if f"{side}.ids" in arrays:
        ids = IdMap(pa.array(arrays[f"{side}.ids"], type=pa.int64()), kind)
    elif f"{side}.ids.utf8" in arrays and f"{side}.ids.offsets" in arrays:
        text = arrays[f"{side}.ids.utf8"].tobytes()
        offsets = arrays[f"{side}.ids.offsets"].tolist()
        values = [text[a:b].decode() for a, b in itertools.pairwise(offsets)]
        ids = IdMap(pa.array(values, type=pa.string()), kind)
    else:
        return None
    if len(ids) != n:
        raise DataError(f"{path} has {n} {kind} vectors but {len(ids)} {kind} ids")
    return ids


@dataclass(frozen=True, kw_only=True)
class InitializerConfig(Config):
    """Settings every initialiser has."""

    dim: int = 64
    """Number of columns D."""
    seed: int = 0
    """Seeds every random choice the method makes."""

    def validate(self) -> None:
        """Refuse impossible sizes."""
        if self.dim < 1:
            raise ConfigError(f"dim must be at least 1, not {self.dim}")


class Initializer(abc.ABC):
    """Base class of all initialisers."""

    name: ClassVar[str]
    config_class: ClassVar[type[InitializerConfig]]
    standardize_by_default: ClassVar[bool] = True
    """Whether models should z-score the vectors (random vectors are used as drawn)."""
    version: ClassVar[int] = 1
    """Raised whenever a change of the code changes the vectors: old cache entries then expire."""

    def __init__(self, config: InitializerConfig | None = None, **settings: Any) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif settings:
            config = config.replace(**settings)
        if not isinstance(config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not {config!r}")
        self.config = config

    def fit(
        self, train: Interactions, *, progress: bool | ProgressLike | None = None
    ) -> InitialEmbeddings:
        """The starting vectors for `train`; the same data and seed give the same bits."""
        if len(train) == 0:
            raise DataError(f"the training data is empty: {self.name} has nothing to fit on")
        reporter = make_progress(progress)
        made = self._fit(train, reporter)
        reporter.close()
        return replace(made, user_ids=train.users, item_ids=train.items)

    @abc.abstractmethod
    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """Do the work."""

    def provenance(self, train: Interactions) -> dict[str, Any]:
        """What made the vectors: method, parameters, data and the version of the code."""
        return {
            "method": self.name,
            "parameters": self.config.to_dict(),
            "data": train.digest,
            "code": self.version,
        }
