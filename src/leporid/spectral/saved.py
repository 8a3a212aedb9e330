"""Fitted estimators on disk: `spectral.safetensors` beside `spectral.json`, never a pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.artifacts import read_arrays, read_json, write_arrays, write_json
from leporid.errors import DataError, NotFittedError
from leporid.graph.types import KnnGraph
from leporid.spectral.extension import choice_thresholds
from leporid.spectral.parameters import Parameters

__all__ = ["SavedEstimator"]


class SavedEstimator(Parameters):
    """`save` and `load` of what a fit learned."""

    embedding_: NDArray[np.float32]
    eigenvalues_: NDArray[np.float64]
    residuals_: NDArray[np.float64]
    degrees_: NDArray[np.float64]
    landmarks_: NDArray[np.int64] | None
    recall_: float | None
    rotation_: NDArray[np.float64]
    """float64[dim, dim]: `embedding_ @ rotation_` lies in the coordinates of the first fit, before
    any `refresh`; the identity after `fit`."""
    graph_: KnnGraph
    n_iter_: int
    n_features_in_: int
    _rows: sparse.csr_array | None
    _thresholds: NDArray[np.float32] | None
    _loaded_k: int

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
            "rotation": self.rotation_,
        }
        if self.landmarks_ is not None:
            arrays["landmarks"] = self.landmarks_
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
            "recall": self.recall_,
        }
        if graph:
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
        self.landmarks_, self.recall_ = arrays.get("landmarks"), about.get("recall")
        self.rotation_ = arrays.get("rotation", np.eye(self.embedding_.shape[1]))
        self._rows = None
        if "rows.indptr" in arrays:
            indices = arrays["rows.indices"]
            self._rows = sparse.csr_array(
                (np.ones(len(indices), dtype=np.float32), indices, arrays["rows.indptr"]),
                shape=(len(arrays["rows.indptr"]) - 1, self.n_features_in_),
            )
        if "graph" in about:
            self.graph_ = KnnGraph(
                arrays["graph.indptr"],
                arrays["graph.indices"],
                arrays["graph.weights"],
                k=self._loaded_k,
                **about["graph"],
            )

    if not TYPE_CHECKING:  # attributes are checked by their declarations above

        def __getattr__(self, name: str) -> Any:
            """Say where the graph is; everything else is an ordinary missing attribute."""
            if name == "graph_" and "embedding_" in self.__dict__:
                raise NotFittedError(
                    f"this {type(self).__name__} is without its graph: it was loaded from files "
                    f"that do not have it, or fitted on a Dask cluster, where it stayed; "
                    f"fit without client= to have it here"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
