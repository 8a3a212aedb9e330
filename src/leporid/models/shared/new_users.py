"""A row of the user table for people who were not there when it was trained.

A new person is placed by the fitted users with the most similar item sets, as in the extension
of LEPORID to new rows: a weighted mean of the neighbours' rows, then stretched column by
column. The mean of neighbours is smoother than a user's own row; in LEPORID's formula the factor
1 / mu (mu the eigenvalue) undoes that. Trained rows have moved away from the eigenvectors, so
the factor is measured instead: on fitted users, placed as if they were new.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.interactions import Interactions, Sequences

__all__ = ["NewUserRows"]

_SAMPLE = 512
"""Fitted users on which the stretch of each column is measured."""
_AT_ONCE = 512


class NewUserRows:
    """Places new people in a trained user table."""

    def __init__(self, train: Interactions, table: NDArray[np.float32], neighbours: int) -> None:
        self._fitted = train.csr()
        self._by_item = self._fitted.T.tocsr()
        self._sizes = np.diff(self._fitted.indptr).astype(np.float32)
        self._table = table
        self._k = neighbours
        sample = np.unique(np.linspace(0, len(table) - 1, _SAMPLE).astype(np.int64))
        smooth = self._neighbour_mean(self._fitted[sample], sample)
        self._center = smooth.mean(axis=0)
        own = table[sample]
        self._offset = own.mean(axis=0)
        spread = ((smooth - self._center) ** 2).sum(axis=0)
        shared = ((smooth - self._center) * (own - self._offset)).sum(axis=0)
        self._stretch = np.divide(shared, spread, out=np.zeros_like(shared), where=spread > 0)

    def place(self, histories: Sequences) -> NDArray[np.float32]:
        """float32[len(histories), D]; a history without any neighbour gets the mean row."""
        rows = sparse.csr_array(
            (np.ones(len(histories.items), np.float32), histories.items, histories.indptr),
            shape=(len(histories), self._fitted.shape[1]),
        )
        rows.sum_duplicates()
        rows.data[:] = 1.0
        smooth = self._neighbour_mean(rows, None)
        placed = self._offset + self._stretch * (smooth - self._center)
        return np.ascontiguousarray(placed, dtype=np.float32)

    def _neighbour_mean(
        self, rows: sparse.csr_array, own: NDArray[np.int64] | None
    ) -> NDArray[np.float32]:
        """Jaccard-weighted mean of the table rows of each row's nearest fitted users.

        `own[i]` is the fitted user that row i is, and is left out.
        """
        k = min(self._k, len(self._table))
        sizes = np.diff(rows.indptr).astype(np.float32)
        out = np.empty((rows.shape[0], self._table.shape[1]), np.float32)
        for start in range(0, rows.shape[0], _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            shared = (rows[part] @ self._by_item).toarray()
            union = sizes[part, None] + self._sizes[None, :] - shared
            jaccard = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
            if own is not None:
                jaccard[np.arange(len(jaccard)), own[part]] = 0.0
            nearest = np.argpartition(-jaccard, k - 1, axis=1)[:, :k]
            weight = np.take_along_axis(jaccard, nearest, axis=1)
            total = weight.sum(axis=1, keepdims=True)
            weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
            mean = np.einsum("mk,mkd->md", weight, self._table[nearest])
            out[part] = np.where(total > 0, mean, self._table.mean(axis=0))
        return out
