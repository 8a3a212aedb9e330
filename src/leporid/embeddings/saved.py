"""The folder in which a fitted `Leporid` or `LaplacianEigenmaps` is saved."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from leporid.errors import DataError
from leporid.foundation import JsonValue, artifacts

_ARRAYS = "spectral.safetensors"
_DESCRIPTION = "spectral.json"
_FORMAT = 2

Arrays = Mapping[str, NDArray[Any]]
"""The arrays of a fitted estimator by name, of whatever types they have."""


class SavedFit(TypedDict):
    """The contents of `spectral.json`: a fitted estimator without its arrays."""

    estimator: str
    """Name of the class."""
    parameters: Mapping[str, Any]
    """Arguments of its constructor."""
    n_features: int
    """Columns of the fitted matrix."""
    n_iter: int
    """Products of the eigensolver."""
    k_used: int
    """Neighbours per row in the graph."""


def write_fit(path: str | Path, description: SavedFit, arrays: Arrays) -> None:
    """Write the two files of a fitted estimator into the directory `path`."""
    with artifacts.atomic_folder(path) as folder:
        artifacts.write_arrays(folder / _ARRAYS, arrays)
        artifacts.write_json(folder / _DESCRIPTION, {**description, "format": _FORMAT})
        artifacts.write_manifest(folder, "estimator", _DESCRIPTION, _ARRAYS)


def read_fit(path: str | Path) -> tuple[SavedFit, Arrays]:
    """Read the two files of a fitted estimator; a damaged folder is a `DataError`."""
    path = artifacts.recovered(path)
    description = artifacts.read_object(path / _DESCRIPTION)
    stored_format = description.get("format")
    if stored_format != _FORMAT:
        raise DataError(
            f"{path} has the format {stored_format!r}, this release reads {_FORMAT}: fit it again"
        )
    artifacts.check_manifest(path, "estimator", _DESCRIPTION, _ARRAYS)
    arrays, _ = artifacts.read_arrays(path / _ARRAYS)
    try:
        fit = _checked_description(description)
        _check_vectors(arrays)
        _check_rows(arrays, fit["n_features"])
    except DataError as error:
        raise DataError(f"{path} cannot be used: {error}; fit it again") from None
    return fit, arrays


def _checked_description(description: Mapping[str, JsonValue]) -> SavedFit:
    n_features, n_iter, k_used = (
        _checked_count(description, name) for name in ("n_features", "n_iter", "k_used")
    )
    parameters = description.get("parameters")
    if not isinstance(parameters, dict):
        raise DataError(f"{_DESCRIPTION} does not say its parameters")
    return {
        "estimator": str(description.get("estimator")),
        "parameters": parameters,
        "n_features": n_features,
        "n_iter": n_iter,
        "k_used": k_used,
    }


def _checked_count(description: Mapping[str, JsonValue], name: str) -> int:
    count = description.get(name)
    if not isinstance(count, int) or not 0 <= count < 2**31:
        raise DataError(f"{_DESCRIPTION} does not say its {name}")
    return count


def _check_vectors(arrays: Arrays) -> None:
    vectors = arrays.get("embedding")
    if vectors is None or vectors.ndim != 2 or vectors.dtype != np.float32:
        raise DataError("it has no float32 matrix named 'embedding'")
    n, dim = vectors.shape
    landmarks = arrays.get("landmarks", np.arange(n))
    is_list = landmarks.ndim == 1 and landmarks.dtype == np.int64
    if not is_list or (np.diff(landmarks, prepend=-1, append=n) <= 0).any():
        raise DataError("its landmarks are not rows of the embedding")
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (n, dim),
        "eigenvalues": (dim,),
        "residuals": (dim,),
        "degrees": (n,),
    }
    if "thresholds" in arrays:
        shapes["thresholds"] = (len(landmarks),)
    for name, shape in shapes.items():
        array = arrays.get(name)
        if (
            array is None
            or array.dtype.kind != "f"
            or array.shape != shape
            or not np.isfinite(array).all()
        ):
            raise DataError(f"{name} is not {list(shape)} finite floats")


def _check_rows(arrays: Arrays, n_features: int) -> None:
    """Refuse fitted rows that are no sparse matrix, or not those of the embedding."""
    n = len(arrays["embedding"])
    if "rows.indptr" in arrays:
        indptr = arrays["rows.indptr"]
        indices = arrays.get("rows.indices", np.zeros(0, np.int64))
        artifacts.check_csr(indptr, indices, indices, n_features, "rows")
        n_fitted = len(arrays["landmarks"]) if "landmarks" in arrays else n
        if len(indptr) != n_fitted + 1:
            raise DataError("the rows are incomplete")
    elif n_features != n:
        raise DataError("the rows it was fitted on are missing")
