"""`top_k_neighbours`: ranked lists of similar rows, for the KNN recommenders and for new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError
from leporid.graph.directed import directed_neighbours, usable_k
from leporid.graph.kernels.layout import NeighbourLists
from leporid.graph.matrix import members_of
from leporid.graph.similarity import Similarity
from leporid.progress import ProgressLike, make_progress
from leporid.threads import resolve_threads


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For each of n rows its k most similar rows, best first, ties by smaller index."""

    indices: NDArray[np.int32]
    """int32[n, k]; -1 where there are fewer than k with a positive similarity."""
    weights: NDArray[np.float32]
    """float32[n, k]; 0 where the index is -1."""
    n_fitted: int
    """Number of rows that were searched."""

    def csr(self) -> sparse.csr_array:
        """float32[n, n_fitted] with the weights, indices ascending within a row."""
        lengths = (self.indices >= 0).sum(axis=1)
        matrix = NeighbourLists(self.indices, self.weights, lengths).csr(self.n_fitted)
        matrix.sort_indices()
        return matrix


def top_k_neighbours(
    X: Any,
    k: int,
    *,
    against: Any | None = None,
    own: NDArray[Any] | None = None,
    similarity: str = "jaccard",
    shrink: float = 0.0,
    asymmetric_alpha: float = 0.5,
    tversky_alpha: float = 1.0,
    tversky_beta: float = 1.0,
    exclude_self: bool = True,
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
) -> Neighbours:
    """The exact k nearest rows of every row of X, among themselves or among other rows.

    Parameters
    ----------
    X : sparse matrix [n, m], 2-D array, or anything with `.csr()`; nonzero entries are members.
    k : neighbours of a row, clipped to the number of rows there are to choose from.
    against : matrix [f, m] of fitted rows to search instead of X itself (new rows of X have no
        self among them, so `exclude_self` then has no effect).
    own : int[n], with `against`: the fitted row that each row of X is itself (-1: none), which is
        no neighbour of it.
    similarity : "jaccard", "cosine", "asymmetric_cosine", "tversky" or "dice";
        `leporid.graph.similarity` has the formulas.
    shrink : added to the denominator.
    threads : None for all cores this process may use.
    progress : True for a bar, or an object of your own (`leporid.progress`).
    """
    measure = Similarity(similarity, shrink, asymmetric_alpha, tversky_alpha, tversky_beta)
    queries = members_of(X)
    fitted = queries if against is None else members_of(against, "against")
    if queries.n_columns != fitted.n_columns:
        raise GraphError(
            f"X has {queries.n_columns} columns and the fitted rows have {fitted.n_columns}: "
            "both must use the same columns"
        )
    if against is None:
        own = np.arange(fitted.n) if exclude_self else None
    elif own is not None:
        own = np.ascontiguousarray(own, dtype=np.int64)
    k = usable_k(k, fitted.n if own is None else fitted.n - 1)
    reporter = make_progress(progress)
    workers = resolve_threads(threads)
    lists = directed_neighbours(queries, fitted, k, measure, own, workers, reporter)
    _sort_by_weight(lists)
    if progress is True:
        reporter.close()
    return Neighbours(lists.rows, lists.weights, fitted.n)


def _sort_by_weight(lists: NeighbourLists, block: int = 4096) -> None:
    """Reorder each row in place, best first, and pad it.

    One 64-bit number an entry (weight above, complement of the index below) makes this one plain
    sort; it is ascending, so the complement is of the weight.
    """
    places = np.arange(lists.rows.shape[1])
    for first in range(0, len(lists.rows), block):
        rows, weights = lists.rows[first : first + block], lists.weights[first : first + block]
        keys = (~weights.view(np.uint32)).astype(np.uint64) << np.uint64(32)
        keys |= rows.view(np.uint32)
        keys[places >= lists.length[first : first + block, None]] = np.iinfo(np.uint64).max
        keys.sort(axis=1)
        rows[:] = (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)
        weights[:] = (~(keys >> np.uint64(32)).astype(np.uint32)).view(np.float32)
