"""Out-of-sample extension: new rows get vectors from their neighbours among the fitted rows.

With neighbour weights w and d_reg_new = (1 - alpha) sum(w) + alpha d_max,

    q_new = (1 / mu) * sum_j w_j q_j / sqrt(d_reg_new * d_reg_j),

which is row i of A q = mu q when w is row i of W. For the unnormalised Laplacian, row i of
(W - D_reg) q = mu q gives q_new = sum_j w_j q_j / (d_reg_new + mu).

A fit on landmarks extends to all rows but those.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from leporid.embeddings.arrays import Float32Array, Float64Array, FloatArray, Int64Array
from leporid.embeddings.landmarks import row_blocks, row_keys
from leporid.embeddings.laplacian import regularized_degrees
from leporid.foundation import ProgressLike, make_progress
from leporid.graph import BinaryCSR, NearestRows, binary_csr

SMALLEST_EIGENVALUE = 1e-6
"""New rows are 0 in columns whose eigenvalue is nearer to zero."""


@dataclass(frozen=True, eq=False)
class RowExtension:
    """The fitted vectors float32[n, d], eigenvalues and degrees, which embed new rows."""

    vectors: Float32Array
    values: Float64Array
    degrees: Float64Array
    """float64[n]: d = W 1, unregularised."""
    alpha: float
    normalized: bool

    def embed(self, weights: sparse.csr_array) -> Float32Array:
        """float32[m, d] from csr[m, n] weights to the fitted rows; no weights, zero vector."""
        weights = weights.astype(np.float64)
        totals = np.asarray(weights.sum(axis=1)).ravel()
        return self.finish(weights @ self.table(), totals)

    def table(self) -> Float64Array:
        """float64[n, d]: what a new row sums up, q_j / sqrt(d_reg_j) (q_j when unnormalised)."""
        if not self.normalized:
            return self.vectors.astype(np.float64)
        factor = np.zeros_like(self.degrees)
        regularized = regularized_degrees(self.degrees, self.alpha)
        np.divide(
            1.0,
            np.sqrt(regularized),
            out=factor,
            where=self.degrees > 0.0,
        )
        return factor[:, None] * self.vectors

    def finish(
        self,
        sums: FloatArray,
        totals: Float64Array,
    ) -> Float32Array:
        """float32[m, d] from sums over `table` (float[m, d]) and sums of weights (float64[m])."""
        maximum = self.degrees.max(initial=0.0)
        regularized = ((1.0 - self.alpha) * totals + self.alpha * maximum)[:, None]
        if self.normalized:
            unit = np.sqrt(regularized)
            denominator = unit * self.values
        else:
            unit = max(maximum, 1e-300)
            denominator = regularized + self.values
        large = np.abs(denominator) > SMALLEST_EIGENVALUE * unit
        vectors = np.zeros(sums.shape)
        np.divide(sums, denominator, out=vectors, where=large)
        return vectors.astype(np.float32)


def extend_rows(
    new: BinaryCSR,
    fitted: BinaryCSR,
    extension: RowExtension,
    k: int,
    thresholds: Float32Array,
    threads: int | None = None,
    progress: ProgressLike | None = None,
) -> tuple[Float32Array, Float64Array]:
    """Vectors float32[m, d] and degrees float64[m] of new rows, in streamed blocks.

    A row with exactly the columns of a fitted one gets its vector. Sums run in float32.
    """
    vectors = np.empty((new.n, extension.vectors.shape[1]), np.float32)
    degrees = np.empty(new.n)
    reporter = make_progress(progress)
    nearest: NearestRows | None = None
    for block in row_blocks(new.indptr):
        rows = new.take(block)
        same = identical_rows(rows, fitted)
        vectors[block] = extension.vectors[np.maximum(same, 0)]
        degrees[block] = extension.degrees[np.maximum(same, 0)]
        others = np.flatnonzero(same < 0)
        if not len(others):
            continue
        if nearest is None:
            reporter.start("other rows", new.n)
            table = np.ascontiguousarray(extension.table(), dtype=np.float32)
            nearest = NearestRows(fitted, thresholds, threads)
        for part, sums, totals in nearest.sums(rows[others], table, k):
            at = block[others[part]]
            vectors[at] = extension.finish(sums, totals)
            degrees[at] = totals
            reporter.advance(len(totals))
    return vectors, degrees


def identical_rows(new: sparse.csr_array, fitted: BinaryCSR) -> Int64Array:
    """int64[m]: the first fitted row with the same columns (both sorted), or -1; -1 if empty."""
    same = np.full(new.shape[0], -1, np.int64)
    new_keys = row_keys(binary_csr(new), 0)
    fitted_keys, first = np.unique(row_keys(fitted, 0), return_index=True)
    at = np.searchsorted(fitted_keys, new_keys).clip(max=len(fitted_keys) - 1)
    candidate = first[at]
    sizes = np.diff(new.indptr)
    same_size = (sizes > 0) & (sizes == fitted.degrees[candidate])
    alike = np.flatnonzero((fitted_keys[at] == new_keys) & same_size)
    if alike.size:
        left = new[alike]
        right = fitted.take(candidate[alike])
        differ = np.add.reduceat(left.indices != right.indices, left.indptr[:-1])
        equal = alike[differ == 0]
        same[equal] = candidate[equal]
    return same
