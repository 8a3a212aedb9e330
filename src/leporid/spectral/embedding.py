"""`Embedding`: one vector a row, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


def standardize(vectors: NDArray[np.float32], scale: float = 1.0) -> NDArray[np.float32]:
    """Z-score each column and multiply by `scale`; a constant column becomes zero."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    deviation = vectors.std(axis=0, dtype=np.float64)
    # A column that is constant up to rounding carries nothing; dividing would amplify noise.
    constant = deviation <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    deviation[constant] = np.inf
    return np.ascontiguousarray((vectors - mean) / deviation * scale, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Embedding:
    """float32[n, d] vectors with their eigenvalues (where there are any) and provenance."""

    vectors: NDArray[np.float32]
    """float32[n, d]."""
    eigenvalues: NDArray[np.float64] | None = None
    """float64[d], eigenvalues of A in descending order; None for non-spectral methods."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Method, parameters and data hash: JSON-able."""

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
        """bool[n]: rows of zeros, which belong to nodes without neighbours."""
        return np.asarray(~self.vectors.any(axis=1))

    @property
    def size(self) -> float:
        """Root mean square of the entries, isolated rows left out; 0 where there are no others."""
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64)
        known = np.count_nonzero(squares)
        return float(np.sqrt(squares.sum() / max(known * self.dim, 1)))

    def standardized(self, scale: float = 1.0) -> Embedding:
        """What a model receives: each column z-scored, times `scale`.

        Vectors that are standardised already, perhaps with weighted columns, are only scaled.
        """
        provenance = {**self.provenance, "standardized": True, "scale": scale}
        if self.provenance.get("standardized"):
            factor = np.float32(scale / self.provenance.get("scale", 1.0))
            return replace(self, vectors=self.vectors * factor, provenance=provenance)
        return replace(self, vectors=standardize(self.vectors, scale), provenance=provenance)
