"""Out-of-sample extension: new rows get vectors from their neighbours among the fitted rows.

With neighbour weights w and d_reg_new = (1 - alpha) sum(w) + alpha d_max,

    q_new = (1 / mu) * sum_j w_j q_j / sqrt(d_reg_new * d_reg_j),

which is row i of A q = mu q when w is row i of W. For the unnormalised Laplacian, row i of
(W - D_reg) q = mu q gives q_new = sum_j w_j q_j / (d_reg_new + mu).

`TableExtension` does the same in a table of trained vectors: a weighted mean of the neighbours'
vectors, rescaled per column. Trained vectors have no eigenvalues; the scale is measured on fitted
rows, extended as if they were new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph import BinaryCSR, Graph, NearestRows, binary_csr
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.embedding import Vectors
from leporid.spectral.landmarks import row_blocks, row_keys
from leporid.spectral.laplacian import regularized_degrees

SMALLEST_EIGENVALUE = 1e-6
"""New rows are 0 in columns whose eigenvalue is nearer to zero."""
SAMPLE = 512
"""Fitted rows on which the scale of each column is measured."""


@dataclass(frozen=True, eq=False)
class Extension:
    """The fitted vectors float32[n, d], eigenvalues and degrees, which embed new rows."""

    vectors: NDArray[np.float32]
    values: NDArray[np.float64]
    degrees: NDArray[np.float64]
    """float64[n]: d = W 1, unregularised."""
    alpha: float
    normalized: bool

    def embed(self, weights: sparse.csr_array) -> NDArray[np.float32]:
        """float32[m, d] from csr[m, n] weights to the fitted rows; no weights, zero vector."""
        weights = weights.astype(np.float64)
        return self.finish(weights @ self.table(), np.asarray(weights.sum(axis=1)).ravel())

    def table(self) -> NDArray[np.float64]:
        """float64[n, d]: what a new row sums up, q_j / sqrt(d_reg_j) (q_j when unnormalised)."""
        if not self.normalized:
            return self.vectors.astype(np.float64)
        factor = np.zeros_like(self.degrees)
        regularized = regularized_degrees(self.degrees, self.alpha)
        np.divide(1.0, np.sqrt(regularized), out=factor, where=self.degrees > 0.0)
        return factor[:, None] * self.vectors

    def finish(self, sums: NDArray[Any], totals: NDArray[np.float64]) -> NDArray[np.float32]:
        """float32[m, d] from sums over `table` (float[m, d]) and sums of weights (float64[m])."""
        maximum = self.degrees.max(initial=0.0)
        new = ((1.0 - self.alpha) * totals + self.alpha * maximum)[:, None]
        unit = np.sqrt(new) if self.normalized else max(maximum, 1e-300)
        denominator = unit * self.values if self.normalized else new + self.values
        large = np.abs(denominator) > SMALLEST_EIGENVALUE * unit
        out = np.zeros(sums.shape)
        np.divide(sums, denominator, out=out, where=large)
        return out.astype(np.float32)


class OldVectors(NamedTuple):
    """The vectors of an earlier fit, which initialise a solver and fix the coordinates."""

    vectors: NDArray[np.float32]
    """float32[m, d], of the first m rows; zeros for a row that has none."""
    reference: Vectors
    """float[m, d]: the same in the target coordinates."""
    extension: Extension | None = None
    """For the rows after the first m."""

    def init(self, graph: Graph) -> NDArray[np.float32]:
        """float32[n, d]: the first block of the solver."""
        m = len(self.vectors)
        if self.extension is None or graph.n == m:
            return self.vectors
        return np.vstack([self.vectors, self.extension.embed(graph.csr()[m:, :m])])


def extend_rows(
    new: sparse.csr_array | BinaryCSR,
    fitted: sparse.csr_array,
    extension: Extension,
    k: int,
    thresholds: NDArray[np.float32],
    threads: int | None = None,
    progress: ProgressLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Vectors float32[m, d] and degrees float64[m] of new rows, in streamed blocks.

    A row with exactly the columns of a fitted one gets its vector. Sums run in float32.
    """
    binary = binary_csr(new, "new")
    vectors = np.empty((binary.n, extension.vectors.shape[1]), np.float32)
    degrees, reporter = np.empty(binary.n), make_progress(progress)
    nearest: NearestRows | None = None
    for here in row_blocks(binary.indptr):
        rows = binary.take(here)
        same = identical_rows(rows, fitted)
        vectors[here] = extension.vectors[np.maximum(same, 0)]
        degrees[here] = extension.degrees[np.maximum(same, 0)]
        fresh = np.flatnonzero(same < 0)
        if not len(fresh):
            continue
        if nearest is None:
            reporter.start("other rows", binary.n)
            table = np.ascontiguousarray(extension.table(), dtype=np.float32)
            nearest = NearestRows(fitted, thresholds, threads)
        for part, sums, totals in nearest.sums(rows[fresh], table, k):
            at = here[fresh[part]]
            vectors[at], degrees[at] = extension.finish(sums, totals), totals
            reporter.advance(len(totals))
    return vectors, degrees


