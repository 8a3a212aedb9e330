"""A saved model as a folder, and what must hold before a model is made of it.

`weights.safetensors` has the learnt arrays, the ids and the interactions of the fit; `model.json`
the name and the settings; `manifest.json` says that the two belong together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import (
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
from leporid.data import IdMap, Interactions
from leporid.errors import DataError

_FORMAT, _BEFORE = 3, 2
"""Format 3 has a manifest; 2, of version 0.2, had none; 1 had the ids in parquet files."""
_WEIGHTS, _ABOUT = "weights.safetensors", "model.json"

Arrays = dict[str, NDArray[Any]]


class Saved(NamedTuple):
    """All a folder holds."""

    about: dict[str, Any]
    """`model` (its name), `config` and `fitting`."""
    learnt: Arrays
    """By the names the model gave them, all finite."""
    known: Interactions
    train: Interactions


def write_saved(path: str | Path, saved: Saved) -> Path:
    """Write the folder; it is replaced as a whole."""
    known = saved.known
    arrays = {f"model.{key}": value for key, value in saved.learnt.items()}
    arrays |= {f"users.{key}": value for key, value in known.users.to_arrays().items()}
    arrays |= {f"items.{key}": value for key, value in known.items.to_arrays().items()}
    lengths = np.diff(saved.train.sequences().indptr)
    arrays |= {**known.to_stored("known"), "known.train_lengths": lengths.astype(np.int32)}
    with atomic_folder(path) as folder:
        write_arrays(folder / _WEIGHTS, arrays)
        write_json(folder / _ABOUT, {"format": _FORMAT, **saved.about})
        write_manifest(folder, "model", _ABOUT, _WEIGHTS)
    return Path(path)


def read_saved(path: str | Path, *, mapped: bool = False) -> Saved:
    """Read what `write_saved` wrote; a folder that is damaged or mixed up is a `DataError`.

    With `mapped` the arrays are the pages of the file.
    """
    path = recovered(path)
    about = read_object(path / _ABOUT)
    named = isinstance(about.get("model"), str)
    if not named or not all(isinstance(about.get(k, {}), dict) for k in ("config", "fitting")):
        raise DataError(f"{path / _ABOUT} does not describe a model")
    if about.get("format") not in (_FORMAT, _BEFORE):
        raise DataError(
            f"{path} was saved in format {about.get('format')}, this version reads formats "
            f"{_BEFORE} and {_FORMAT}: train the model again and save it"
        )
    check_manifest(path, "model", _ABOUT, _WEIGHTS, required=about["format"] == _FORMAT)
    arrays, _ = (map_arrays if mapped else read_arrays)(path / _WEIGHTS)
    try:
        users = IdMap.from_arrays(_part(arrays, "users."), "user")
        items = IdMap.from_arrays(_part(arrays, "items."), "item")
        known = Interactions.from_stored(arrays, "known", users, items)
        learnt = _part(arrays, "model.")
        for name, array in learnt.items():
            # A finite sum is the answer; only an overflow needs the closer look.
            if array.dtype.kind == "f" and not np.isfinite(array.sum(dtype=np.float64)):
                raise DataError(f"{name} has NaN or infinite entries")
        return Saved(about, learnt, known, _train_part(known, arrays.get("known.train_lengths")))
    except DataError as error:
        raise DataError(f"{path / _WEIGHTS} cannot be used: {error}; train it again") from None


def _train_part(known: Interactions, lengths: NDArray[Any] | None) -> Interactions:
    """Within a user the training part comes first, then validation."""
    indptr = known.sequences().indptr
    if lengths is None or lengths.dtype != np.int32 or lengths.shape != (known.n_users,):
        raise DataError("it does not say which interactions were for training")
    if (lengths < 0).any() or (lengths > np.diff(indptr)).any():
        raise DataError("it has more interactions for training than there are")
    place = np.arange(len(known)) - indptr[:-1][known.user]
    return known.select(place < lengths[known.user])


def _part(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin with `prefix`, without it."""
    return {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
