"""New rows without a refit: each is placed by its neighbours among the fitted rows.

With neighbour weights w and d_reg_new = (1 - alpha) sum(w) + alpha d_max,

    q_new = (1 / mu) * sum_j w_j q_j / sqrt(d_reg_new * d_reg_j),

which is row i of A q = mu q when w is row i of W, and shrinks rows with few or weak neighbours
towards zero. For the unnormalised Laplacian, row i of (W - D_reg) q = mu q gives
q_new = sum_j w_j q_j / (d_reg_new + mu).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph.types import KnnGraph
from leporid.spectral.laplacian import regularized_degrees

__all__ = ["Extension", "choice_thresholds", "identical_rows", "neighbour_weights"]

SMALLEST_EIGENVALUE = 1e-6
"""Components whose eigenvalue is nearer to zero cannot be divided by; new rows get 0 there."""

BATCH_ENTRIES = 1 << 23
"""Similarities held at once while the neighbours of new rows are found."""


@dataclass(frozen=True, eq=False)
class Extension:
    """What is needed to embed new rows: the fitted vectors and degrees."""

    vectors: NDArray[np.float32]
    """float32[n, d]."""
    values: NDArray[np.float64]
    """float64[d]."""
    degrees: NDArray[np.float64]
    """float64[n]: d = W 1, unregularised."""
    alpha: float
    normalized: bool

    def embed(self, weights: sparse.csr_array) -> NDArray[np.float32]:
        """float32[m, d] from csr[m, n] weights to the fitted rows; no weights, zero vector."""
        maximum = self.degrees.max(initial=0.0)
        regularized = regularized_degrees(self.degrees, self.alpha)
        weights = weights.astype(np.float64)
        new = (1.0 - self.alpha) * np.asarray(weights.sum(axis=1)).ravel() + self.alpha * maximum
        if self.normalized:
            factor = np.zeros_like(regularized)
            np.divide(1.0, np.sqrt(regularized), out=factor, where=self.degrees > 0.0)
            sums = weights @ (factor[:, None] * self.vectors)
            denominator = np.sqrt(new)[:, None] * self.values
            smallest = SMALLEST_EIGENVALUE * np.sqrt(new)[:, None]
        else:
            sums = weights @ self.vectors.astype(np.float64)
            denominator = new[:, None] + self.values
            smallest = np.full((len(new), 1), SMALLEST_EIGENVALUE * max(maximum, 1e-300))
        out = np.zeros(sums.shape)
        np.divide(sums, denominator, out=out, where=np.abs(denominator) > smallest)
        return out.astype(np.float32)


def choice_thresholds(graph: KnnGraph) -> NDArray[np.float32]:
    """float32[n]: a new row must be more similar than this for row j to choose it.

    Row j of W holds its own top-K and, beyond it, rows that chose j; so its K-th largest weight
    is the K-th similarity of j, and 0 where j has fewer than K neighbours. A tie goes to the
    smaller index, hence never to the new row.
    """
    thresholds = np.zeros(graph.n, dtype=np.float32)
    for row in np.flatnonzero(np.diff(graph.indptr) >= graph.k):
        weights = graph.weights[graph.indptr[row] : graph.indptr[row + 1]]
        place = len(weights) - graph.k
        thresholds[row] = np.partition(weights, place)[place]
    return thresholds


def neighbour_weights(
    new: sparse.csr_array,
    fitted: sparse.csr_array,
    k: int,
    thresholds: NDArray[np.float32],
    threads: int | None = None,
) -> sparse.csr_array:
    """csr[m, n]: the rows of W that new rows would have, by the same OR rule.

    j is a neighbour of the new row when it is among the row's own top-K, or when the new row
    would be among the top-K of j.
    """
    from leporid.graph.neighbours import top_k_neighbours

    n = fitted.shape[0]
    batch = max(1, BATCH_ENTRIES // max(n, 1))
    parts = []
    for start in range(0, new.shape[0], batch):
        rows = new[start : start + batch]
        found = top_k_neighbours(rows, n, against=fitted, exclude_self=False, threads=threads)
        chosen = found.weights > thresholds[found.indices]
        chosen[:, :k] = True
        chosen &= (found.indices >= 0) & (found.weights > 0.0)
        indptr = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
        parts.append(
            sparse.csr_array(
                (found.weights[chosen], found.indices[chosen], indptr), shape=(rows.shape[0], n)
            )
        )
    if not parts:
        return sparse.csr_array((0, n), dtype=np.float32)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def identical_rows(new: sparse.csr_array, fitted: sparse.csr_array) -> NDArray[np.int64]:
    """int64[m]: the first fitted row with exactly the same columns, or -1.

    Both have sorted indices. An empty row is identical to nothing.
    """
    first: dict[bytes, int] = {}
    starts = fitted.indptr
    columns = np.asarray(fitted.indices, dtype=np.int32)
    for row in range(fitted.shape[0] - 1, -1, -1):
        first[columns[starts[row] : starts[row + 1]].tobytes()] = row
    first.pop(b"", None)
    starts, columns = new.indptr, np.asarray(new.indices, dtype=np.int32)
    return np.fromiter(
        (
            first.get(columns[starts[row] : starts[row + 1]].tobytes(), -1)
            for row in range(new.shape[0])
        ),
        dtype=np.int64,
        count=new.shape[0],
    )
