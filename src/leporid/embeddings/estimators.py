"""`Leporid` and `LaplacianEigenmaps`: scikit-learn's interface to `laplacian_eigenpairs`."""

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from leporid.distributed import BlockGraph
from leporid.embeddings.arrays import Float32Array, Float64Array, Int64Array
from leporid.embeddings.eigenpairs import (
    Device,
    Solver,
    as_graph,
    laplacian_eigenpairs,
    native,
)
from leporid.embeddings.landmarks import (
    Landmarks,
    choose_landmarks,
    landmark_count,
    landmark_neighbours,
)
from leporid.embeddings.out_of_sample import RowExtension, extend_rows
from leporid.embeddings.saved import read_fit, write_fit
from leporid.errors import (
    ConfigError,
    DataError,
    NotFittedError,
    UnknownNameError,
    article,
)
from leporid.foundation import (
    Progress,
    ProgressLike,
    SettingValue,
    check_device,
    checked_settings,
    make_progress,
    setting,
)
from leporid.graph import BinaryCSR, Graph, KnnGraph, binary_csr, checked_csr, knn_graph

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from distributed import Client


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
    """Share by which every degree moves towards the largest one: 0 is plain LE."""
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
        landmark_count(self.landmarks, 2)
        values = {name: native(value) for name, value in self.get_params().items()}
        del values["landmarks"]  # checked by now, and may be a number of numpy
        checked_settings(type(self), values)

    def _solve(self, graph: Graph, progress: ProgressLike) -> None:
        """Store the eigenpairs of `graph` and reset all else that a fit sets."""
        pairs = laplacian_eigenpairs(
            graph,
            self.dim,
            alpha=self.alpha,
            normalized=self.normalized,
            solver=self.solver,
            tol=self.tol,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            progress=progress,
        )
        self.embedding_: Float32Array = pairs.vectors
        self.eigenvalues_: Float64Array = pairs.values
        self.residuals_: Float64Array = pairs.residuals
        self.n_iter_: int = pairs.iterations
        self.degrees_: Float64Array = graph.degrees()
        self.landmarks_: Int64Array | None = None
        self._k: int = graph.k
        self._graph: KnnGraph | None = None
        self._rows: BinaryCSR | None = None
        self._thresholds: Float32Array | None = None

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        client: "Client | None" = None,
        progress: Progress = None,
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
        reporter = make_progress(progress)
        count = landmark_count(self.landmarks, n)
        k = landmark_neighbours(self.k, count, n)
        if count == n:
            self._fit_rows(rows, k, client, reporter)
            return self
        landmarks = choose_landmarks(rows, count, self.seed)
        self._fit_rows(binary_csr(rows.take(landmarks)), k, client, reporter)
        vectors, degrees = self._extend(rows, reporter)
        vectors[landmarks] = self.embedding_
        degrees[landmarks] = self.degrees_
        self.embedding_ = vectors
        self.degrees_ = degrees
        self.landmarks_ = landmarks
        return self

    def _fit_rows(
        self,
        rows: BinaryCSR,
        k: int,
        client: "Client | None",
        progress: ProgressLike,
    ) -> None:
        """Embed all of `rows`, here or on the cluster of `client`."""
        if client is None:
            graph = knn_graph(
                rows,
                k=k,
                threads=self.threads,
                device=self.device,
                progress=progress,
            )
            self._solve(graph, progress)
            self._graph = graph
        else:
            remote = BlockGraph(client, rows, k, device=self.device, progress=progress)
            try:
                self._solve(remote, progress)
                self._thresholds = remote.thresholds
            finally:
                remote.release()
        self.n_features_in_: int = rows.n_columns
        self._rows = rows

    def fit_graph(
        self,
        graph: Any,
        *,
        progress: Progress = None,
    ) -> Self:
        """Embed the nodes of a `KnnGraph` or of a symmetric scipy matrix of weights.

        `transform` then takes weights to the n fitted nodes, csr[m, n].
        """
        self._check_parameters()
        graph = as_graph(graph)
        self._solve(graph, make_progress(progress))
        self._graph = graph
        self.n_features_in_ = graph.n
        return self

    def fit_transform(
        self,
        X: Any,
        y: object = None,
        *,
        client: "Client | None" = None,
        progress: Progress = None,
    ) -> Float32Array:
        """Call `fit` with the same options, and return the embedding of the fitted rows."""
        return self.fit(X, y, client=client, progress=progress).embedding_

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

    def transform(self, X: Any) -> Float32Array:
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
        if (
            self.landmarks_ is None
            and np.array_equal(rows.indptr, self._rows.indptr)
            and np.array_equal(rows.columns, self._rows.columns)
        ):
            return self.embedding_.copy()
        vectors, _ = self._extend(rows)
        return vectors

    def _extend(
        self,
        rows: BinaryCSR,
        progress: ProgressLike | None = None,
    ) -> tuple[Float32Array, Float64Array]:
        """Vectors float32[m, dim] and degrees float64[m] of new rows."""
        assert self._rows is not None
        return extend_rows(
            rows,
            self._rows,
            self._extension(),
            self._k,
            self._choice_thresholds(),
            self.threads,
            progress,
        )

    def _choice_thresholds(self) -> Float32Array:
        """float32[n]: the similarity from which on each fitted row chooses a neighbour."""
        if self._thresholds is None:
            self._thresholds = self.graph_.thresholds
        return self._thresholds

    def _extension(self) -> RowExtension:
        vectors = self.embedding_
        degrees = self.degrees_
        if self.landmarks_ is not None:
            vectors = vectors[self.landmarks_]
            degrees = degrees[self.landmarks_]
        return RowExtension(
            vectors,
            self.eigenvalues_,
            degrees,
            self.alpha,
            self.normalized,
        )

    def save(self, path: str | Path) -> Path:
        """Write `spectral.safetensors` and `spectral.json` into the directory `path`.

        All `transform` needs is saved, and not the far larger graph.
        """
        self._check_fitted()
        arrays: dict[str, NDArray[Any]] = {
            "embedding": self.embedding_,
            "eigenvalues": self.eigenvalues_,
            "residuals": self.residuals_,
            "degrees": self.degrees_,
        }
        if self.landmarks_ is not None:
            arrays["landmarks"] = self.landmarks_
        if self._rows is not None:
            arrays["rows.indptr"] = self._rows.indptr
            arrays["rows.indices"] = self._rows.columns
            arrays["thresholds"] = self._choice_thresholds()
        write_fit(
            path,
            {
                "estimator": self._name,
                "parameters": self.get_params(),
                "n_features": self.n_features_in_,
                "n_iter": self.n_iter_,
                "k_used": self._k,
            },
            arrays,
        )
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        saved, arrays = read_fit(path)
        if saved["estimator"] != cls.__name__:
            stored = article(saved["estimator"])
            raise DataError(f"{path} holds {stored}, not {article(cls.__name__)}")
        try:
            estimator = cls(**saved["parameters"])
            estimator._check_parameters()
        except ConfigError as error:
            raise DataError(f"{path} has wrong parameters: {error}") from None
        except TypeError as error:
            raise DataError(
                f"{path} has parameters no {cls.__name__} has: {error}"
            ) from None
        estimator.embedding_ = arrays["embedding"]
        estimator.eigenvalues_ = arrays["eigenvalues"]
        estimator.residuals_ = arrays["residuals"]
        estimator.degrees_ = arrays["degrees"]
        estimator.landmarks_ = arrays.get("landmarks")
        estimator.n_features_in_ = saved["n_features"]
        estimator.n_iter_ = saved["n_iter"]
        estimator._k = saved["k_used"]
        estimator._graph = None
        estimator._rows = None
        estimator._thresholds = arrays.get("thresholds")
        if "rows.indptr" in arrays:
            estimator._rows = BinaryCSR(
                arrays["rows.indptr"].astype(np.int64),
                arrays["rows.indices"].astype(np.int32),
                saved["n_features"],
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
        """Return the arguments of `__init__` by name; a fit never changes them."""
        return {
            name: getattr(self, name)
            for name in inspect.signature(type(self)).parameters
        }

    def set_params(self, **parameters: SettingValue) -> Self:
        """Change parameters; an unknown name is an error that suggests the closest one.

        As scikit-learn asks, values are checked by the next `fit`.
        """
        known = self.get_params()
        for name in sorted(parameters.keys() - known):
            raise UnknownNameError("parameter", name, known)
        vars(self).update(parameters)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "embedding_" in vars(self)

    def __sklearn_tags__(self) -> "Tags":
        """Describe the estimator; only scikit-learn calls this, so it is there."""
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
