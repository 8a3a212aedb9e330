"""Out-of-sample extension: new rows get vectors from their neighbours among the fitted rows.

With neighbour weights w and d_reg_new = (1 - alpha) sum(w) + alpha d_max,

    q_new = (1 / mu) * sum_j w_j q_j / sqrt(d_reg_new * d_reg_j),

which is row i of A q = mu q when w is row i of W. For the unnormalised Laplacian, row i of
(W - D_reg) q = mu q gives q_new = sum_j w_j q_j / (d_reg_new + mu).

A fit on landmarks extends to all rows but those. Rows with interactions are ordered by activity
(their number of items, ties in an order drawn from the seed) and cut into m strata of equal size,
give or take one; one row is drawn from each. So every row is equally likely and every level of
activity has its share. The choice does not depend on the order of the rows.

`TableExtension` does the same in a table of trained vectors: a weighted mean of the neighbours'
vectors, rescaled per column. Trained vectors have no eigenvalues; the scale is measured on fitted
rows, extended as if they were new.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.embeddings.laplacian import regularized_degrees
from leporid.errors import ConfigError
from leporid.graph import BinaryCSR, NearestRows, binary_csr
from leporid.progress import ProgressLike, make_progress

SMALLEST_EIGENVALUE = 1e-6
"""New rows are 0 in columns whose eigenvalue is nearer to zero."""
SAMPLE = 512
"""Fitted rows on which the scale of each column is measured."""
Landmarks = int | float | Literal["auto"] | None
"""How many rows to fit on: a number, a share in (0, 1), None for all, or by the number of rows."""

EXACT_UP_TO = 65_000
"""`auto` fits all rows up to here, at most four times the cost: benchmarks/records/scale.json."""
AUTO_LANDMARKS = 20_000
"""Landmarks beyond: those of that record."""

ENTRIES_AT_ONCE, ROWS_AT_ONCE = 1 << 20, 1 << 16
"""Size of a block of rows, which may lie in a file."""
FEWEST_NEIGHBOURS = 50
"""K among landmarks falls no lower than this (or the K asked for, if that is less)."""


def landmark_count(landmarks: Landmarks, n: int) -> int:
    """The number of landmarks among `n` rows: at least 2, at most `n`."""
    number = (
        isinstance(landmarks, int | np.integer)
        and landmarks is not True
        and landmarks >= 2
    )
    share = isinstance(landmarks, float | np.floating) and 0.0 < landmarks < 1.0
    if not (landmarks is None or landmarks == "auto" or number or share):
        raise ConfigError(
            f"landmarks must be a number of rows (at least 2), a share of them between 0 and 1, "
            f"None for all rows or 'auto', not {landmarks!r}"
        )
    if landmarks is None or (landmarks == "auto" and n <= EXACT_UP_TO):
        return n
    if landmarks == "auto":
        return AUTO_LANDMARKS
    count = round(landmarks * n) if isinstance(landmarks, float) else int(landmarks)
    return min(max(count, 2), n)


def landmark_neighbours(k: int, count: int, n: int) -> int:
    """K among `count` landmarks of `n` rows: K count / n, rounded up.

    That keeps the radius of a neighbourhood; a larger K joins rows the exact graph keeps apart.
    """
    return k if count >= n else min(k, max(-(-k * count // n), FEWEST_NEIGHBOURS))


def choose_landmarks(rows: BinaryCSR, count: int, seed: int) -> NDArray[np.int64]:
    """int64[m], ascending: a row from each of `count` strata, fewer if few have interactions."""
    some = np.flatnonzero(rows.degrees)
    count = min(count, len(some))
    order = some[np.lexsort((row_keys(rows, seed)[some], rows.degrees[some]))]
    edges = np.arange(count + 1, dtype=np.int64) * len(some) // max(count, 1)
    inside = np.random.default_rng(seed).random(count) * np.diff(edges)
    return np.sort(order[edges[:-1] + inside.astype(np.int64)]).astype(np.int64)


def row_keys(rows: BinaryCSR, seed: int) -> NDArray[np.uint64]:
    """uint64[n]: a hash of every set of columns: the sum of random numbers, modulo 2^64."""
    drawn = np.random.default_rng([seed, 1]).integers(
        0, 2**64, rows.n_columns, np.uint64
    )
    keys = np.empty(rows.n, np.uint64)
    for here in row_blocks(rows.indptr):
        indptr = rows.indptr[here[0] : here[-1] + 2]
        numbers = drawn[rows.columns[indptr[0] : indptr[-1]]]
        running = np.concatenate([[np.uint64(0)], np.cumsum(numbers, dtype=np.uint64)])
        keys[here] = np.diff(running[indptr - indptr[0]])
    return keys


def row_blocks(indptr: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows of at most `ENTRIES_AT_ONCE` entries together, or one row with more."""
    start, n = 0, len(indptr) - 1
    while start < n:
        full = (
            int(np.searchsorted(indptr, indptr[start] + ENTRIES_AT_ONCE, side="right"))
            - 1
        )
        stop = min(max(full, start + 1), start + ROWS_AT_ONCE, n)
        yield np.arange(start, stop)
        start = stop


