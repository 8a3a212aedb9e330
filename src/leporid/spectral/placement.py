"""New rows in a table of vectors that training has moved away from the eigenvectors.

A new row is placed by the fitted rows with the most similar item sets, as in `extension`: a
weighted mean of the neighbours' vectors, then stretched column by column. The mean of neighbours is
smoother than a row of its own; in LEPORID's formula the factor 1 / mu (mu the eigenvalue) undoes
that. Trained vectors have no eigenvalues, so the factor is measured instead: on fitted rows, placed
as if they were new.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.spectral.extension import NearestRows

__all__ = ["TablePlacement"]

SAMPLE = 512
"""Fitted rows on which the stretch of each column is measured."""


class TablePlacement:
    """Places new rows in `table` float32[n, d], whose rows belong to those of `fitted`, csr[n, m].

    `k` is the number of similar fitted rows that a new one is made of.
    """

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
        self._stretch = np.divide(shared, spread, out=np.zeros_like(shared), where=spread > 0)

    def place(self, new: sparse.csr_array) -> NDArray[np.float32]:
        """float32[len(new), d]; a row without any neighbour gets the place of the average row."""
        smooth = self._neighbour_mean(new, self._k)
        placed = self._offset + self._stretch * (smooth - self._center)
        return np.ascontiguousarray(placed, dtype=np.float32)

    def _neighbour_mean(
        self, rows: sparse.csr_array, k: int, own: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """float32[m, d]: the mean vector of each row's neighbours, weighted by similarity."""
        mean = np.tile(self._average, (rows.shape[0], 1))
        for part, sums, totals in self._nearest.sums(rows, self._table, k, own):
            some = totals > 0
            mean[part][some] = sums[some] / totals[some, None]
        return mean
