"""`Leporid` and `LaplacianEigenmaps`: estimators in the manner of scikit-learn.

The functions compute, the classes remember: `fit` stores what `knn_graph` and
`laplacian_eigenpairs` return. scikit-learn itself is not needed.
"""

from __future__ import annotations

import abc
import hashlib
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError, DataError
from leporid.graph.types import KnnGraph
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.eigenpairs import Device, Solver, laplacian_eigenpairs
from leporid.spectral.embedding import Embedding
from leporid.spectral.extension import (
    Extension,
    identical_rows,
    neighbour_weights,
)
from leporid.spectral.inputs import interaction_rows
from leporid.spectral.laplacian import as_graph
from leporid.spectral.saved import SavedEstimator

__all__ = ["LaplacianEigenmaps", "Leporid"]

Metric = Literal["jaccard", "precomputed"]


class SpectralEstimator(SavedEstimator, abc.ABC):
    """What both estimators share. Parameters are the arguments of `__init__`, as they were."""

    method: ClassVar[str]
    dim: int
    k: int
    normalized: bool
    metric: Metric
    solver: Solver
    tol: float
    dtype: Literal["float32", "float64"]
    seed: int
    device: Device
    threads: int | None

    embedding_: NDArray[np.float32]
    """float32[n, dim]: one vector a fitted row."""
    eigenvalues_: NDArray[np.float64]
    """float64[dim], descending: of A; of -L_reg when `normalized=False`."""
    residuals_: NDArray[np.float64]
    """float64[dim]: ||A q - mu q||, computed in float64."""
    degrees_: NDArray[np.float64]
    """float64[n]: d = W 1."""
    graph_: KnnGraph
    """The graph; not there after `load` unless it was saved too."""
    n_iter_: int
    n_features_in_: int

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, progress: bool | ProgressLike | None = None) -> Self:
        """Embed the rows of X.

        X is the interaction matrix (scipy sparse or an array; every non-zero entry is an
        interaction), or a `KnnGraph`. A square matrix counts as interactions too, unless
        `metric="precomputed"` says that it is a graph. `y` is ignored.
        """
        if isinstance(X, KnnGraph):
            return self.fit_graph(X, progress=progress)
        if self.metric == "precomputed":
            interaction_rows(X, type(self).__name__)
            return self.fit_graph(as_graph(X), progress=progress)
        if self.metric != "jaccard":
            raise ConfigError(f"metric must be 'jaccard' or 'precomputed', not {self.metric!r}")
        from leporid.graph.knn import knn_graph

        rows = interaction_rows(X, type(self).__name__)
        if rows.shape[0] < 2:
            raise DataError(f"{rows.shape[0]} sample is too few: a graph needs at least 2 rows")
        reporter = make_progress(progress)
        graph = knn_graph(
            rows, k=self.k, device=self.device, threads=self.threads, progress=reporter
        )
        self._fit_graph(graph, reporter)
        self.n_features_in_ = rows.shape[1]
        self._rows = rows
        return self

    def fit_graph(self, graph: Any, *, progress: bool | ProgressLike | None = None) -> Self:
        """Embed the nodes of a `KnnGraph` or of a symmetric scipy matrix of weights.

        `transform` then takes weights to the n fitted nodes, csr[m, n].
        """
        self._fit_graph(as_graph(graph), make_progress(progress))
        self.n_features_in_ = self.graph_.n
        self._rows = None
        return self

    def _fit_graph(self, graph: KnnGraph, progress: ProgressLike) -> None:
        pairs = laplacian_eigenpairs(
            graph,
            self.dim,
            alpha=self._alpha,
            normalized=self.normalized,
            solver=self.solver,
            tol=self.tol,
            dtype=self.dtype,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            progress=progress,
        )
        self.graph_ = graph
        self.degrees_ = graph.degrees()
        self.embedding_ = pairs.vectors
        self.eigenvalues_ = pairs.values
        self.residuals_ = pairs.residuals
        self.n_iter_ = pairs.iterations
        self._thresholds: NDArray[np.float32] | None = None

    def fit_transform(
        self, X: Any, y: Any = None, *, progress: bool | ProgressLike | None = None
    ) -> NDArray[np.float32]:
        """`fit`, then the embedding of the fitted rows."""
        return self.fit(X, y, progress=progress).embedding_

    # -- after the fit ------------------------------------------------------------------------

    def transform(self, X: Any) -> NDArray[np.float32]:
        """float32[m, dim]: where new rows lie among the fitted ones, without a refit.

        X has the columns of the fitted matrix; after a fit on a graph, it holds the weights to
        the n fitted nodes. A row with the same items as a fitted row gets that row's vector
        (the first such row, unless X is the fitted matrix itself); a row without neighbours
        gets zeros.
        """
        self._check_fitted()
        rows = interaction_rows(X, type(self).__name__, self.n_features_in_, binary=False)
        extension = Extension(
            self.embedding_, self.eigenvalues_, self.degrees_, self._alpha, self.normalized
        )
        if self._rows is None:
            if (rows.data < 0.0).any():
                raise DataError("weights to the fitted nodes must not be negative")
            return extension.embed(rows)
        rows.data[:] = 1.0
        if _same_pattern(rows, self._rows):
            return self.embedding_.copy()
        same = identical_rows(rows, self._rows)
        out = self.embedding_[np.maximum(same, 0)]
        fresh = np.flatnonzero(same < 0)
        if len(fresh):
            out[fresh] = extension.embed(
                neighbour_weights(
                    rows[fresh], self._rows, self._k_used, self._choices(), self.threads
                )
            )
        return out

    def to_embedding(self) -> Embedding:
        """The fitted vectors with their eigenvalues and where they came from."""
        self._check_fitted()
        provenance: dict[str, Any] = {"method": self.method, "parameters": self.get_params()}
        if self._rows is not None:
            hasher = hashlib.sha256(np.asarray(self._rows.indptr, dtype=np.int64).tobytes())
            hasher.update(np.asarray(self._rows.indices, dtype=np.int32).tobytes())
            provenance["data"] = hasher.hexdigest()[:16]
        return Embedding(self.embedding_, self.eigenvalues_, provenance)

    @property
    @abc.abstractmethod
    def _alpha(self) -> float:
        """The strength of popularity regularisation."""


