"""`refresh`: the embedding of a log that has grown, from the embedding it had.

Three things are re-used: neighbour lists that cannot have changed (`graph.refresh`), the old
vectors as a start of the eigensolver, and their coordinates, so that what was trained on the old
vectors can go on with the new ones.

Eigenvectors are unique up to their sign, and repeated ones up to a rotation among themselves; both
are chosen to agree with the old vectors, which leaves every residual as it is. Eigenvectors with
*close* values also turn into each other when the data grows. No choice of signs can undo that, and
a rotation would make them eigenvectors no more, so it is kept apart: `rotation` brings the whole
new embedding as near to the old one as a rotation can (orthogonal Procrustes).
"""

from __future__ import annotations

import abc
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError, DataError
from leporid.graph.types import Graph
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.extension import Extension
from leporid.spectral.inputs import interaction_rows
from leporid.spectral.saved import SavedEstimator

__all__ = ["RefreshReport", "RefreshedEstimator", "align_columns", "procrustes", "repeated_values"]


class RefreshReport(NamedTuple):
    """What a refresh had to do."""

    rows: int
    """Rows there are now."""
    new: int
    """Rows that were not there before."""
    changed: int
    """Rows with other items than before, the new ones included."""
    searched: int
    """Rows whose neighbours were searched for among all rows; other lists were merged."""
    products: int
    """Products of the eigensolver, started from the old vectors."""


def repeated_values(values: NDArray[np.float64], tol: float) -> list[slice]:
    """Runs of eigenvalues (descending) that lie within `tol`, as slices; most hold one."""
    runs, first = [], 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[first] - values[place] > tol:
            runs.append(slice(first, place))
            first = place
    return runs


