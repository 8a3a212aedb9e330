"""The folder in which a fitted `Leporid` or `LaplacianEigenmaps` is saved."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

import leporid.artifacts as artifacts
from leporid.errors import DataError

_ARRAYS = "spectral.safetensors"
_DESCRIPTION = "spectral.json"
_FORMAT = 2


class SavedFit(TypedDict):
    """What `spectral.json` says of a fitted estimator."""

    estimator: str
    """Name of the class."""
    parameters: dict[str, Any]
    """Arguments of its constructor."""
    n_features: int
    n_iter: int
    k_used: int
    """Neighbours per row in the graph."""


def write_fit(
    path: str | Path,
    description: SavedFit,
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write the two files of a fitted estimator into the directory `path`."""
    with artifacts.atomic_folder(path) as folder:
        artifacts.write_arrays(folder / _ARRAYS, arrays)
        artifacts.write_json(folder / _DESCRIPTION, {**description, "format": _FORMAT})
        artifacts.write_manifest(folder, "estimator", _DESCRIPTION, _ARRAYS)


def read_fit(path: str | Path, estimator: str) -> tuple[SavedFit, Mapping[str, NDArray[Any]]]:
    """Read the two files of a fitted `estimator`; a damaged folder is a `DataError`."""
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
        saved = _checked_description(description)
        _check_arrays(arrays, saved["n_features"])
    except DataError as error:
        raise DataError(f"{path} cannot be used: {error}; fit it again") from None
