"""`svd`: the truncated singular value decomposition of the interaction matrix.

X is about U S V^T; user vectors are the rows of U S^1/2, item vectors those of V S^1/2: their dot
products are the best rank-D approximation of X.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, svds

from leporid.data import Interactions
from leporid.embeddings.arrays import Float64Array
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.eigenpairs import column_signs
from leporid.embeddings.vectors import InitialEmbeddings, padded
from leporid.foundation import ProgressLike

_DENSE_SIDE = 256
"""Up to this many rows or columns the dense decomposition is faster than the sparse solver."""
_DENSE_CELLS = 1 << 24
"""Up to this many cells the dense decomposition takes seconds."""
_RESTARTS = 40
"""Restarts after which the dense solver takes over, where that takes seconds."""

Triplets: TypeAlias = tuple[
    Float64Array,
    Float64Array,
    Float64Array,
]


def truncated_svd(
    matrix: sparse.csr_array,
    dim: int,
    seed: int = 0,
) -> Triplets:
    """U float64[n, r], s float64[r] descending, V float64[m, r], with r = min(dim, n, m).

    Signs are fixed: the entry of largest magnitude in each column of U is positive.
    """
    matrix = matrix.astype(np.float64)
    smaller_side = min(matrix.shape)
    rank = min(dim, smaller_side)
    if smaller_side <= max(_DENSE_SIDE, 2 * rank):
        u, s, vt = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        u, s, vt = largest_triplets(matrix, rank, seed, matrix.toarray)
    order = np.argsort(-s, kind="stable")[:rank]
    signs = column_signs(u[:, order])
    return u[:, order] * signs, s[order], vt[order].T * signs


def largest_triplets(
    operator: sparse.csr_array | LinearOperator,
    rank: int,
    seed: int,
    dense: Callable[[], Float64Array],
) -> Triplets:
    """U, s and V^T of a sparse matrix or linear operator, in any order; `dense` makes it an array.

    Repeated singular values, as on very sparse logs, are hard for ARPACK's single first vector.
    """
    first = np.random.default_rng(seed).standard_normal(min(operator.shape))
    is_small = operator.shape[0] * operator.shape[1] <= _DENSE_CELLS
    restarts = _RESTARTS if is_small else None
    try:
        u, s, vt = svds(
            operator,
            k=rank,
            v0=first,
            maxiter=restarts,
            solver="arpack",
        )
    except ArpackError:
        if is_small:
            return np.linalg.svd(dense(), full_matrices=False)
        rng = np.random.default_rng(seed)
        u, s, vt = svds(operator, k=rank, rng=rng, solver="lobpcg")
    return u, s, vt


class SVD(Initializer):
    """U S^1/2 and V S^1/2; columns beyond the rank of the matrix are zero."""

    name = "svd"
    config_class = InitializerConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        dim = self.config.dim
        progress.start("singular vectors", 1)
        u, s, v = truncated_svd(train.csr(), dim, self.config.seed)
        progress.advance()
        # The vectors of a singular value at rounding level are arbitrary.
        roots = np.sqrt(np.where(s > 1e-9 * max(s[0], 1e-300), s, 0.0))
        return self._embeddings(train, padded(u * roots, dim), padded(v * roots, dim))
