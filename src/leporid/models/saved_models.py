"""The folder of a saved model: how it is written, read and found.

`weights.safetensors` has the learnt arrays, the ids and the interactions of the fit; `model.json`
the name and the settings; `manifest.json` says that the two belong together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap, Interactions
from leporid.errors import DataError
from leporid.foundation import (
    JsonValue,
    atomic_folder,
    check_manifest,
    map_arrays,
    read_arrays,
    read_object,
    recovered,
    write_arrays,
    write_json,
    write_manifest,
)
from leporid.models.fitted_arrays import Arrays, arrays_under

_FORMAT = 4
_WEIGHTS_FILE = "weights.safetensors"
_MODEL_FILE = "model.json"
_CHECKPOINT_FOLDER = "checkpoint"
"""Folder that `leporid train -o` makes before there is a model."""
_SEARCH_FOLDER = "search"
"""Folder that `leporid choose -o` makes before there is a model."""

LARGEST_WEIGHT = 1e15
"""No model learns a larger weight; the product of two of them is still a float32."""


@dataclass(frozen=True)
class SavedModel:
    """What the folder of a model holds."""

    name: str
    """Name of the model in the registry."""
    config: Mapping[str, JsonValue]
    """Settings of the model."""
    fitting: Mapping[str, JsonValue]
    """How the model was fitted: the values of a `Fitting`."""
    learnt: Arrays
    """Everything that the model has learnt, by key."""
    known: Interactions
    """Interactions of the training part and the validation part."""
    train: Interactions
    """Interactions of the training part."""


def write_saved(path: str | Path, model: SavedModel) -> Path:
    """Write a model as the folder `path`, which is replaced as a whole."""
    train_lengths = np.diff(model.train.sequences().indptr)
    arrays = {f"model.{key}": array for key, array in model.learnt.items()}
    arrays |= model.known.users.to_arrays("users.")
    arrays |= model.known.items.to_arrays("items.")
    arrays |= model.known.to_stored("known")
    arrays["known.train_lengths"] = train_lengths.astype(np.int32)
    description = {
        "format": _FORMAT,
        "model": model.name,
        "config": model.config,
        "fitting": model.fitting,
    }
    with atomic_folder(path) as folder:
        write_arrays(folder / _WEIGHTS_FILE, arrays)
        write_json(folder / _MODEL_FILE, description)
        write_manifest(folder, "model", _MODEL_FILE, _WEIGHTS_FILE)
    return Path(path)


def read_saved(path: str | Path, *, mapped: bool = False) -> SavedModel:
    """Read what `write_saved` wrote; a folder that is damaged or mixed up is a `DataError`."""
    path = recovered(path)
    description = read_object(path / _MODEL_FILE)
    name = description.get("model")
    config = description.get("config", {})
    fitting = description.get("fitting", {})
    is_described = isinstance(config, dict) and isinstance(fitting, dict)
    if not isinstance(name, str) or not is_described:
        raise DataError(f"{path / _MODEL_FILE} does not describe a model")
    if description.get("format") != _FORMAT:
        raise DataError(
            f"{path} was saved in format {description.get('format')}, this version reads format "
            f"{_FORMAT}: train the model again and save it"
        )
    check_manifest(path, "model", _MODEL_FILE, _WEIGHTS_FILE)
    read = map_arrays if mapped else read_arrays
    arrays, _ = read(path / _WEIGHTS_FILE)
    try:
        users = IdMap.from_arrays(arrays, "user", "users.")
        items = IdMap.from_arrays(arrays, "item", "items.")
        known = Interactions.from_stored(arrays, "known", users, items)
        learnt = arrays_under(arrays, "model.")
        check_weights(learnt)
        train = training_part(known, arrays.get("known.train_lengths"))
    except DataError as error:
        raise DataError(
            f"{path / _WEIGHTS_FILE} cannot be used: {error}; train it again"
        ) from None
    return SavedModel(name, config, fitting, learnt, known, train)


def check_weights(arrays: Arrays) -> None:
    """Refuse weights that are not finite, or so large that their products overflow."""
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        # A NaN anywhere is the minimum and the maximum.
        least = float(array.min())
        largest = float(array.max())
        if not np.isfinite([least, largest]).all():
            raise DataError(f"{name} has NaN or infinite entries")
        if max(-least, largest) > LARGEST_WEIGHT:
            raise DataError(
                f"{name} has entries beyond {LARGEST_WEIGHT:g}, whose products overflow"
            )


def training_part(
    known: Interactions,
    lengths: NDArray[np.int32] | None,
) -> Interactions:
    """Return the first interactions of each user; those behind them are for validation."""
    n_users = known.n_users
    if lengths is None or lengths.dtype != np.int32 or lengths.shape != (n_users,):
        raise DataError("it does not say which interactions were for training")
    indptr = known.sequences().indptr
    if (lengths < 0).any() or (lengths > np.diff(indptr)).any():
        raise DataError("it has more interactions for training than there are")
    position = np.arange(len(known)) - indptr[:-1][known.user]
    return known.select(position < lengths[known.user])


def find_model(path: str | Path, *, validated: bool = False) -> Path | None:
    """Return the saved model in a run or model folder, or None.

    Parameters
    ----------
    validated : whether to return the model to evaluate instead of the one to deploy
    """
    path = recovered(path)
    folders = [path, path / "model"]
    if validated:
        folders = [path, path / "validated", path / "model"]
    for folder in folders:
        if (recovered(folder) / _MODEL_FILE).is_file():
            return folder
    return None


def model_folder(path: str | Path, *, validated: bool = False) -> Path:
    """Return what `find_model` finds; if there is none, a `DataError` says why and what to do."""
    folder = find_model(path, validated=validated)
    if folder is not None:
        return folder
    path = Path(path)
    if not path.exists():
        raise DataError(f"no such folder: {path}; give one that holds a trained model")
    if not path.is_dir():
        raise DataError(
            f"{path} is a file: give the folder that holds the trained model"
        )
    if (path / _CHECKPOINT_FOLDER).is_dir():
        raise DataError(
            f"the training in {path} has not come to a model: if it was interrupted, run the "
            "same `leporid train` command again with --resume"
        )
    if (path / _SEARCH_FOLDER).is_dir():
        raise DataError(
            f"the search in {path} has not come to a model: if it was interrupted, run the "
            "same `leporid choose` command again, and it goes on"
        )
    raise DataError(
        f"{path} holds no trained model: give a folder that `leporid train -o`, "
        "`leporid choose -o` or `model.save` wrote"
    )
