"""`Leporid` and `LaplacianEigenmaps`: scikit-learn's interface to `laplacian_eigenpairs`."""

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

import leporid.artifacts as artifacts
from leporid.config import checked_settings, setting
from leporid.distributed import BlockGraph
from leporid.embeddings import out_of_sample as extension
from leporid.embeddings.eigenpairs import (
    Device,
    Solver,
    as_graph,
    laplacian_eigenpairs,
    native,
)
from leporid.embeddings.out_of_sample import Extension, Landmarks
from leporid.errors import (
    ConfigError,
    DataError,
    NotFittedError,
    UnknownNameError,
    article,
)
from leporid.graph import BinaryCSR, Graph, KnnGraph, binary_csr, checked_csr, knn_graph
from leporid.machine import check_device
from leporid.progress import ProgressLike, make_progress

SOLVER_SETTINGS = ["alpha", "normalized", "solver", "tol", "seed", "device", "threads"]
_FITTED = ("embedding", "eigenvalues", "residuals", "degrees", "landmarks")
ARRAYS = {**{name: f"{name}_" for name in _FITTED}, "thresholds": "_thresholds"}
"""Names in the file of a fitted estimator, and their attributes."""


_FILE, _ABOUT = "spectral.safetensors", "spectral.json"
_FORMAT = 2