def identical_rows(new: sparse.csr_array, fitted: sparse.csr_array) -> NDArray[np.int64]:
    """int64[m]: the first fitted row with exactly the same columns, or -1.

    Both have sorted indices. An empty row is identical to nothing.
    """
    same = np.full(new.shape[0], -1, np.int64)
    ours, theirs = row_keys(binary_csr(new), 0), row_keys(binary_csr(fitted), 0)
    keys, first = np.unique(theirs, return_index=True)
    at = np.searchsorted(keys, ours).clip(max=len(keys) - 1)
    other, sizes = first[at], np.diff(new.indptr)
    alike = (keys[at] == ours) & (sizes > 0) & (sizes == np.diff(fitted.indptr)[other])
    if (some := np.flatnonzero(alike)).size:
        left, right = new[some], fitted[other[some]]
        differ = np.add.reduceat(left.indices != right.indices, left.indptr[:-1])
        same[some[differ == 0]] = other[some[differ == 0]]
    return same


class TableExtension:
    """Extends `table` float32[n, d] of rows `fitted`, csr[n, m], to new rows by k neighbours."""

    def __init__(self, fitted: sparse.csr_array, table: NDArray[np.float32], k: int) -> None:
        self._table = np.ascontiguousarray(table, dtype=np.float32)
        self._average = self._table.mean(axis=0)
        sample = np.unique(np.linspace(0, len(table) - 1, SAMPLE).astype(np.int64))
        self._nearest, self._k = NearestRows(fitted), k
        # One more than k: a sampled row is its own nearest neighbour, and is left out.
        smooth = self._neighbour_mean(fitted[sample], k + 1, sample)
        own = self._table[sample]
        self._center, self._offset = smooth.mean(axis=0), own.mean(axis=0)
        spread = ((smooth - self._center) ** 2).sum(axis=0)
        shared = ((smooth - self._center) * (own - self._offset)).sum(axis=0)
        self._scale = np.divide(shared, spread, out=np.zeros_like(shared), where=spread > 0)

    def extend(self, new: sparse.csr_array) -> NDArray[np.float32]:
        """float32[len(new), d]; a row without neighbours gets the vector of the average row."""
        smooth = self._neighbour_mean(new, self._k)
        vectors = self._offset + self._scale * (smooth - self._center)
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def _neighbour_mean(
        self, rows: sparse.csr_array, k: int, own: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """float32[m, d]: the mean vector of each row's neighbours, weighted by similarity."""
        mean = np.tile(self._average, (rows.shape[0], 1))
        for part, sums, totals in self._nearest.sums(rows, self._table, k, own):
            some = totals > 0
            mean[part][some] = sums[some] / totals[some, None]
        return mean
