"""`top_k_neighbours`: ranked lists of similar rows; `directed_neighbours`: the search itself."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError
from leporid.foundation import (
    ProgressLike,
    make_progress,
    on_each_thread,
    resolve_threads,
)
from leporid.graph.kernels import layout
from leporid.graph.kernels.layout import NeighbourLists
from leporid.graph.kernels.search import search_rows
from leporid.graph.types import BinaryCSR, Similarity, binary_csr

BATCHES = 40
"""Calls into the kernel; progress is shown, and an interrupt seen, between them."""
LEAST_BATCH = 1024
"""Rows in a call, at least."""
TURN = 32
"""Rows that a thread takes at a time."""
SAMPLE = 1024
"""Rows from which a first threshold is guessed, at least."""


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


def top_k_neighbours(  # noqa: PLR0913 (options are spelled out)
    X: object,
    k: int,
    *,
    against: object | None = None,
    own: NDArray[np.integer] | None = None,
    similarity: str = "jaccard",
    shrink: float = 0.0,
    asymmetric_alpha: float = 0.5,
    tversky_alpha: float = 1.0,
    tversky_beta: float = 1.0,
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
) -> Neighbours:
    """Find the exact k nearest rows of every row of X, among themselves or among other rows.

    Parameters
    ----------
    X : sparse matrix [n, m], 2-D array, or anything with `.csr()`; nonzero entries are members.
    k : neighbours of a row, clipped to the number of rows there are to choose from.
    against : matrix [f, m] of fitted rows to search instead of the other rows of X.
    own : int[n], with `against`: the fitted row that each row of X is itself (-1: none), which is
        no neighbour of it.
    similarity : "jaccard", "cosine", "asymmetric_cosine", "tversky" or "dice";
        `leporid.graph.types` has the formulas.
    shrink : added to the denominator.
    threads : None for all cores this process may use.
    progress : True for a bar, or an object of your own (`ProgressLike`).
    """
    measure = Similarity(
        similarity,
        shrink,
        asymmetric_alpha,
        tversky_alpha,
        tversky_beta,
    )
    queries = binary_csr(X)
    fitted = queries if against is None else binary_csr(against, "against")
    if queries.n_columns != fitted.n_columns:
        raise GraphError(
            f"X has {queries.n_columns} columns and the fitted rows have {fitted.n_columns}: "
            "both must use the same columns"
        )
    skipped = None if own is None else np.ascontiguousarray(own, dtype=np.int64)
    if against is None:
        skipped = np.arange(fitted.n, dtype=np.int64)
    k = usable_k(k, fitted.n if skipped is None else fitted.n - 1)
    reporter = make_progress(progress)
    lists = directed_neighbours(
        queries,
        fitted,
        k,
        measure,
        own=skipped,
        threads=resolve_threads(threads),
        progress=reporter,
    )
    _sort_by_weight(lists)
    if progress is True:
        reporter.close()
    return Neighbours(lists.rows, lists.weights, fitted.n)


def _sort_by_weight(lists: NeighbourLists, block: int = 4096) -> None:
    """Reorder each row in place, best first, and pad it.

    The key is one 64-bit number per entry: the complement of the weight, then the index.
    """
    columns = np.arange(lists.rows.shape[1])
    largest = np.iinfo(np.uint64).max
    for first in range(0, len(lists.rows), block):
        part = slice(first, first + block)
        rows = lists.rows[part]
        weights = lists.weights[part]
        keys = (~weights.view(np.uint32)).astype(np.uint64) << np.uint64(32)
        keys |= rows.view(np.uint32)
        keys[columns >= lists.length[part, None]] = largest
        keys.sort(axis=1)
        rows[:] = (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)
        weights[:] = (~(keys >> np.uint64(32)).astype(np.uint32)).view(np.float32)


def usable_k(k: object, others: int) -> int:
    """Return `k` as an integer of at least 1, and at most the number of other rows."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise GraphError(f"k must be an integer of at least 1, not {k!r}")
    return min(int(k), others)


def directed_neighbours(
    queries: BinaryCSR,
    fitted: BinaryCSR,
    k: int,
    similarity: Similarity,
    own: NDArray[np.int64] | None,
    threads: int,
    progress: ProgressLike,
    out: NeighbourLists | None = None,
) -> NeighbourLists:
    """Find the k most similar fitted rows of every query row, by ascending index.

    `own` int64[queries]: the fitted row that each query is itself (-1: none), which is no neighbour
    of it; None leaves nothing out. The k best are chosen by similarity as a float32 number, then
    by smaller index; a similarity of zero is no neighbour. The lists are written to `out` if given.
    """
    lists = NeighbourLists.empty(queries.n, k) if out is None else out
    if k == 0:
        return lists
    columns = layout.rank_columns(fitted)
    terms = similarity.terms(queries.degrees, fitted.degrees)
    targets = layout.query_rows(queries, columns, terms, own)
    base = layout.fitted_rows(
        fitted,
        columns,
        terms,
        rows=targets if queries is fitted else None,
    )
    sample, rank = _sample(fitted, columns, similarity, k)
    longest = queries.degrees.max(initial=256)
    scratch = [layout.scratch_space(k, longest) for _ in range(threads)]

    def search(rows: NDArray[np.int64], rank: int) -> None:
        turns = iter(range(0, len(rows), TURN))

        def work(thread: int) -> None:
            space = scratch[thread]
            for first in turns:
                part = rows[first : first + TURN]
                search_rows(part, base, sample, rank, targets, space, k, lists)

        on_each_thread(work, threads)

    batch = max(-(-queries.n // BATCHES), 4 * TURN * threads, LEAST_BATCH)
    progress.start("neighbours", queries.n)
    for first in range(0, queries.n, batch):
        stop = min(first + batch, queries.n)
        part = np.arange(first, stop, dtype=np.int64)
        search(part, rank)
        failed = part[lists.length[part] < 0]
        if len(failed):
            search(failed, 0)
        progress.advance(len(part))
    return lists


def _sample(
    members: BinaryCSR,
    columns: layout.Columns,
    similarity: Similarity,
    k: int,
) -> tuple[layout.Fitted, int]:
    """Return evenly spaced rows, and which rank among them is the first threshold.

    The rank is four standard deviations beyond the expected one: a guess that is too high costs a
    second search. Few rows are searched without a guess.
    """
    count = min(max(SAMPLE, members.n // 16), layout.TILE)
    expected = k * count / members.n
    rank = int(expected + 4 * expected**0.5 + 4)
    if members.n < 2 * count:
        count = 1
        rank = 0
    chosen = np.linspace(0, members.n - 1, count).astype(np.int64)
    rows = binary_csr(members.take(chosen))
    terms = similarity.terms(rows.degrees, rows.degrees)
    return layout.fitted_rows(rows, columns, terms), rank
