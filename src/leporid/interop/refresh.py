"""`refreshed`: vectors in the coordinates of an earlier export, and the rows that changed since."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError, DataError
from leporid.interop.vectors import Changes, ModelVectors
from leporid.models import Recommender, find_model
from leporid.spectral import procrustes

MOVED = 0.05
"""Share of its length by which a vector may move before it is written: `stable_vectors`."""


def refreshed(
    vectors: ModelVectors, earlier: str | Path, moved: float = MOVED
) -> tuple[ModelVectors, Changes]:
    """What a store that holds an `earlier` export holds after the changes, and these.

    One rotation of users and items leaves all products as they are. Rows that are not written keep
    their earlier vectors, which they are compared with: later refreshes do not add up.
    """
    if not moved >= 0:
        raise ConfigError(f"moved must be 0 or above, not {moved!r}")
    old = _earlier(Path(earlier))
    if old.width != vectors.width:
        raise DataError(
            f"{earlier} has {old.width} columns and the model {vectors.width}: export it whole"
        )
    rows, gone, pairs = {}, {}, []
    for (side, new, ids), (_, stored, before) in zip(vectors.sides(), old.sides(), strict=True):
        rows[side] = row = before.encode(ids.ids)
        if ids.ids.type != before.ids.type or (row < 0).all():
            raise DataError(f"{earlier} has other {side} than the model: export it whole")
        gone[side] = before.ids.filter(pa.array(ids.encode(before.ids) < 0))
        pairs.append((new[row >= 0], stored[row[row >= 0]]))
    rotation = procrustes(*map(np.concatenate, zip(*pairs, strict=True))).astype(np.float32)
    written, held = {"users": _seen_changed(vectors, old, rows["users"])}, {}
    for (side, new, _), (_, stored, _) in zip(vectors.sides(), old.sides(), strict=True):
        new, stored = new @ rotation, stored[rows[side]]
        far = np.linalg.norm(new - stored, axis=1) > moved * np.linalg.norm(stored, axis=1)
        written[side] = far | (rows[side] < 0) | written.get(side, False)
        held[side] = np.where(written[side][:, None], new, stored)
    return replace(vectors, **held), Changes(written, gone, Path(earlier))


def _earlier(path: Path) -> ModelVectors:
    if (model := find_model(path)) is not None:
        return ModelVectors.of(Recommender.load(model))
    if not (path / "users.parquet").is_file():
        raise ConfigError(
            f"{path} holds no earlier export: name the folder of one, or write it first by "
            f"`leporid export OLD_RUN --to parquet`"
        )
    return ModelVectors.read(path)


def _seen_changed(
    vectors: ModelVectors, old: ModelVectors, rows: NDArray[Any]
) -> NDArray[np.bool_]:
    """bool[n_users]: whether a user has other items than before."""
    n_items = len(vectors.item_ids)
    columns = vectors.item_ids.encode(old.item_ids.ids)
    columns = np.where(columns < 0, n_items, columns)  # one column for all that are gone

    def counts(indptr: NDArray[Any], items: NDArray[Any]) -> sparse.csr_array:
        shape = len(indptr) - 1, n_items + 1
        return sparse.csr_array((np.ones(len(items), np.float32), items, indptr), shape=shape)

    before = counts(old.seen.indptr, columns[old.seen.items])[rows]
    now = counts(vectors.seen.indptr, vectors.seen.items)
    return np.asarray((before != now).sum(axis=1)) > 0
