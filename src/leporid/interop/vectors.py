"""`ModelVectors`, and `refreshed`: the same in the coordinates of an earlier export."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes

from leporid.data import VECTOR_READERS, IdMap, Sequences
from leporid.errors import ConfigError, DataError
from leporid.models import Recommender, find_model
from leporid.ranking import chunk_rows, masked_top_k

MOVED = 0.1
"""Share of the side's median length by which a vector may move unwritten: `stable_vectors`."""
Positions = NDArray[np.int32]
"""int32[m, n]: rows of the item vectors, best first; -1 fills short lists."""


@dataclass(frozen=True)
class ModelVectors:
    """User and item vectors whose products rank the items a user has not seen.

    A bias of items is the last entry of their vectors; users have a 1 there.
    """

    users: NDArray[np.float32]
    """float32[n_users, width]"""
    items: NDArray[np.float32]
    """float32[n_items, width]"""
    user_ids: IdMap = field(repr=False)
    item_ids: IdMap = field(repr=False)
    seen: Sequences = field(repr=False)
    """The items each user has, in time order: the model recommends none of them."""

    @classmethod
    def of(cls, model: Recommender) -> Self:
        """The vectors of a fitted model; `VectorsUnsupportedError` where it has none."""
        everyone = np.arange(len(model.users), dtype=np.int32)
        users, seen = (
            model.user_vectors(model.known.sequences(), everyone),
            model.known.hidden(),
        )
        return cls(users, model.item_vectors(), model.users, model.items, seen)

    @classmethod
    def read(cls, folder: Path) -> Self:
        read = VECTOR_READERS["parquet"]
        (user_ids, users), (item_ids, items) = (
            read(folder / f"{side}.parquet") for side in ("users", "items")
        )
        seen = pq.read_table(folder / "users.parquet", columns=["seen"])[
            "seen"
        ].combine_chunks()
        known = IdMap(item_ids, "item")
        indptr = np.concatenate([[0], np.cumsum(pc.list_value_length(seen))])
        sequences = Sequences(indptr, known.encode(seen.flatten()))
        return cls(users, items, IdMap(user_ids, "user"), known, sequences)

    def sides(self) -> list[tuple[str, NDArray[np.float32], IdMap]]:
        """Name, vectors and ids of the users and of the items."""
        return [
            ("users", self.users, self.user_ids),
            ("items", self.items, self.item_ids),
        ]

    @property
    def width(self) -> int:
        return int(self.items.shape[1])

    def top_k(
        self, queries: NDArray[np.float32], hidden: Sequences, n: int
    ) -> Positions:
        """The best `n` items for user vectors, by the products themselves."""
        lists = [np.empty((0, n), np.int32)]
        step = chunk_rows(len(self.items))
        for first in range(0, len(queries), step):
            products = queries[first : first + step] @ self.items.T
            rows = np.arange(first, first + len(products))
            lists.append(masked_top_k(products, n, seen=hidden.take(rows)).items)
        return np.concatenate(lists)


@dataclass(frozen=True)
class Changes:
    """What a store that holds an earlier export lacks, by side: "users" and "items"."""

    written: dict[str, NDArray[np.bool_]]
    """bool[n]: the rows that are new, or have changed."""
    gone: dict[str, pa.Array]
    """External ids of those that are no more."""
    earlier: Path

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows written and deleted, as `export.json` has them."""
        return {
            "written": {side: int(rows.sum()) for side, rows in self.written.items()},
            "deleted": {side: len(ids) for side, ids in self.gone.items()},
        }


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
    for (side, new, ids), (_, stored, before) in zip(
        vectors.sides(), old.sides(), strict=True
    ):
        rows[side] = row = before.encode(ids.ids)
        if ids.ids.type != before.ids.type or (row < 0).all():
            raise DataError(
                f"{earlier} has other {side} than the model: export it whole"
            )
        gone[side] = before.ids.filter(pa.array(ids.encode(before.ids) < 0))
        pairs.append((new[row >= 0], stored[row[row >= 0]]))
    rotation, _ = orthogonal_procrustes(*map(np.concatenate, zip(*pairs, strict=True)))
    written, held = {"users": _seen_changed(vectors, old)}, {}
    for (side, new, _), (_, stored, _) in zip(
        vectors.sides(), old.sides(), strict=True
    ):
        usual = np.median(np.linalg.norm(stored, axis=1))
        new, stored = new @ rotation, stored[rows[side]]
        # One unit for all: a share of its own length would write the shortest, which no list has.
        far = np.linalg.norm(new - stored, axis=1) > moved * usual
        written[side] = far | (rows[side] < 0) | written.get(side, False)
        held[side] = np.where(written[side][:, None], new, stored)
    state = replace(vectors, users=held["users"], items=held["items"])
    return state, Changes(written, gone, Path(earlier))


def _earlier(path: Path) -> ModelVectors:
    if (model := find_model(path)) is not None:
        return ModelVectors.of(Recommender.load(model))
    if not (path / "users.parquet").is_file():
        raise ConfigError(
            f"{path} holds no earlier export: name the folder of one, or write it first by "
            f"`leporid export OLD_RUN --to parquet`"
        )
    return ModelVectors.read(path)


def _seen_changed(vectors: ModelVectors, old: ModelVectors) -> NDArray[np.bool_]:
    """bool[n_users]: whether a user has other items than before."""
    width = len(vectors.item_ids) + 1  # the first is for all items that are gone

    def pairs(of: ModelVectors) -> NDArray[np.int64]:
        user = vectors.user_ids.encode(of.user_ids.ids).repeat(np.diff(of.seen.indptr))
        item = vectors.item_ids.encode(of.item_ids.ids)[of.seen.items] + 1
        return (user.astype(np.int64) * width + item)[user >= 0]

    changed = np.zeros(len(vectors.users), np.bool_)
    changed[np.setxor1d(pairs(vectors), pairs(old)) // width] = True
    return changed
