"""The vectors of a trained model, read from its folder without building the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import map_arrays, read_json
from leporid.data import IdMap
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.initializers import InitialEmbeddings
from leporid.spectral import Embedding

_PREFIX = "model."


def find_model(path: str | Path, *, validated: bool = False) -> Path | None:
    """The folder with the saved model in a run or model folder; None where there is none.

    A run with a final model has two: the one to deploy, and with `validated` the one to evaluate.
    """
    path = Path(path)
    places = [path, path / "validated", path / "model"] if validated else [path, path / "model"]
    return next((p for p in places if (p / "model.json").is_file()), None)


def read_trained(
    path: str | Path, users: str | None = None, items: str | None = None
) -> InitialEmbeddings:
    """The user and item tables of a saved model with the ids of their rows.

    A model with several tables per side (NCF has two) needs their names.
    """
    path = Path(path)
    meta = read_json(path / "model.json")
    arrays, _ = map_arrays(path / "weights.safetensors")
    provenance = {"model": meta.get("model"), "config": meta.get("config", {})}
    sides, maps = [], []
    for side, name in (("users", users), ("items", items)):
        prefix = f"{side}."
        stored = {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}
        ids = IdMap.from_arrays(stored, side[:-1])
        vectors = _table(arrays, side, name, ids, path)
        sides.append(Embedding(vectors, None, {**provenance, "trained": True}))
        maps.append(ids)
    if sides[0].dim != sides[1].dim:
        raise DataError(f"the tables of {path} have {sides[0].dim} and {sides[1].dim} columns")
    return InitialEmbeddings(sides[0], sides[1], maps[0], maps[1])


def _table(
    arrays: dict[str, NDArray[Any]], side: str, name: str | None, ids: IdMap, path: Path
) -> NDArray[np.float32]:
    fitting = {
        key.removeprefix(_PREFIX).removesuffix(".weight"): value
        for key, value in arrays.items()
        if key.startswith(_PREFIX)
        and value.ndim == 2
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