@dataclass(eq=False)
class Leporid:
    """Laplacian Eigenmaps with popularity regularisation (LEPORID).

    The rows of the interaction matrix become nodes of their exact Jaccard top-k graph; the
    embedding is the `dim` smallest eigenvectors of L_regsym = I - D_reg^-1/2 W D_reg^-1/2,
    all of them kept.

    Attributes
    ----------
    embedding_ : float32[n, dim], one vector per fitted row
    eigenvalues_ : float64[dim], descending: of A; of -L_reg when `normalized=False`
    residuals_ : float64[dim], ||A q - mu q||, computed in float64
    degrees_ : float64[n], d = W 1; outside the landmarks, the sum of a row's weights to them
    landmarks_ : int64[m], ascending: the rows that were fitted; None for all of them
    graph_ : the `KnnGraph`, of the landmarks where there are some; missing after a fit on a
        cluster, and after `load`
    n_iter_ : products of the eigensolver
    n_features_in_ : columns of the fitted matrix
    """

    dim: int = setting(64, at_least=1)
    """Number of eigenvectors."""
    k: int = setting(1000, at_least=1)
    """Neighbours per row, clipped to n - 1."""
    alpha: float = setting(0.5, at_least=0, at_most=1)
    """How far every degree moves towards the largest one: 0 is plain LE."""
    normalized: bool = True
    """The symmetrically normalised Laplacian; False takes the unnormalised one."""
    metric: Literal["jaccard", "precomputed"] = "jaccard"
    """'precomputed': `fit` takes a symmetric matrix of weights instead of interactions."""
    solver: Solver = "auto"
    tol: float = setting(1e-6, above=0)
    """Bound on the residuals."""
    seed: int = setting(0, at_least=0)
    device: Device = "auto"
    threads: int | None = setting(None, at_least=1)
    """None for all cores this process may use."""
    landmarks: Landmarks = None
    """Fit only this many rows (below 1: this share) and extend to all others out of sample, in time
    linear in the rows. None for all; "auto" for all while that costs at most four times as much
    (benchmarks/records/scale.json)."""

    def _check_parameters(self) -> None:
        """Refuse parameters of the wrong type or out of range, as each `fit` does first.

        scikit-learn asks that neither `__init__` nor `set_params` checks or changes values.
        """
        extension.landmark_count(self.landmarks, 2)
        values = {name: native(value) for name, value in self.get_params().items()}
        del values["landmarks"]  # checked by now, and may be a number of numpy
        checked_settings(type(self), values)

    def _solve(self, graph: Graph, progress: ProgressLike) -> None:
        """Store the eigenpairs of `graph` and reset all else that a fit sets."""
        settings: dict[str, Any] = {
            name: getattr(self, name) for name in SOLVER_SETTINGS
        }
        pairs = laplacian_eigenpairs(graph, self.dim, progress=progress, **settings)
        self.embedding_: NDArray[np.float32] = pairs.vectors
        self.eigenvalues_: NDArray[np.float64] = pairs.values
        self.residuals_: NDArray[np.float64] = pairs.residuals
        self.n_iter_: int = pairs.iterations
        self.degrees_: NDArray[np.float64] = graph.degrees()
        self.landmarks_: NDArray[np.int64] | None = None
        self._k: int = graph.k
        self._graph: KnnGraph | None = None
        self._rows: BinaryCSR | None = None
        self._thresholds: NDArray[np.float32] | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        client: Any | None = None,
        progress: bool | ProgressLike | None = None,
    ) -> Self:
        """Embed the rows of X.

        X is the interaction matrix (scipy sparse or an array; every non-zero entry is an
        interaction), a `graph.BinaryCSR`, whose columns may lie in a file, a data frame with a
        column of users and one of items, or a `KnnGraph`. With
        `metric="precomputed"` a square matrix is a graph. `y` is ignored.

        With `client`, a `distributed.Client`, interactions are embedded on its cluster: the same
        vectors, but the graph stays there and `graph_` does not exist afterwards.
        """
        self._check_parameters()
        check_device(self.device)
        if isinstance(X, KnnGraph) or self.metric == "precomputed":
            if client is not None:
                raise ConfigError(
                    "client= takes interactions: a graph is embedded without it"
                )
            return self.fit_graph(X, progress=progress)
        rows = binary_csr(X, self._input)
        n = rows.n
        if n < 2:
            raise DataError(f"{n} sample is too few: a graph needs at least 2 rows")
        count, reporter = (
            extension.landmark_count(self.landmarks, n),
            make_progress(progress),
        )
        chosen = (
            extension.choose_landmarks(rows, count, self.seed) if count < n else None
        )
        fitted = rows if chosen is None else binary_csr(rows.take(chosen))
        k = extension.landmark_neighbours(self.k, count, n)
        where: dict[str, Any] = {"device": self.device, "progress": reporter}
        if client is None:
            graph = knn_graph(fitted, k=k, threads=self.threads, **where)
            self._solve(graph, reporter)
            self._graph = graph
        else:
            remote = BlockGraph(client, fitted, k, **where)
            try:
                self._solve(remote, reporter)
                self._thresholds = remote.thresholds
            finally:
                remote.release()
        self.n_features_in_: int = rows.n_columns
        self._rows = fitted
        if chosen is not None:
            vectors, degrees = self._extend(rows, reporter)
            vectors[chosen], degrees[chosen] = self.embedding_, self.degrees_
            self.embedding_, self.degrees_, self.landmarks_ = vectors, degrees, chosen
        return self

    def fit_graph(
        self, graph: Any, *, progress: bool | ProgressLike | None = None
    ) -> Self:
        """Embed the nodes of a `KnnGraph` or of a symmetric scipy matrix of weights.

        `transform` then takes weights to the n fitted nodes, csr[m, n].
        """
        self._check_parameters()
        graph = as_graph(graph)
        self._solve(graph, make_progress(progress))
        self._graph, self.n_features_in_ = graph, graph.n
        return self

    def fit_transform(
        self, X: Any, y: Any = None, **options: Any
    ) -> NDArray[np.float32]:
        """`fit` with the same options, then the embedding of the fitted rows."""
        return self.fit(X, y, **options).embedding_

    @property
    def graph_(self) -> KnnGraph:
        """The graph of the fitted rows."""
        self._check_fitted()
        if self._graph is None:
            raise NotFittedError(
                f"this {self._name} has no graph: it was loaded from files, "
                f"or fitted on a Dask cluster, where it stayed; fit without client="
            )
        return self._graph

    def transform(self, X: Any) -> NDArray[np.float32]:
        """float32[m, dim]: out-of-sample extension to new rows, without a refit.

        X has the columns of the fitted matrix; after a fit on a graph, it holds the weights to
        the n fitted nodes. A row with the items of a fitted row gets that row's vector (the first
        such row, unless X is the fitted matrix itself); a row without neighbours gets zeros.
        """
        self._check_fitted()
        matrix = checked_csr(X, self._input)
        if matrix.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {matrix.shape[1]} features, but {self._name} is expecting "
                f"{self.n_features_in_} features as input"
            )
        if self._rows is None:
            weights = matrix.astype(np.float32)
            if (weights.data < 0.0).any():
                raise DataError("weights to the fitted nodes must not be negative")
            return self._extension().embed(weights)
        rows = binary_csr(matrix)
        same = np.array_equal(rows.indptr, self._rows.indptr)
        same = same and np.array_equal(rows.columns, self._rows.columns)
        if same and self.landmarks_ is None:
            return self.embedding_.copy()
        return self._extend(rows)[0]

    def _extend(
        self, rows: BinaryCSR, progress: ProgressLike | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Vectors float32[m, dim] and degrees float64[m] of new rows."""
        assert self._rows is not None
        fitted = (self._rows, self._extension(), self._k, self._choice_thresholds())
        return extension.extend_rows(rows, *fitted, self.threads, progress)

    def _choice_thresholds(self) -> NDArray[np.float32]:
        if self._thresholds is None:
            self._thresholds = self.graph_.thresholds
        return self._thresholds

    def _extension(self) -> Extension:
        fitted = slice(None) if self.landmarks_ is None else self.landmarks_
        vectors, degrees = self.embedding_[fitted], self.degrees_[fitted]
        return Extension(
            vectors, self.eigenvalues_, degrees, self.alpha, self.normalized
        )

    def save(self, path: str | Path) -> Path:
        """Write `spectral.safetensors` and `spectral.json` into the directory `path`.

        All `transform` needs is saved, and not the far larger graph.
        """
        self._check_fitted()
        arrays: dict[str, Any] = {}
        if self._rows is not None:
            self._choice_thresholds()
            arrays = {
                "rows.indptr": self._rows.indptr,
                "rows.indices": self._rows.columns,
            }
        attributes = {
            name: getattr(self, attribute) for name, attribute in ARRAYS.items()
        }
        arrays |= {
            name: array for name, array in attributes.items() if array is not None
        }
        about: dict[str, Any] = {
            "format": _FORMAT,
            "estimator": self._name,
            "parameters": self.get_params(),
            "n_features": self.n_features_in_,
            "n_iter": self.n_iter_,
            "k_used": self._k,
        }
        with artifacts.atomic_folder(path) as folder:
            artifacts.write_arrays(folder / _FILE, arrays)
            artifacts.write_json(folder / _ABOUT, about)
            artifacts.write_manifest(folder, "estimator", _ABOUT, _FILE)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        about, arrays = _read(path)
        if about.get("estimator") != cls.__name__:
            found = article(str(about.get("estimator")))
            raise DataError(f"{path} holds {found}, not {article(cls.__name__)}")
        try:
            estimator = cls(**about["parameters"])
            estimator._check_parameters()
        except ConfigError as error:
            raise DataError(f"{path} has wrong parameters: {error}") from None
        except TypeError as error:
            raise DataError(
                f"{path} has parameters no {cls.__name__} has: {error}"
            ) from None
        for name, attribute in ARRAYS.items():
            setattr(estimator, attribute, arrays.get(name))
        estimator.n_features_in_, estimator.n_iter_ = (
            about["n_features"],
            about["n_iter"],
        )
        estimator._k, estimator._rows, estimator._graph = about["k_used"], None, None
        if "rows.indptr" in arrays:
            indptr, columns = (
                arrays["rows.indptr"],
                arrays["rows.indices"].astype(np.int32),
            )
            estimator._rows = BinaryCSR(
                indptr.astype(np.int64), columns, about["n_features"]
            )
        return estimator

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {self._name} is not fitted yet: call fit first")

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _input(self) -> str:
        return f"the matrix given to {self._name}"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of `__init__` by name; a fit never changes them."""
        return {
            name: getattr(self, name)
            for name in inspect.signature(type(self)).parameters
        }

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; an unknown name is an error that suggests the closest one.

        As scikit-learn asks, values are checked by the next `fit`.
        """
        known = self.get_params()
        for name in sorted(parameters.keys() - known):
            raise UnknownNameError("parameter", name, known)
        vars(self).update(parameters)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

    def __sklearn_tags__(self) -> Any:
        """Only scikit-learn calls this, so only scikit-learn has to be there."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            "transformer",
            TargetTags(required=False),
            TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(sparse=True, pairwise=self.metric == "precomputed"),
        )