def procrustes(
    new: NDArray[np.floating[Any]], old: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """float64[d, d]: the orthogonal R with the smallest ||new R - old|| (both float[n, d])."""
    left, _, right = np.linalg.svd(new.T.astype(np.float64) @ old.astype(np.float64))
    return np.asarray(left @ right)


def align_columns(
    new: NDArray[np.float32],
    values: NDArray[np.float64],
    old: NDArray[np.floating[Any]],
    tol: float,
) -> NDArray[np.float32]:
    """Eigenvectors float32[n, d] with the signs of `old`, float[m, d] with m <= n.

    Vectors whose values lie within `tol` are rotated among themselves, which changes a residual by
    no more than that; a single one is at most flipped.
    """
    aligned = new.copy()
    for run in repeated_values(values, tol):
        turn = procrustes(new[: len(old), run], old[:, run])
        aligned[:, run] = new[:, run] @ turn.astype(np.float32)
    return aligned


class RefreshedEstimator(SavedEstimator, abc.ABC):
    """`refresh` and `partial_fit`: a fit that starts from the last one."""

    k: int
    dim: int
    tol: float
    normalized: bool
    device: Literal["auto", "cpu", "cuda"]
    threads: int | None
    report_: RefreshReport
    """What the last `refresh` had to do."""

    def refresh(
        self, X: Any, *, added: bool = False, progress: bool | ProgressLike | None = None
    ) -> Self:
        """Embed the rows of a log that has grown since the last fit, with less work than `fit`.

        X is the whole new matrix: its first n rows are the fitted ones, perhaps with more
        interactions, and it may have more rows and more columns after those there were. With
        `added=True`, X holds only the interactions to add, in the same rows and columns; it may
        end before the last fitted row.

        The graph is exactly that of `fit`, and the eigenvectors hold to the same `tol`; signs are
        those of the old vectors. `embedding_ @ rotation_` are the new vectors in the coordinates
        of the first fit, for a model that was trained there.
        """
        self._check_fitted()
        name = type(self).__name__
        given = interaction_rows(X, name)
        before = self._rows
        if before is None:
            raise DataError("refresh needs interactions: a fit on a graph has none to compare with")
        if given.shape[1] < self.n_features_in_:
            raise DataError(
                f"X has {given.shape[1]} features, but {name} is expecting "
                f"{self.n_features_in_} features as input, or more"
            )
        rows = _union(before, given) if added else given
        self._refuse(rows, before)
        self._refresh(rows, before, make_progress(progress))
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, progress: bool | ProgressLike | None = None
    ) -> Self:
        """`refresh` with the interactions to add; the first call fits. `y` is ignored.

        Row i of X belongs to fitted row i: rows are users (or items), not further samples.
        """
        if not hasattr(self, "embedding_"):
            return self.fit(X, progress=progress)
        return self.refresh(X, added=True, progress=progress)

    def fit_from(
        self,
        X: Any,
        start: NDArray[np.floating[Any]],
        *,
        progress: bool | ProgressLike | None = None,
    ) -> Self:
        """`fit` from vectors of an earlier fit, where only they were kept.

        `start` float[n, dim] holds the old vector of every row of X, zeros for a row that is new.
        The solver starts from them, and signs and `rotation_` agree with them.
        """
        rows = interaction_rows(X, type(self).__name__)
        old = np.asarray(start, dtype=np.float32)
        if old.shape != (rows.shape[0], self.dim):
            raise DataError(
                f"the old vectors are {old.shape[0]} x {old.shape[1]}, but {rows.shape[0]} rows "
                f"and dim={self.dim} were asked for"
            )
        if getattr(self, "landmarks", None) is not None:
            raise ConfigError("old vectors start a fit on all rows: leave out landmarks=")
        from leporid.graph.knn import knn_graph

        reporter = make_progress(progress)
        graph = knn_graph(
            rows, k=self.k, device=self.device, threads=self.threads, progress=reporter
        )
        self._fit_graph(graph, reporter, old)
        self.embedding_ = align_columns(self.embedding_, self.eigenvalues_, old, self.tol)
        self.rotation_ = procrustes(self.embedding_[old.any(axis=1)], old[old.any(axis=1)])
        self.n_features_in_, self._rows = rows.shape[1], rows
        return self

    def _refuse(self, rows: sparse.csr_array, before: sparse.csr_array) -> None:
        """Errors for what cannot be refreshed."""
        if self.landmarks_ is not None:
            raise ConfigError("refresh needs a fit on all rows: with landmarks=, call fit again")
        if self.embedding_.shape[1] != self.dim:
            raise ConfigError(
                f"dim was {self.embedding_.shape[1]} and is {self.dim} now: call fit for other "
                f"dimensions"
            )
        if rows.shape[0] < before.shape[0]:
            raise DataError(
                f"X has {rows.shape[0]} rows, but {before.shape[0]} were fitted: they keep their "
                f"places, and a row without interactions stays as an empty one"
            )

    def _refresh(
        self, rows: sparse.csr_array, before: sparse.csr_array, progress: ProgressLike
    ) -> None:
        """Fit to `rows`, whose first rows are those of `before`."""
        old, n = self.embedding_, before.shape[0]
        reference = old.astype(np.float64) @ self.rotation_
        from leporid.graph.knn import knn_graph

        graph = knn_graph(
            rows, k=self.k, device=self.device, threads=self.threads, progress=progress
        )
        start = np.zeros((rows.shape[0], old.shape[1]), np.float32)
        start[:n] = old
        if rows.shape[0] > n:
            start[n:] = self._extension().embed(graph.csr()[n:, :n])
        self._fit_graph(graph, progress, start)
        self.embedding_ = align_columns(self.embedding_, self.eigenvalues_, old, self.tol)
        self.rotation_ = procrustes(self.embedding_[:n], reference)
        self.n_features_in_, self._rows = rows.shape[1], rows
        self.report_ = RefreshReport(
            rows.shape[0], rows.shape[0] - n, rows.shape[0], rows.shape[0], self.n_iter_
        )

    @abc.abstractmethod
    def fit(self, X: Any, y: Any = None, *, progress: bool | ProgressLike | None = None) -> Self:
        """Embed the rows of X."""

    @abc.abstractmethod
    def _fit_graph(
        self, graph: Graph, progress: ProgressLike, v0: NDArray[np.float32] | None = None
    ) -> None:
        """Store the eigenvectors of the graph, found from the start `v0`."""

    @abc.abstractmethod
    def _extension(self) -> Extension:
        """The formula for new rows."""


def _union(before: sparse.csr_array, added: sparse.csr_array) -> sparse.csr_array:
    """The interactions of either, in the smallest matrix that holds both."""
    shape = tuple(max(sizes) for sizes in zip(before.shape, added.shape, strict=True))
    parts = []
    for matrix in (before, added):
        indptr = np.full(shape[0] + 1, matrix.nnz, matrix.indptr.dtype)
        indptr[: len(matrix.indptr)] = matrix.indptr
        parts.append(sparse.csr_array((matrix.data, matrix.indices, indptr), shape=shape))
    return interaction_rows(parts[0] + parts[1], "refresh")
