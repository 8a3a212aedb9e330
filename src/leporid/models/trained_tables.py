"""`read_trained`: the user and item tables of a saved model, as initial embeddings."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.foundation import JsonValue
from leporid.models.fitted_arrays import Arrays
from leporid.models.saved_models import read_saved


def read_trained(
    path: str | Path,
    users: str | None = None,
    items: str | None = None,
) -> InitialEmbeddings:
    """Read the user and item tables of a saved model.

    Parameters
    ----------
    users, items : names of the tables, for a model that has several for a side (NCF)
    """
    path = Path(path)
    saved = read_saved(path, mapped=True)
    known = saved.known
    provenance: dict[str, JsonValue] = {
        "model": saved.name,
        "config": saved.config,
        "trained": True,
    }
    user_table = _table(saved.learnt, "users", users, known.users, path)
    item_table = _table(saved.learnt, "items", items, known.items, path)
    user_embedding = Embedding(user_table, None, provenance)
    item_embedding = Embedding(item_table, None, provenance)
    if user_embedding.dim != item_embedding.dim:
        raise DataError(
            f"the tables of {path} have {user_embedding.dim} and {item_embedding.dim} columns"
        )
    return InitialEmbeddings(user_embedding, item_embedding, known.users, known.items)


def _table(
    arrays: Arrays,
    side: str,
    name: str | None,
    ids: IdMap,
    path: Path,
) -> NDArray[np.float32]:
    """Return the table of one side by its name, or the only one."""
    tables = {
        key.removesuffix(".weight"): array
        for key, array in arrays.items()
        if array.ndim == 2 and len(array) == len(ids) and array.dtype.kind == "f"
    }
    chosen = (name or side).removesuffix(".weight")
    if name is None and len(tables) == 1:
        [chosen] = tables
    if chosen not in tables:
        if name is not None:
            raise UnknownNameError(f"{side} table", name, tables)
        held = f"several: {', '.join(tables)}; name one" if tables else "none"
        raise ConfigError(f"{path} must have one table of {side}, it has {held}")
    return np.array(tables[chosen], dtype=np.float32)
