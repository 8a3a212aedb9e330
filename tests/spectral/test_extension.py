"""New rows in a trained table, against a dense version that is read off the formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from leporid.embeddings import TableExtension


def neighbour_mean(rows, fitted, table, k, own=None):
    """Jaccard-weighted mean over each row's k nearest fitted rows; ties to the smaller index."""
    shared = rows @ fitted.T
    union = rows.sum(axis=1)[:, None] + fitted.sum(axis=1) - shared
    jaccard = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    if own is not None:
        jaccard[np.arange(len(rows)), own] = 0.0
    nearest = np.argsort(-jaccard.astype(np.float32), axis=1, kind="stable")[:, :k]
    weight = np.take_along_axis(jaccard, nearest, axis=1)
    total = weight.sum(axis=1, keepdims=True)
    mean = np.einsum("mk,mkd->md", weight, table[nearest])
    return np.where(total > 0, mean / np.maximum(total, 1e-300), table.mean(axis=0))


@pytest.mark.parametrize("n", [90, 1500])
def test_placed_rows_are_stretched_means_of_their_neighbours(n):
    rng = np.random.default_rng(n)
    fitted = (rng.random((n, 40)) < rng.uniform(0.05, 0.5, (n, 1))).astype(np.float64)
    table = (fitted @ rng.standard_normal((40, 3)) + rng.standard_normal((n, 3))).astype(np.float32)
    new = (rng.random((25, 40)) < 0.2).astype(np.float64)
    new[4] = 0.0
    extension = TableExtension(sparse.csr_array(fitted), table, 7)

    sample = np.unique(np.linspace(0, n - 1, 512).astype(np.int64))
    smooth = neighbour_mean(fitted[sample], fitted, table, 7, own=sample)
    own = table[sample].astype(np.float64)
    expected = np.empty((25, 3))
    for column in range(3):
        slope = np.polyfit(smooth[:, column], own[:, column], 1)[0]
        centred = neighbour_mean(new, fitted, table, 7)[:, column] - smooth[:, column].mean()
        expected[:, column] = own[:, column].mean() + slope * centred
    extended = extension.extend(sparse.csr_array(new))
    assert extended.dtype == np.float32
    np.testing.assert_allclose(extended, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(extension.extend(sparse.csr_array(new[3:4])), extended[3:4])
