"""Two steps of a random walk on the bipartite graph: from an item over its users to items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.models.shared.sparse import canonical, top_k_products

__all__ = ["walk_weights"]


def walk_weights(
    profiles: sparse.csr_array, top_k: int, alpha: float, beta: float, normalize: bool
) -> sparse.csr_array:
    """float32[n_items, n_items]: the `top_k` largest weights of each row, no diagonal.

    profiles: binary [n_users, n_items]. W_ij = sum_u P(u|i)^alpha P(j|u)^alpha / d_j^beta, where
    P(u|i) = 1 / d_i and P(j|u) = 1 / d_u.
    """
    by_item = canonical(profiles.T)
    from_item = canonical(sparse.diags_array(_power(by_item, -alpha)) @ by_item)
    from_user = canonical(sparse.diags_array(_power(profiles, -alpha)) @ profiles)
    return top_k_products(from_item, from_user, _power(by_item, -beta), top_k, normalize)


def _power(matrix: sparse.csr_array, exponent: float) -> NDArray[np.float64]:
    """float64[n]: the number of entries of each row to a power (rows without any: 1)."""
    counts = np.diff(matrix.indptr).astype(np.float64)
    return np.asarray(np.maximum(counts, 1.0) ** exponent)
