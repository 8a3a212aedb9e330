"""New rows without a refit: each is placed by its neighbours among the fitted rows.

With neighbour weights w and d_reg_new = (1 - alpha) sum(w) + alpha d_max,

    q_new = (1 / mu) * sum_j w_j q_j / sqrt(d_reg_new * d_reg_j),

which is row i of A q = mu q when w is row i of W, and shrinks rows with few or weak neighbours
towards zero. For the unnormalised Laplacian, row i of (W - D_reg) q = mu q gives
q_new = sum_j w_j q_j / (d_reg_new + mu).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph.kernels.simd import fetch_add
from leporid.graph.new_rows import fitted_columns, new_row_blocks
from leporid.graph.types import KnnGraph
from leporid.kernel import kernel
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.laplacian import regularized_degrees
from leporid.threads import on_each_thread, resolve_threads

__all__ = ["Extension", "choice_thresholds", "identical_rows", "neighbour_weights", "place_rows"]

SMALLEST_EIGENVALUE = 1e-6
"""Components whose eigenvalue is nearer to zero cannot be divided by; new rows get 0 there."""


@dataclass(frozen=True, eq=False)
class Extension:
    """What is needed to embed new rows: the fitted vectors and degrees."""

    vectors: NDArray[np.float32]
    """float32[n, d]."""
    values: NDArray[np.float64]
    """float64[d]."""
    degrees: NDArray[np.float64]
    """float64[n]: d = W 1, unregularised."""
    alpha: float
    normalized: bool

    def embed(self, weights: sparse.csr_array) -> NDArray[np.float32]:
        """float32[m, d] from csr[m, n] weights to the fitted rows; no weights, zero vector."""
        weights = weights.astype(np.float64)
        return self.finish(weights @ self.table(), np.asarray(weights.sum(axis=1)).ravel())

    def table(self) -> NDArray[np.float64]:
        """float64[n, d]: what a new row sums up, q_j / sqrt(d_reg_j) (q_j when unnormalised)."""
        if not self.normalized:
            return self.vectors.astype(np.float64)
        factor = np.zeros_like(self.degrees)
        regularized = regularized_degrees(self.degrees, self.alpha)
        np.divide(1.0, np.sqrt(regularized), out=factor, where=self.degrees > 0.0)
        return factor[:, None] * self.vectors

    def finish(
        self, sums: NDArray[np.floating[Any]], totals: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """float32[m, d] from sums over `table` (float[m, d]) and sums of weights (float64[m])."""
        maximum = self.degrees.max(initial=0.0)
        new = (1.0 - self.alpha) * totals + self.alpha * maximum
        if self.normalized:
            denominator = np.sqrt(new)[:, None] * self.values
            smallest = SMALLEST_EIGENVALUE * np.sqrt(new)[:, None]
        else:
            denominator = new[:, None] + self.values
            smallest = np.full((len(new), 1), SMALLEST_EIGENVALUE * max(maximum, 1e-300))
        out = np.zeros(sums.shape)
        np.divide(sums, denominator, out=out, where=np.abs(denominator) > smallest)
        return out.astype(np.float32)


def choice_thresholds(graph: KnnGraph) -> NDArray[np.float32]:
    """float32[n]: a new row must be more similar than this for row j to choose it.

    Row j of W holds its own top-K and, beyond it, rows that chose j; so its K-th largest weight
    is the K-th similarity of j, and 0 where j has fewer than K neighbours. A tie goes to the
    smaller index, hence never to the new row.
    """
    thresholds = np.zeros(graph.n, dtype=np.float32)
    for row in np.flatnonzero(np.diff(graph.indptr) >= graph.k):
        weights = graph.weights[graph.indptr[row] : graph.indptr[row + 1]]
        place = len(weights) - graph.k
        thresholds[row] = np.partition(weights, place)[place]
    return thresholds


def neighbour_weights(
    new: sparse.csr_array,
    fitted: sparse.csr_array,
    k: int,
    thresholds: NDArray[np.float32],
    threads: int | None = None,
) -> sparse.csr_array:
    """csr[m, n]: the rows of W that new rows would have, by the same OR rule.

    j is a neighbour of the new row when it is among the row's own top-K, or when the new row
    would be among the top-K of j.
    """
    columns = fitted_columns(fitted, thresholds)
    blocks = new_row_blocks(new, columns, k, resolve_threads(threads)) if new.shape[0] else ()
    parts = [block.csr() for block in blocks]
    if not parts:
        return sparse.csr_array((0, fitted.shape[0]), dtype=np.float32)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def place_rows(
    new: sparse.csr_array,
    fitted: sparse.csr_array,
    extension: Extension,
    k: int,
    thresholds: NDArray[np.float32],
    threads: int | None = None,
    progress: ProgressLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Vectors float32[m, d] and degrees float64[m] of new rows, in streamed blocks.

    `extension.embed(neighbour_weights(...))` without ever holding the weights of all new rows:
    memory is the result and one block, time is linear in m. Sums run in float32.
    """
    workers = resolve_threads(threads)
    table = np.ascontiguousarray(extension.table(), dtype=np.float32)
    vectors = np.empty((new.shape[0], table.shape[1]), np.float32)
    degrees = np.empty(new.shape[0])
    reporter = make_progress(progress)
    reporter.start("other rows", new.shape[0])
    if new.shape[0] == 0:
        return vectors, degrees
    columns = fitted_columns(fitted, thresholds)
    for block in new_row_blocks(new, columns, k, workers):
        rows = len(block.length)
        sums, totals = np.zeros((rows, table.shape[1]), np.float32), np.zeros(rows)
        turn = np.zeros(1, np.int64)

        def work(_: int, args: Any = (*block[1:], table, turn, sums, totals)) -> None:
            _sum_block(*args)

        on_each_thread(work, workers)
        part = slice(block.first, block.first + rows)
        vectors[part], degrees[part] = extension.finish(sums, totals), totals
        reporter.advance(rows)
    return vectors, degrees


@kernel
def _sum_block(
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    length: NDArray[np.int64],
    table: NDArray[np.float32],
    turn: NDArray[np.int64],
    sums: NDArray[np.float32],
    totals: NDArray[np.float64],
) -> None:
    """sums[i] = sum_j w_ij table[j] and totals[i] = sum_j w_ij; several threads share `turn`."""
    width: Any = uint64(table.shape[1])
    while True:
        row = fetch_add(turn, int64(1))
        if row >= len(length):
            break
        total = 0.0
        neighbours: Any = uint64(length[row])
        for position in range(neighbours):
            j = uint64(indices[row, position])
            weight = weights[row, position]
            total += weight
            for column in range(width):
                sums[row, column] += weight * table[j, column]
        totals[row] = total


def identical_rows(new: sparse.csr_array, fitted: sparse.csr_array) -> NDArray[np.int64]:
    """int64[m]: the first fitted row with exactly the same columns, or -1.

    Both have sorted indices. An empty row is identical to nothing.
    """
    first: dict[bytes, int] = {}
    starts = fitted.indptr
    columns = np.asarray(fitted.indices, dtype=np.int32)
    for row in range(fitted.shape[0] - 1, -1, -1):
        first[columns[starts[row] : starts[row + 1]].tobytes()] = row
    first.pop(b"", None)
    starts, columns = new.indptr, np.asarray(new.indices, dtype=np.int32)
    return np.fromiter(
        (
            first.get(columns[starts[row] : starts[row + 1]].tobytes(), -1)
            for row in range(new.shape[0])
        ),
        dtype=np.int64,
        count=new.shape[0],
    )