@dataclass(frozen=True, eq=False)
class Extension:
    """The fitted vectors float32[n, d], eigenvalues and degrees, which embed new rows."""

    vectors: NDArray[np.float32]
    values: NDArray[np.float64]
    degrees: NDArray[np.float64]
    """float64[n]: d = W 1, unregularised."""
    alpha: float
    normalized: bool

    def embed(self, weights: sparse.csr_array) -> NDArray[np.float32]:
        """float32[m, d] from csr[m, n] weights to the fitted rows; no weights, zero vector."""
        weights = weights.astype(np.float64)
        return self.finish(
            weights @ self.table(), np.asarray(weights.sum(axis=1)).ravel()
        )

    def table(self) -> NDArray[np.float64]:
        """float64[n, d]: what a new row sums up, q_j / sqrt(d_reg_j) (q_j when unnormalised)."""
        if not self.normalized:
            return self.vectors.astype(np.float64)
        factor = np.zeros_like(self.degrees)
        regularized = regularized_degrees(self.degrees, self.alpha)
        np.divide(1.0, np.sqrt(regularized), out=factor, where=self.degrees > 0.0)
        return factor[:, None] * self.vectors

    def finish(
        self, sums: NDArray[Any], totals: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """float32[m, d] from sums over `table` (float[m, d]) and sums of weights (float64[m])."""
        maximum = self.degrees.max(initial=0.0)
        new = ((1.0 - self.alpha) * totals + self.alpha * maximum)[:, None]
        unit = np.sqrt(new) if self.normalized else max(maximum, 1e-300)
        denominator = unit * self.values if self.normalized else new + self.values
        large = np.abs(denominator) > SMALLEST_EIGENVALUE * unit
        out = np.zeros(sums.shape)
        np.divide(sums, denominator, out=out, where=large)
        return out.astype(np.float32)


def extend_rows(
    new: BinaryCSR,
    fitted: BinaryCSR,
    extension: Extension,
    k: int,
    thresholds: NDArray[np.float32],
    threads: int | None = None,
    progress: ProgressLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Vectors float32[m, d] and degrees float64[m] of new rows, in streamed blocks.

    A row with exactly the columns of a fitted one gets its vector. Sums run in float32.
    """
    vectors = np.empty((new.n, extension.vectors.shape[1]), np.float32)
    degrees, reporter = np.empty(new.n), make_progress(progress)
    nearest: NearestRows | None = None
    for here in row_blocks(new.indptr):
        rows = new.take(here)
        same = identical_rows(rows, fitted)
        vectors[here] = extension.vectors[np.maximum(same, 0)]
        degrees[here] = extension.degrees[np.maximum(same, 0)]
        fresh = np.flatnonzero(same < 0)
        if not len(fresh):
            continue
        if nearest is None:
            reporter.start("other rows", new.n)
            table = np.ascontiguousarray(extension.table(), dtype=np.float32)
            nearest = NearestRows(fitted, thresholds, threads)
        for part, sums, totals in nearest.sums(rows[fresh], table, k):
            at = here[fresh[part]]
            vectors[at], degrees[at] = extension.finish(sums, totals), totals
            reporter.advance(len(totals))
    return vectors, degrees


def identical_rows(new: sparse.csr_array, fitted: BinaryCSR) -> NDArray[np.int64]:
    """int64[m]: the first fitted row with the same columns (both sorted), or -1; -1 if empty."""
    same = np.full(new.shape[0], -1, np.int64)
    ours, theirs = row_keys(binary_csr(new), 0), row_keys(fitted, 0)
    keys, first = np.unique(theirs, return_index=True)
    at = np.searchsorted(keys, ours).clip(max=len(keys) - 1)
    other, sizes = first[at], np.diff(new.indptr)
    alike = (keys[at] == ours) & (sizes > 0) & (sizes == fitted.degrees[other])
    if (some := np.flatnonzero(alike)).size:
        left, right = new[some], fitted.take(other[some])
        differ = np.add.reduceat(left.indices != right.indices, left.indptr[:-1])
        same[some[differ == 0]] = other[some[differ == 0]]
    return same


class TableExtension:
    """Extends `table` float32[n, d] of rows `fitted`, csr[n, m], to new rows by k neighbours."""

    def __init__(
        self, fitted: sparse.csr_array, table: NDArray[np.float32], k: int
    ) -> None:
        self._table = np.ascontiguousarray(table, dtype=np.float32)
        self._average = self._table.mean(axis=0)
        sample = np.unique(np.linspace(0, len(table) - 1, SAMPLE).astype(np.int64))
        self._nearest, self._k = NearestRows(fitted), k
        # One more than k: a sampled row is its own nearest neighbour, and is left out.
        smooth = self._neighbour_mean(fitted[sample], k + 1, sample)
        own = self._table[sample]
        self._center, self._offset = smooth.mean(axis=0), own.mean(axis=0)
        spread = ((smooth - self._center) ** 2).sum(axis=0)
        shared = ((smooth - self._center) * (own - self._offset)).sum(axis=0)
        self._scale = np.divide(
            shared, spread, out=np.zeros_like(shared), where=spread > 0
        )

    def extend(self, new: sparse.csr_array) -> NDArray[np.float32]:
        """float32[len(new), d]; a row without neighbours gets the vector of the average row."""
        smooth = self._neighbour_mean(new, self._k)
        vectors = self._offset + self._scale * (smooth - self._center)
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def _neighbour_mean(
        self, rows: sparse.csr_array, k: int, own: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """float32[m, d]: the mean vector of each row's neighbours, weighted by similarity."""
        mean = np.tile(self._average, (rows.shape[0], 1))
        for part, sums, totals in self._nearest.sums(rows, self._table, k, own):
            some = totals > 0
            mean[part][some] = sums[some] / totals[some, None]
        return mean
