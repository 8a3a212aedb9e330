"""The folder of a fitted estimator: written atomically, checked when it is read."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import (
    atomic_folder,
    check_csr,
    check_manifest,
    read_arrays,
    read_object,
    recovered,
    write_arrays,
    write_json,
    write_manifest,
)
from leporid.errors import DataError

_ARRAYS, _ABOUT = "spectral.safetensors", "spectral.json"
_FORMAT = 2


def write_fitted(path: str | Path, about: dict[str, Any], arrays: dict[str, Any]) -> Path:
    """Write the folder, replaced as a whole."""
    with atomic_folder(path) as folder:
        write_arrays(folder / _ARRAYS, arrays)
        write_json(folder / _ABOUT, {"format": _FORMAT, **about})
        write_manifest(folder, "estimator", _ABOUT, _ARRAYS)
    return Path(path)


def read_fitted(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `write_fitted` wrote; a damaged folder is a `DataError`."""
    path = recovered(path)
    about = read_object(path / _ABOUT)
    if (stored := about.get("format")) != _FORMAT:
        raise DataError(
            f"{path} has the format {stored!r}, this release reads {_FORMAT}: fit it again"
        )
    check_manifest(path, "estimator", _ABOUT, _ARRAYS)
    arrays, _ = read_arrays(path / _ARRAYS)
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
        if array.dtype.kind != "f" or array.shape != shape or not np.isfinite(array).all():
            raise DataError(f"{name} is not {list(shape)} finite floats")
    if "rows.indptr" in arrays:
        indptr, indices = arrays["rows.indptr"], arrays.get("rows.indices", nothing)
        check_csr(indptr, indices, indices, about["n_features"], "rows")
        if len(indptr) != fitted + 1:
            raise DataError("the rows are incomplete")
    elif about["n_features"] != n:
        raise DataError("the rows it was fitted on are missing")
