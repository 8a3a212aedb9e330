"""Fitted estimators on disk: `spectral.safetensors` beside `spectral.json`, never a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import sparse

from leporid.artifacts import read_arrays, read_json, write_arrays, write_json
from leporid.errors import DataError
from leporid.graph import KnnGraph

if TYPE_CHECKING:
    from leporid.spectral.estimators import Leporid

Estimator = TypeVar("Estimator", bound="Leporid")

_FITTED = ("embedding", "eigenvalues", "residuals", "degrees", "rotation", "landmarks")
ARRAYS = {**{name: f"{name}_" for name in _FITTED}, "thresholds": "_thresholds"}
"""Names in the file, and the attributes they are kept in."""
EDGES = ("indptr", "indices", "weights")


def save_estimator(estimator: Leporid, path: str | Path, graph: bool = False) -> Path:
    """Write what `transform` needs into the directory `path`, and on request the graph."""
    path = Path(path)
    rows = estimator._rows
    if rows is not None:
        estimator._choice_thresholds()
    attributes = {name: getattr(estimator, attribute) for name, attribute in ARRAYS.items()}
    arrays = {name: array for name, array in attributes.items() if array is not None}
    if rows is not None:
        arrays["rows.indptr"] = np.asarray(rows.indptr, dtype=np.int64)
        arrays["rows.indices"] = np.asarray(rows.indices, dtype=np.int32)
    about: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "parameters": estimator.get_params(),
        "n_features": estimator.n_features_in_,
        "n_iter": estimator.n_iter_,
        "k_used": estimator._k,
    }
    if graph:
        edges = estimator.graph_
        arrays |= {f"graph.{name}": getattr(edges, name) for name in EDGES}
        about["graph"] = {"side": edges.side, "similarity": edges.similarity}
    write_arrays(path / "spectral.safetensors", arrays)
    write_json(path / "spectral.json", about)
    return path


def load_estimator(kind: type[Estimator], path: str | Path) -> Estimator:
    """The estimator that `save_estimator` wrote, which must be a `kind`."""
    path = Path(path)
    about = read_json(path / "spectral.json")
    if about.get("estimator") != kind.__name__:
        raise DataError(f"{path} holds a {about.get('estimator')}, not a {kind.__name__}")
    arrays, _ = read_arrays(path / "spectral.safetensors")
    about["parameters"].pop("neighbours", None)  # a parameter of versions before 0.2
    estimator = kind(**about["parameters"])
    arrays.setdefault("rotation", np.eye(arrays["embedding"].shape[1]))
    for name, attribute in ARRAYS.items():
        setattr(estimator, attribute, arrays.get(name))
    estimator.n_features_in_, estimator.n_iter_ = about["n_features"], about["n_iter"]
    estimator._k = about["k_used"]
    estimator._rows = estimator._graph = None
    if "rows.indptr" in arrays:
        indptr, indices = arrays["rows.indptr"], arrays["rows.indices"]
        estimator._rows = sparse.csr_array(
            (np.ones(len(indices), dtype=np.float32), indices, indptr),
            shape=(len(indptr) - 1, estimator.n_features_in_),
        )
    if "graph" in about:
        edges: dict[str, Any] = {name: arrays[f"graph.{name}"] for name in EDGES}
        estimator._graph = KnnGraph(**edges, k=estimator._k, **about["graph"])
    return estimator