@dataclass(eq=False)
class LaplacianEigenmaps(Leporid):
    """Laplacian Eigenmaps (LE) on the same graph: `Leporid` without popularity regularisation.

    All `dim` vectors are kept, the first too, and they are not rescaled by D^-1/2.
    """

    alpha: float = field(default=0.0, init=False, repr=False)


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The two files of a fitted estimator; a damaged folder is a `DataError`."""
    path = artifacts.recovered(path)
    about = artifacts.read_object(path / _ABOUT)
    if (stored := about.get("format")) != _FORMAT:
        raise DataError(
            f"{path} has the format {stored!r}, this release reads {_FORMAT}: fit it again"
        )
    artifacts.check_manifest(path, "estimator", _ABOUT, _FILE)
    arrays, _ = artifacts.read_arrays(path / _FILE)
    try:
        _check(about, arrays)
    except DataError as error:
        raise DataError(f"{path} cannot be used: {error}; fit it again") from None
    return about, arrays


def _check(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    for name in ("n_features", "n_iter", "k_used"):
        if not isinstance(value := about.get(name), int) or not 0 <= value < 2**31:
            raise DataError(f"{_ABOUT} does not say its {name}")
    if not isinstance(about.get("parameters"), dict):
        raise DataError(f"{_ABOUT} does not say its parameters")
    vectors = arrays.get("embedding")
    if vectors is None or vectors.ndim != 2 or vectors.dtype != np.float32:
        raise DataError("it has no float32 matrix named 'embedding'")
    n, dim = vectors.shape
    landmarks = arrays.get("landmarks", np.arange(n))
    inside = landmarks.ndim == 1 and landmarks.dtype == np.int64
    if not inside or (np.diff(landmarks, prepend=-1, append=n) <= 0).any():
        raise DataError("its landmarks are not rows of the embedding")
    fitted, nothing = len(landmarks), np.zeros(0, np.int64)
    shapes = {"eigenvalues": (dim,), "residuals": (dim,), "degrees": (n,)}
    if "thresholds" in arrays:
        shapes["thresholds"] = (fitted,)
    for name, shape in {"embedding": (n, dim), **shapes}.items():
        array = arrays.get(name, nothing)
        if (
            array.dtype.kind != "f"
            or array.shape != shape
            or not np.isfinite(array).all()
        ):
            raise DataError(f"{name} is not {list(shape)} finite floats")
    if "rows.indptr" in arrays:
        indptr, indices = arrays["rows.indptr"], arrays.get("rows.indices", nothing)
        artifacts.check_csr(indptr, indices, indices, about["n_features"], "rows")
        if len(indptr) != fitted + 1:
            raise DataError("the rows are incomplete")
    elif about["n_features"] != n:
        raise DataError("the rows it was fitted on are missing")
