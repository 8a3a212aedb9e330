"""The vectors of a trained model, read from its folder without building the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import recovered
from leporid.data import IdMap
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.initializers import InitialEmbeddings
from leporid.models.shared.saved import Arrays, read_saved
from leporid.spectral import Embedding


def find_model(path: str | Path, *, validated: bool = False) -> Path | None:
    """The folder with the saved model in a run or model folder; None where there is none.

    A run with a final model has two: the one to deploy, and with `validated` the one to evaluate.
    """
    path = recovered(path)
    places = [path, path / "validated", path / "model"] if validated else [path, path / "model"]
    return next((p for p in places if (recovered(p) / "model.json").is_file()), None)


def read_trained(
    path: str | Path, users: str | None = None, items: str | None = None
) -> InitialEmbeddings:
    """The user and item tables of a saved model with the ids of their rows.

    A model with several tables per side (NCF has two) needs their names.
    """
    path = Path(path)
    about, learnt, known, _ = read_saved(path, mapped=True)
    provenance = {"model": about["model"], "config": about.get("config", {}), "trained": True}
    first, second = (
        Embedding(_table(learnt, side, name, ids, path), None, provenance)
        for side, name, ids in (("users", users, known.users), ("items", items, known.items))
    )
    if first.dim != second.dim:
        raise DataError(f"the tables of {path} have {first.dim} and {second.dim} columns")
    return InitialEmbeddings(first, second, known.users, known.items)


def _table(
    arrays: Arrays, side: str, name: str | None, ids: IdMap, path: Path
) -> NDArray[np.float32]:
    fitting = {
        key.removesuffix(".weight"): value
        for key, value in arrays.items()
        if value.ndim == 2
        and value.shape[0] == len(ids)
        and np.issubdtype(value.dtype, np.floating)
    }
    wanted = name or (side if side in fitting else None)
    if wanted is None:
        if len(fitting) != 1:
            held = f"several: {', '.join(fitting)}; name one" if fitting else "none"
            raise ConfigError(f"{path} must have one table of {side}, it has {held}")
        wanted = next(iter(fitting))
    if wanted.removesuffix(".weight") not in fitting:
        raise UnknownNameError(f"{side} table", wanted, fitting)
    table = fitting[wanted.removesuffix(".weight")]
    return np.array(table, dtype=np.float32)
