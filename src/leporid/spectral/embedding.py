"""`Embedding`: one vector per row and its provenance; signs of eigenvectors."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


def standardize(vectors: NDArray[np.float32], scale: float = 1.0) -> NDArray[np.float32]:
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
        return replace(self, vectors=standardize(self.vectors, scale), provenance=provenance)


def column_signs(vectors: NDArray[Any]) -> NDArray[Any]:
    """+1 or -1 per column, by which the entry of largest magnitude becomes positive."""
    peak = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.where(peak < 0, -1, 1).astype(vectors.dtype)
