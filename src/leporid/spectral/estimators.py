"""`Leporid` and `LaplacianEigenmaps`: estimators in the manner of scikit-learn.

The functions compute, the classes remember: `fit` stores what `knn_graph` and
`laplacian_eigenpairs` return. scikit-learn itself is not needed.
"""

from __future__ import annotations

import abc
import hashlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.artifacts import read_arrays, read_json, write_arrays, write_json
from leporid.errors import ConfigError, DataError, NotFittedError, UnknownNameError
from leporid.graph.types import KnnGraph
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.eigenpairs import Device, Solver, laplacian_eigenpairs
from leporid.spectral.embedding import Embedding
from leporid.spectral.extension import (
    Extension,
    choice_thresholds,
    identical_rows,
    neighbour_weights,
)
from leporid.spectral.inputs import interaction_rows
from leporid.spectral.laplacian import as_graph

__all__ = ["LaplacianEigenmaps", "Leporid"]

Metric = Literal["jaccard", "precomputed"]


class SpectralEstimator(abc.ABC):
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

    # -- parameters, the way scikit-learn's `clone` and pipelines expect them ---------------

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; an unknown name is an error that suggests the closest one."""
        known = self._parameter_names()
        for name in parameters:
            if name not in known:
                raise _UnknownParameterError(name, known)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({shown})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

    def __sklearn_tags__(self) -> Any:
        """Only scikit-learn calls this, so only scikit-learn has to be there."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(sparse=True, pairwise=self.metric == "precomputed"),
            requires_fit=True,
        )

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

    def save(self, path: str | Path, *, graph: bool = False) -> Path:
        """Write `spectral.safetensors` and `spectral.json` into the directory `path`.

        All `transform` needs is saved; the graph itself, which is far larger, only on request.
        """
        self._check_fitted()
        path = Path(path)
        arrays: dict[str, NDArray[Any]] = {
            "embedding": self.embedding_,
            "eigenvalues": self.eigenvalues_,
            "residuals": self.residuals_,
            "degrees": self.degrees_,
        }
        if self._rows is not None:
            arrays["thresholds"] = self._choices()
            arrays["rows.indptr"] = np.asarray(self._rows.indptr, dtype=np.int64)
            arrays["rows.indices"] = np.asarray(self._rows.indices, dtype=np.int32)
        about: dict[str, Any] = {
            "estimator": type(self).__name__,
            "parameters": self.get_params(),
            "n_features": self.n_features_in_,
            "n_iter": self.n_iter_,
            "k_used": self._k_used,
        }
        if graph:
            if not hasattr(self, "graph_"):
                raise NotFittedError(f"this {type(self).__name__} was loaded without its graph")
            arrays["graph.indptr"] = self.graph_.indptr
            arrays["graph.indices"] = self.graph_.indices
            arrays["graph.weights"] = self.graph_.weights
            about["graph"] = {"side": self.graph_.side, "similarity": self.graph_.similarity}
        write_arrays(path / "spectral.safetensors", arrays)
        write_json(path / "spectral.json", about)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        path = Path(path)
        about = read_json(path / "spectral.json")
        if about.get("estimator") != cls.__name__:
            raise DataError(f"{path} holds a {about.get('estimator')}, not a {cls.__name__}")
        arrays, _ = read_arrays(path / "spectral.safetensors")
        estimator = cls(**about["parameters"])
        estimator._restore(about, arrays)
        return estimator

    def _restore(self, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.embedding_, self.eigenvalues_ = arrays["embedding"], arrays["eigenvalues"]
        self.residuals_, self.degrees_ = arrays["residuals"], arrays["degrees"]
        self.n_features_in_, self.n_iter_ = about["n_features"], about["n_iter"]
        self._loaded_k = about["k_used"]
        self._thresholds = arrays.get("thresholds")
        self._rows = None
        if "rows.indptr" in arrays:
            indices = arrays["rows.indices"]
            self._rows = sparse.csr_array(
                (np.ones(len(indices), dtype=np.float32), indices, arrays["rows.indptr"]),
                shape=(len(self.embedding_), self.n_features_in_),
            )
        if "graph" in about:
            self.graph_ = KnnGraph(
                arrays["graph.indptr"],
                arrays["graph.indices"],
                arrays["graph.weights"],
                k=self._loaded_k,
                **about["graph"],
            )

    # -- shared pieces ------------------------------------------------------------------------

    _rows: sparse.csr_array | None
    _loaded_k: int

    @property
    @abc.abstractmethod
    def _alpha(self) -> float:
        """The strength of popularity regularisation."""

    @property
    def _k_used(self) -> int:
        return self.graph_.k if hasattr(self, "graph_") else self._loaded_k

    def _choices(self) -> NDArray[np.float32]:
        if self._thresholds is None:
            self._thresholds = choice_thresholds(self.graph_)
        return self._thresholds

    def _check_fitted(self) -> None:
        if not hasattr(self, "embedding_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")


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


class _UnknownParameterError(UnknownNameError, ValueError):
    """`set_params` was given a name the estimator does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("parameter", name, known)


def _same_pattern(one: sparse.csr_array, other: sparse.csr_array) -> bool:
    return (
        one.shape == other.shape
        and one.nnz == other.nnz
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.indices, other.indices)
    )
