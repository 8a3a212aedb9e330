"""Approximate neighbours: look only where neighbours are likely, and say how many were found.

1. A sketch of each row: the first singular vectors of D^-1/2 X, one unit vector a row.
2. faiss groups the sketches into cells (spherical k-means).
3. The rows of a cell are compared, by the exact kernel, with the rows of the cells nearest to it,
   a fixed share of all rows.
4. Whoever chose a row is offered to it in return (`offer_in_return`).

Every similarity is exact; what may be missing is a neighbour in a cell that was not searched.
How many are is measured: `measured_recall` searches a sample of rows exactly.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import MissingExtraError
from leporid.graph.directed import directed_neighbours
from leporid.graph.layout import Found
from leporid.graph.matrix import Members, take_rows
from leporid.graph.offer import offer_in_return
from leporid.graph.similarity import Similarity
from leporid.kernel import kernel
from leporid.progress import NullProgress, ProgressLike
from leporid.threads import on_each_thread

__all__ = ["approximate_neighbours", "have_faiss", "measured_recall"]

SHARE = 0.1
"""Of all rows, searched for each row."""
AT_LEAST = 4
"""Rows searched are at least this many times K."""
SKETCH = 64
"""Columns of a sketch."""
SAMPLE = 400
"""Rows searched exactly to measure the recall."""
_FEW_FOR_KMEANS = 64
"""Rows of a cell that k-means looks at."""


def have_faiss() -> bool:
    """Whether the library that makes the cells is installed."""
    import importlib.util

    return importlib.util.find_spec("faiss") is not None


def approximate_neighbours(
    members: Members,
    k: int,
    similarity: Similarity,
    seed: int,
    threads: int,
    progress: ProgressLike,
    share: float = SHARE,
) -> Found:
    """Up to k similar rows of every row, searched for in `share` of the rows.

    The same seed gives the same rows. Memory: n x k results twice, and a sketch of n x 72 floats.
    """
    found = Found(
        np.empty((members.n, k), np.int32),
        np.empty((members.n, k), np.float32),
        np.zeros(members.n, np.int32),
    )
    active = np.flatnonzero(members.degrees)
    if len(active) == 0:
        return found
    wanted = min(max(int(share * len(active)), AT_LEAST * k), len(active))
    progress.start("sketch", None)
    cells, nearest = _cells(sketch_rows(members, SKETCH, seed)[active], seed)
    order = active[np.argsort(cells, kind="stable")]
    ends = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=len(nearest)))])
    progress.start("neighbours", len(active))
    turns = itertools.count()

    def work(_: int) -> None:
        for cell in iter(lambda: next(turns), None):
            if cell >= len(nearest):
                return
            own = np.sort(order[ends[cell] : ends[cell + 1]])
            if len(own):
                others = _searched(nearest[cell], order, ends, wanted)
                _search_cell(members, own, others, k, similarity, found)
                progress.advance(len(own))

    on_each_thread(work, threads)
    offer_in_return(found, k, threads)
    return found


def measured_recall(
    members: Members,
    found: Found,
    k: int,
    similarity: Similarity,
    seed: int,
    threads: int,
    sample: int = SAMPLE,
) -> float:
    """Recall@K on `sample` rows (all, where there are fewer): found among the exact neighbours.

    A neighbour as similar as the K-th exact one counts as found: ties are equally right. A row
    without neighbours has none to miss.
    """
    rows = np.arange(members.n)
    if sample < members.n:
        rows = np.sort(np.random.default_rng([seed, 2]).choice(members.n, sample, replace=False))
    exact = directed_neighbours(
        take_rows(members, rows), members, k, similarity, rows, threads, NullProgress()
    )
    right = total = 0
    for place, row in enumerate(rows):
        best = exact.weights[place, : exact.length[place]]
        if len(best):
            weights = found.weights[row, : found.length[row]]
            right += min(int((weights >= best.min()).sum()), len(best))
            total += len(best)
    return right / total if total else 1.0


def sketch_rows(members: Members, columns: int, seed: int) -> NDArray[np.float32]:
    """float32[n, <= columns]: unit rows whose products are nearly cosines of the rows' sets.

    A randomised singular value decomposition of D^-1/2 X with one power iteration.
    """
    scale = 1.0 / np.sqrt(np.maximum(members.degrees, 1))
    data = np.repeat(scale.astype(np.float32), members.degrees)
    shape = (members.n, members.n_columns)
    X = sparse.csr_array((data, members.columns, members.indptr), shape=shape)
    width = min(columns + 8, *shape)
    start = np.random.default_rng(seed).standard_normal((shape[1], width), dtype=np.float32)
    basis, _ = np.linalg.qr(X.T @ (X @ start))
    product = X @ np.ascontiguousarray(basis)
    _, turn = np.linalg.eigh((product.T @ product).astype(np.float64))
    sketch = product @ turn[:, ::-1][:, :columns].astype(np.float32)
    sketch /= np.maximum(np.linalg.norm(sketch, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(sketch, dtype=np.float32)


def _cells(sketch: NDArray[np.float32], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cell of each row, int64[n], and for each cell all cells from near to far."""
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("method='approximate'", "approximate") from None
    number = max(1, round(len(sketch) ** 0.5))
    means = faiss.Kmeans(
        sketch.shape[1],
        number,
        niter=10,
        seed=seed + 1,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=_FEW_FOR_KMEANS,
    )
    means.train(sketch)
    _, cells = means.index.search(sketch, 1)
    centroids: NDArray[np.float32] = np.asarray(means.centroids)
    nearest = np.argsort(-(centroids @ centroids.T), axis=1, kind="stable")
    return cells.ravel(), nearest


def _searched(
    nearest: NDArray[np.int64], order: NDArray[np.int64], ends: NDArray[np.int64], wanted: int
) -> NDArray[np.int64]:
    """The rows of the nearest cells, ascending: as many cells as give `wanted` rows."""
    sizes = np.diff(ends)[nearest]
    enough = int(np.searchsorted(np.cumsum(sizes), wanted)) + 1
    parts = [order[ends[cell] : ends[cell + 1]] for cell in nearest[:enough]]
    return np.sort(np.concatenate(parts))


def _search_cell(
    members: Members,
    own: NDArray[np.int64],
    others: NDArray[np.int64],
    k: int,
    similarity: Similarity,
    found: Found,
) -> None:
    """Exact neighbours of the rows `own` among the rows `others`, without themselves."""
    # Of cells with the same centre, one may be searched and the other, whose rows these are, not.
    place = np.searchsorted(others, own)
    place[others[np.minimum(place, len(others) - 1)] != own] = -1
    part = directed_neighbours(
        take_rows(members, own),
        take_rows(members, others),
        min(k, len(others)),
        similarity,
        place,
        1,
        NullProgress(),
    )
    _write_back(own, others, part, found)


@kernel
def _write_back(
    own: NDArray[np.int64], others: NDArray[np.int64], part: Found, found: Found
) -> None:
    """Back to the numbers of all rows."""
    for place in range(len(own)):
        row = own[place]
        length = part.length[place]
        for position in range(length):
            found.rows[row, position] = others[part.rows[place, position]]
            found.weights[row, position] = part.weights[place, position]
        found.length[row] = length
