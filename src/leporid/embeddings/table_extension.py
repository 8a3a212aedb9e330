"""Out-of-sample rows of a trained table: a weighted mean of the neighbours, rescaled per column.

Trained vectors have no eigenvalues; the scale is measured on fitted rows, extended as if they were
new.
"""

import numpy as np
from scipy import sparse

from leporid.embeddings.arrays import Float32Array, Int64Array
from leporid.graph import NearestRows

SAMPLE = 512
"""Fitted rows on which the scale of each column is measured."""


class TableExtension:
    """Extends `table` float32[n, d] of rows `fitted`, csr[n, m], to new rows by k neighbours."""

    def __init__(
        self,
        fitted: sparse.csr_array,
        table: Float32Array,
        k: int,
    ) -> None:
        self._table = np.ascontiguousarray(table, dtype=np.float32)
        self._average = self._table.mean(axis=0)
        self._nearest = NearestRows(fitted)
        self._k = k
        sample = np.unique(np.linspace(0, len(table) - 1, SAMPLE).astype(np.int64))
        # One more than k: a sampled row is its own nearest neighbour, and is left out.
        smooth = self._neighbour_mean(fitted[sample], k + 1, sample)
        trained = self._table[sample]
        self._center = smooth.mean(axis=0)
        self._offset = trained.mean(axis=0)
        deviation = smooth - self._center
        variation = (deviation**2).sum(axis=0)
        shared = (deviation * (trained - self._offset)).sum(axis=0)
        self._scale = np.divide(
            shared,
            variation,
            out=np.zeros_like(shared),
            where=variation > 0,
        )

    def extend(self, new: sparse.csr_array) -> Float32Array:
        """float32[len(new), d]; a row without neighbours gets the vector of the average row."""
        smooth = self._neighbour_mean(new, self._k)
        vectors = self._offset + self._scale * (smooth - self._center)
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def _neighbour_mean(
        self,
        rows: sparse.csr_array,
        k: int,
        same_rows: Int64Array | None = None,
    ) -> Float32Array:
        """float32[m, d]: the mean vector of each row's neighbours, weighted by similarity.

        `same_rows` int64[m] are the fitted rows that the rows are: they are left out.
        """
        mean = np.tile(self._average, (rows.shape[0], 1))
        for part, sums, totals in self._nearest.sums(rows, self._table, k, same_rows):
            linked = totals > 0
            mean[part][linked] = sums[linked] / totals[linked, None]
        return mean
