"""Slow, obvious neighbours: what the kernels must equal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def members(X: Any) -> NDArray[np.int64]:
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return (dense != 0).astype(np.int64)


def similarities(
    X: Any,
    Y: Any,
    name: str = "jaccard",
    shrink: float = 0.0,
    alpha: float = 0.5,
    beta: float = 0.5,
) -> NDArray[np.float32]:
    """float32[n, m], straight from the definitions on sets."""
    A, B = members(X), members(Y)
    shared = A.astype(np.float64) @ B.T.astype(np.float64)
    left = A.sum(axis=1).astype(np.float64)[:, None]
    right = B.sum(axis=1).astype(np.float64)[None, :]
    if name == "jaccard":
        below = left + right - shared
    elif name == "cosine":
        below = np.sqrt(left) * np.sqrt(right)
    elif name == "asymmetric_cosine":
        below = left**alpha * right ** (1 - alpha)
    elif name == "dice":
        shared, below = 2 * shared, left + right
    else:
        below = shared + alpha * (left - shared) + beta * (right - shared)
    below = below + shrink
    return np.divide(shared, below, out=np.zeros_like(shared), where=shared > 0).astype(np.float32)


def top_k(weights: NDArray[np.float32], k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Indices (-1 pads) and weights of each row's k largest, ties to the smaller index."""
    n = len(weights)
    indices = np.full((n, k), -1, np.int32)
    values = np.zeros((n, k), np.float32)
    for row in range(n):
        order = np.lexsort((np.arange(weights.shape[1]), -weights[row]))[:k]
        order = order[weights[row, order] > 0]
        indices[row, : len(order)] = order
        values[row, : len(order)] = weights[row, order]
    return indices, values


def graph(X: Any, k: int, name: str = "jaccard") -> NDArray[np.float32]:
    """float32[n, n]: the OR-symmetrised graph, dense."""
    weights = similarities(X, X, name)
    np.fill_diagonal(weights, 0.0)
    indices, _ = top_k(weights, k)
    chosen = np.zeros(weights.shape, bool)
    rows, ranks = np.nonzero(indices >= 0)
    chosen[rows, indices[rows, ranks]] = True
    return np.where(chosen | chosen.T, weights, 0.0).astype(np.float32)