class Leporid(SpectralEstimator):
    """Laplacian Eigenmaps with popularity regularisation (LEPORID).

    The rows of the interaction matrix become nodes of their exact Jaccard top-k graph; the
    embedding is the `dim` smallest eigenvectors of L_regsym = I - D_reg^-1/2 W D_reg^-1/2,
    all of them kept. `alpha` moves every degree towards the largest one: 0 is plain LE.
    """

    method = "leporid"

    def __init__(
        self,
        dim: int = 64,
        k: int = 1000,
        alpha: float = 0.5,
        normalized: bool = True,
        metric: Metric = "jaccard",
        solver: Solver = "auto",
        tol: float = 1e-6,
        dtype: Literal["float32", "float64"] = "float32",
        seed: int = 0,
        device: Device = "auto",
        threads: int | None = None,
    ) -> None:
        self.dim = dim
        self.k = k
        self.alpha = alpha
        self.normalized = normalized
        self.metric = metric
        self.solver = solver
        self.tol = tol
        self.dtype = dtype
        self.seed = seed
        self.device = device
        self.threads = threads

    @property
    def _alpha(self) -> float:
        return self.alpha


class LaplacianEigenmaps(SpectralEstimator):
    """Laplacian Eigenmaps (LE) on the same graph: no popularity regularisation (alpha = 0).

    All `dim` vectors are kept, the first too, and they are not rescaled by D^-1/2.
    """

    method = "le"

    def __init__(
        self,
        dim: int = 64,
        k: int = 1000,
        normalized: bool = True,
        metric: Metric = "jaccard",
        solver: Solver = "auto",
        tol: float = 1e-6,
        dtype: Literal["float32", "float64"] = "float32",
        seed: int = 0,
        device: Device = "auto",
        threads: int | None = None,
    ) -> None:
        self.dim = dim
        self.k = k
        self.normalized = normalized
        self.metric = metric
        self.solver = solver
        self.tol = tol
        self.dtype = dtype
        self.seed = seed
        self.device = device
        self.threads = threads

    @property
    def _alpha(self) -> float:
        return 0.0


def _same_pattern(one: sparse.csr_array, other: sparse.csr_array) -> bool:
    return (
        one.shape == other.shape
        and one.nnz == other.nnz
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.indices, other.indices)
    )
