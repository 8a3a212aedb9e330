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
from leporid.graph.remote import graph_builder
from leporid.graph.types import Graph, KnnGraph
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.eigenpairs import Device, Solver, laplacian_eigenpairs
from leporid.spectral.embedding import Embedding
from leporid.spectral.extension import (
    Extension,
    identical_rows,
    place_rows,
)
from leporid.spectral.inputs import interaction_rows
from leporid.spectral.landmarks import (
    Landmarks,
    choose_landmarks,
    landmark_count,
    landmark_neighbours,
)
from leporid.spectral.laplacian import as_graph
from leporid.spectral.refresh import RefreshedEstimator

__all__ = ["LaplacianEigenmaps", "Leporid"]

Metric = Literal["jaccard", "precomputed"]


class SpectralEstimator(RefreshedEstimator, abc.ABC):
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
    landmarks: Landmarks
    neighbours: str

    embedding_: NDArray[np.float32]
    """float32[n, dim]: one vector a fitted row."""
    eigenvalues_: NDArray[np.float64]
    """float64[dim], descending: of A; of -L_reg when `normalized=False`."""
    residuals_: NDArray[np.float64]
    """float64[dim]: ||A q - mu q||, computed in float64."""
    degrees_: NDArray[np.float64]
    """float64[n]: d = W 1; outside the landmarks, the sum of a row's weights to them."""
    landmarks_: NDArray[np.int64] | None
    """int64[m], ascending: the rows that were fitted; None for all of them."""
    recall_: float | None
    """Recall@k of approximate neighbours, measured on a sample of rows; None for exact ones."""
    graph_: KnnGraph
    """The graph, of the landmarks where there are some; not there after a fit on a cluster, or
    after `load` unless it was saved too."""
    n_iter_: int
    n_features_in_: int

    # -- fitting ------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        progress: bool | ProgressLike | None = None,
        client: Any | None = None,
    ) -> Self:
        """Embed the rows of X.

        X is the interaction matrix (scipy sparse or an array; every non-zero entry is an
        interaction), or a `KnnGraph`. A square matrix counts as interactions too, unless
        `metric="precomputed"` says that it is a graph. `y` is ignored. With `client`, a
        `distributed.Client`, interactions are embedded on its Dask cluster: the same vectors, but
        the graph stays there and `graph_` does not exist afterwards.
        """
        if client is not None and (isinstance(X, KnnGraph) or self.metric == "precomputed"):
            raise ConfigError("client= takes interactions: a graph is embedded without it")
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
        count = landmark_count(self.landmarks, rows.shape[0])
        chosen = choose_landmarks(rows, count, self.seed) if count < rows.shape[0] else None
        fitted = rows if chosen is None else rows[chosen]
        k = landmark_neighbours(self.k, count, rows.shape[0])
        if client is not None:
            self._fit_on_cluster(client, fitted, k, reporter)
        else:
            graph = knn_graph(
                fitted,
                k=k,
                device=self.device,
                threads=self.threads,
                progress=reporter,
            )
            self._fit_graph(graph, reporter)
        self.n_features_in_ = rows.shape[1]
        self._rows = fitted
        if chosen is not None:
            self._place_others(rows, chosen, reporter)
        return self

    def _place_others(
        self, rows: sparse.csr_array, chosen: NDArray[np.int64], progress: ProgressLike
    ) -> None:
        """Fill up the embedding and the degrees of the landmarks with all other rows."""
        vectors, degrees = self._place(rows, progress)
        vectors[chosen], degrees[chosen] = self.embedding_, self.degrees_
        self.embedding_, self.degrees_, self.landmarks_ = vectors, degrees, chosen

    def fit_graph(self, graph: Any, *, progress: bool | ProgressLike | None = None) -> Self:
        """Embed the nodes of a `KnnGraph` or of a symmetric scipy matrix of weights.

        `transform` then takes weights to the n fitted nodes, csr[m, n].
        """
        self._fit_graph(as_graph(graph), make_progress(progress))
        self.n_features_in_ = self.graph_.n
        self._rows = None
        return self

    def _fit_graph(
        self, graph: Graph, progress: ProgressLike, v0: NDArray[np.float32] | None = None
    ) -> None:
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
            v0=v0,
        )
        self.graph_ = graph  # type: ignore[assignment]
        self.degrees_ = graph.degrees()
        self.embedding_ = pairs.vectors
        self.eigenvalues_ = pairs.values
        self.residuals_ = pairs.residuals
        self.n_iter_ = pairs.iterations
        self.landmarks_, self.recall_ = None, None
        self.rotation_ = np.eye(self.dim)
        self._thresholds: NDArray[np.float32] | None = None

    def _fit_on_cluster(
        self, client: Any, rows: sparse.csr_array, k: int, progress: ProgressLike
    ) -> None:
        graph = graph_builder(client).knn_graph(
            rows, k, device=self.device, solver=self.solver, progress=progress
        )
        try:
            self._fit_graph(graph, progress)
        finally:
            graph.release()
        self._loaded_k, self._thresholds = graph.k, graph.thresholds
        del self.graph_

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        progress: bool | ProgressLike | None = None,
        client: Any | None = None,
    ) -> NDArray[np.float32]:
        """`fit`, then the embedding of the fitted rows."""
        return self.fit(X, y, progress=progress, client=client).embedding_

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
        if self._rows is None:
            if (rows.data < 0.0).any():
                raise DataError("weights to the fitted nodes must not be negative")
            return self._extension().embed(rows)
        rows.data[:] = 1.0
        if self.landmarks_ is None and _same_pattern(rows, self._rows):
            return self.embedding_.copy()
        return self._place(rows, make_progress(None))[0]

    def _place(
        self, rows: sparse.csr_array, progress: ProgressLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Vectors float32[m, dim] and degrees float64[m] of rows, by the fitted rows."""
        assert self._rows is not None
        extension = self._extension()
        same = identical_rows(rows, self._rows)
        vectors = extension.vectors[np.maximum(same, 0)]
        degrees = extension.degrees[np.maximum(same, 0)]
        fresh = np.flatnonzero(same < 0)
        if len(fresh):
            vectors[fresh], degrees[fresh] = place_rows(
                rows[fresh],
                self._rows,
                extension,
                self._k_used,
                self._choices(),
                self.threads,
                progress,
            )
        return vectors, degrees

    def _extension(self) -> Extension:
        """The formula for new rows, over the rows that were fitted."""
        fitted = slice(None) if self.landmarks_ is None else self.landmarks_
        return Extension(
            self.embedding_[fitted],
            self.eigenvalues_,
            self.degrees_[fitted],
            self._alpha,
            self.normalized,
        )

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
    With `landmarks` (a number of rows or a share of them) only those rows are fitted exactly, and
    all others are placed among them as new rows are: time linear in the rows, for millions.
    `neighbours` is the `method` of `knn_graph`: exact, approximate, or the one for the size.
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
        landmarks: Landmarks = None,
        neighbours: str = "auto",
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
        self.landmarks = landmarks
        self.neighbours = neighbours

    @property
    def _alpha(self) -> float:
        return self.alpha


class LaplacianEigenmaps(SpectralEstimator):
    """Laplacian Eigenmaps (LE) on the same graph: no popularity regularisation (alpha = 0).

    All `dim` vectors are kept, the first too, and they are not rescaled by D^-1/2. `landmarks`
    and `neighbours` as in `Leporid`.
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
        landmarks: Landmarks = None,
        neighbours: str = "auto",
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
        self.landmarks = landmarks
        self.neighbours = neighbours

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
