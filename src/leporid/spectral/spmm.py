"""The sparse x block product, row-parallel in numba."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from leporid.spectral.laplacian import LaplacianOperator

__all__ = ["exact_product"]


@numba.njit(parallel=True, cache=True)
def _exact(
    indptr: Any, indices: Any, weights: Any, scale: Any, diagonal: Any, x: Any, out: Any
) -> None:
    n, width = x.shape
    for i in numba.prange(n):
        accumulated = np.zeros(width)
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.uint64(np.uint32(indices[p]))
            weight = weights[p] * scale[j]
            for c in range(width):
                accumulated[c] += weight * x[j, c]
        for c in range(width):
            out[i, c] = scale[i] * accumulated[c] + diagonal[i] * x[i, c]


def exact_product(
    operator: LaplacianOperator, block: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """float64[n, b]: M X with every product and sum in float64."""
    block = np.ascontiguousarray(block, dtype=np.float64)
    out = np.empty_like(block)
    graph = operator.graph
    _exact(
        graph.indptr, graph.indices, graph.weights, operator.scale, operator.diagonal, block, out
    )
    return out
