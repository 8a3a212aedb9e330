"""Edges between items with like content, and how much they count beside shared users.

Item i has d_i = sum_j J_ij from shared users (Jaccard) and n_i training interactions. Its k nearest
items by content that have users get

    C_ij = gamma(n_i) d_mean cos_ij / sum_l cos_il,    gamma(n) = gamma max(0, 1 - n / enough),

d_mean the mean of the d_i. So content gives an item without interactions gamma times the edges of
an average item, and from `enough` interactions on nothing: such items keep their place exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_BLOCK = 16_000_000
"""Entries of a block of similarities."""


def content_edges(
    features: sparse.csr_array,
    interactions: NDArray[np.int64],
    d_mean: float,
    k: int,
    gamma: float,
    enough: float,
    rows: NDArray[np.int64] | None = None,
    among: NDArray[np.bool_] | None = None,
) -> sparse.csr_array:
    """C float64[m, n] of `rows` (all by default) towards the rows of `features`, csr[n, f].

    `interactions` int64[n] is n_i. Memory is the result and a block, time is quadratic in n.
    """
    rows = np.arange(features.shape[0]) if rows is None else rows
    nearest = nearest_by_content(features, rows, k, interactions, among)
    total = np.asarray(nearest.sum(axis=1)).ravel()
    weight = d_mean * gamma * np.maximum(0, 1 - interactions[rows] / enough)
    return sparse.csr_array(sparse.diags_array(weight / np.where(total > 0, total, 1.0)) @ nearest)


def nearest_by_content(
    features: sparse.csr_array,
    rows: NDArray[np.int64],
    k: int,
    interactions: NDArray[np.int64],
    among: NDArray[np.bool_] | None = None,
) -> sparse.csr_array:
    """csr float64[m, n]: the cosines of each of `rows` with its k nearest others, all positive.

    Many items have the same genres: between equal cosines (to five places) the items with more
    interactions come first, then the smaller index. `among` bool[n] says who may be near.
    """
    n = features.shape[0]
    k = min(k, n - 1)
    order = np.lexsort((np.arange(n), -interactions))
    preference = np.empty(n)
    preference[order] = np.linspace(1e-5, 0, n, endpoint=False)
    allowed = np.ones(n, bool) if among is None else among
    columns, parts = features.T.tocsr(), []
    for first in range(0, max(len(rows), 1), size := max(_BLOCK // n, 1)):
        part = rows[first : first + size]
        cosines = (features[part] @ columns).toarray().astype(np.float64)
        cosines[np.arange(len(part)), part] = 0
        cosines[:, ~allowed] = 0
        key = np.where(cosines > 0, np.round(cosines, 5) + preference, -np.inf)
        top = np.argpartition(-key, k - 1, axis=1)[:, :k] if k < n else np.argsort(-key, axis=1)
        values = np.take_along_axis(cosines, top, axis=1)
        own, place = np.nonzero(values > 0)
        parts.append(sparse.csr_array((values[own, place], (own, top[own, place])), (len(part), n)))
    return sparse.csr_array(sparse.vstack(parts, format="csr"))
