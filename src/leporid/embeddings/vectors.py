"""`Embedding` and `InitialEmbeddings`: vectors of users and items, on disk and aligned by id."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap
from leporid.embeddings.arrays import BoolArray, Float32Array, Float64Array, FloatArray
from leporid.errors import DataError, warn
from leporid.foundation import JsonValue, check_has_checksum, read_arrays, write_arrays

FORMAT = "leporid.embeddings.3"
"""Format of the files, which `InitialEmbeddings.load` compares."""

Arrays = dict[str, NDArray[Any]]
"""The arrays of a file by name, of whatever types they have."""


def standardize(
    vectors: Float32Array,
    scale: float = 1.0,
) -> Float32Array:
    """Z-score each column and multiply by `scale`; a constant column becomes zero."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    deviation = vectors.std(axis=0, dtype=np.float64)
    # Dividing a column that is constant up to rounding would amplify noise.
    constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    deviation[constant] = np.inf
    standardized = (vectors - mean) / deviation * scale
    return np.ascontiguousarray(standardized, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Embedding:
    """float32[n, d] vectors with their eigenvalues (where there are any) and provenance."""

    vectors: Float32Array
    eigenvalues: Float64Array | None = None
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
    def isolated(self) -> BoolArray:
        """bool[n]: the isolated rows, which are zero (see `embeddings.isolated`)."""
        return np.asarray(~self.vectors.any(axis=1))

    @property
    def size(self) -> float:
        """Root mean square of the entries without the isolated rows; 0 if all rows are isolated."""
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64)
        known = np.count_nonzero(squares)
        return float(np.sqrt(squares.sum() / max(known * self.dim, 1)))

    def standardized(self, scale: float = 1.0) -> Self:
        """Z-score each column and multiply by `scale`; only scale vectors z-scored before."""
        if self.provenance.get("standardized"):
            factor = np.float32(scale / self.provenance.get("scale", 1.0))
            vectors = self.vectors * factor
        else:
            vectors = standardize(self.vectors, scale)
        provenance = {**self.provenance, "standardized": True, "scale": scale}
        return replace(self, vectors=vectors, provenance=provenance)


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
        """Z-score both sides by column and multiply by `scale`."""
        return replace(
            self,
            users=self.users.standardized(scale),
            items=self.items.standardized(scale),
        )

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file with a checksum: vectors, eigenvalues, ids and provenance.

        Tensors `users` and `items` are float32[n, d]; beside them `users.eigenvalues` and the
        arrays of `IdMap.to_arrays`, such as `users.ids`.
        """
        arrays: Arrays = {}
        provenance = {}
        for side, embedding, ids in self.sides():
            arrays[side] = embedding.vectors
            provenance[side] = dict(embedding.provenance)
            if embedding.eigenvalues is not None:
                arrays[f"{side}.eigenvalues"] = embedding.eigenvalues
            if ids is not None:
                arrays |= ids.to_arrays(f"{side}.")
        text = json.dumps(provenance, sort_keys=True, ensure_ascii=False)
        write_arrays(
            path, arrays, {"format": FORMAT, "provenance": text}, checksum=True
        )
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; a file that was changed since is refused."""
        arrays, metadata = read_arrays(path)
        if metadata.get("format", FORMAT) != FORMAT:
            raise DataError(
                f"{path} has the format {metadata['format']!r}, this release reads {FORMAT}: "
                f"embed again"
            )
        if metadata:  # other programs write none
            check_has_checksum(path, metadata)
        try:
            provenance = json.loads(metadata.get("provenance", "{}"))
            users, user_ids = _read_side(arrays, "users", provenance)
            items, item_ids = _read_side(arrays, "items", provenance)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} holds no embeddings: {error}") from None
        width = users.vectors.shape[1]
        if width != items.vectors.shape[1]:
            raise DataError(f"{path} has vectors of {width} and of {items.dim} entries")
        return cls(users, items, user_ids, item_ids)

    def aligned(
        self,
        users: IdMap,
        items: IdMap,
        seed: int = 0,
    ) -> Self:
        """Return the vectors of these users and items, by their ids and in their order.

        One without a vector gets the mean of the others plus noise of a hundredth of their
        spread; a warning counts them. It is a `DataError` if none has a vector. Vectors without
        ids are taken by position.
        """
        draws = np.random.default_rng(seed)
        return replace(
            self,
            users=_aligned(self.users, self.user_ids, users, draws),
            items=_aligned(self.items, self.item_ids, items, draws),
            user_ids=users,
            item_ids=items,
        )

    def sides(self) -> list[tuple[str, Embedding, IdMap | None]]:
        """List name, vectors and ids of the users and of the items."""
        return [
            ("users", self.users, self.user_ids),
            ("items", self.items, self.item_ids),
        ]


def _aligned(
    embedding: Embedding,
    ids: IdMap | None,
    target: IdMap,
    draws: np.random.Generator,
) -> Embedding:
    if ids is None or ids is target or ids == target:
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
    arrays: Arrays,
    side: str,
    provenance: JsonValue,
) -> tuple[Embedding, IdMap | None]:
    vectors = arrays.get(side)
    if vectors is None or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise DataError(f"it has no matrix of floats named {side!r}")
    if not np.isfinite(vectors).all():
        raise DataError(f"{side!r} has NaN or infinite entries")

    eigenvalues = arrays.get(f"{side}.eigenvalues")
    if eigenvalues is not None and (
        eigenvalues.shape != vectors.shape[1:] or not np.isfinite(eigenvalues).all()
    ):
        raise DataError(
            f"the eigenvalues of {side!r} are not one finite number per column"
        )

    id_arrays = {
        name.removeprefix(f"{side}."): array
        for name, array in arrays.items()
        if name.startswith(f"{side}.") and name != f"{side}.eigenvalues"
    }
    kind = side.removesuffix("s")
    ids = IdMap.from_arrays(id_arrays, kind) if id_arrays else None
    if ids is not None and len(ids) != len(vectors):
        raise DataError(f"there are {len(vectors)} {kind} vectors but {len(ids)} ids")

    origin = provenance.get(side, {}) if isinstance(provenance, dict) else None
    if not isinstance(origin, dict):
        raise DataError(f"the provenance of {side!r} is not an object")
    embedding = Embedding(
        np.ascontiguousarray(vectors, dtype=np.float32),
        eigenvalues,
        origin,
    )
    return embedding, ids


def padded(vectors: FloatArray, dim: int) -> Float32Array:
    """float32[n, dim]: up to `dim` columns, and zeros where there are fewer."""
    out = np.zeros((len(vectors), dim), dtype=np.float32)
    out[:, : vectors.shape[1]] = vectors
    return out
