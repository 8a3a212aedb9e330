"""The bipartite user-item graph: its rows, and second-order random walks on it (node2vec).

From `current`, having come from `previous`, a walk goes to a neighbour x with probability
proportional to 1/p if x is `previous`, 1 if x is a neighbour of `previous`, and 1/q otherwise.
Rejection sampling: a uniform neighbour is accepted with its weight over the largest weight, so
nothing is stored per edge.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.kernel import kernel
from leporid.random_stream import below, next_state, stream, to_bits, uniform


def bipartite_adjacency(matrix: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """indptr int64[n + 1] and indices int32: users 0..m-1, then items; neighbours ascending."""
    transposed = matrix.T.tocsr()
    transposed.sort_indices()
    ends = matrix.nnz + transposed.indptr[1:].astype(np.int64)
    indptr = np.concatenate([matrix.indptr.astype(np.int64), ends])
    indices = np.concatenate([matrix.indices + matrix.shape[0], transposed.indices])
    return indptr, indices.astype(np.int32)


@kernel
def in_row(indptr: Any, indices: Any, row: Any, value: Any) -> bool:
    """Whether `value` is among the ascending indices of a row; by bisection."""
    low, high = indptr[row], indptr[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < indptr[row + 1] and indices[low] == value)


@kernel
def biased_step(
    indptr: Any, indices: Any, previous: Any, current: Any, p: Any, q: Any, state: Any
) -> Any:
    """The next node and the new state of the random stream; `current` has neighbours."""
    start = indptr[current]
    degree = indptr[current + 1] - start
    back, out = 1.0 / p, 1.0 / q
    smallest, largest = min(back, 1.0, out), max(back, 1.0, out)
    while True:
        state = next_state(state)
        candidate = indices[start + below(to_bits(state), degree)]
        if smallest == largest:
            return candidate, state
        state = next_state(state)
        height = uniform(to_bits(state)) * largest
        if height < smallest:
            return candidate, state
        if candidate == previous:
            weight = back
        elif in_row(indptr, indices, previous, candidate):
            weight = 1.0
        else:
            weight = out
        if height < weight:
            return candidate, state


@kernel
def walk_into(
    walk: Any, indptr: Any, indices: Any, start: Any, p: Any, q: Any, seed: Any, name: Any
) -> None:
    """Fill int32[length] `walk` from `start`; (seed, name) names its random stream."""
    state = next_state(stream(seed, name, np.uint64(1)))
    walk[0] = start
    degree = indptr[start + 1] - indptr[start]
    if len(walk) > 1:
        walk[1] = indices[indptr[start] + below(to_bits(state), degree)]
    for step in range(2, len(walk)):
        following, state = biased_step(indptr, indices, walk[step - 2], walk[step - 1], p, q, state)
        walk[step] = following


@kernel(parallel=True)
def count_visits(
    indptr: Any, indices: Any, starts: Any, length: Any, p: Any, q: Any, seed: Any, lanes: Any
) -> Any:
    """int64[n]: how often each node occurs in all walks (walk w begins at starts[w])."""
    visits = np.zeros((lanes, len(indptr) - 1), np.int64)
    for lane in numba.prange(lanes):
        walk = np.empty(length, np.int32)
        for w in range(lane, len(starts), lanes):
            walk_into(walk, indptr, indices, starts[w], p, q, seed, np.uint64(w))
            for node in walk:
                visits[lane, node] += 1
    return visits.sum(axis=0)
