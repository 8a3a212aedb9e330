"""`ModelVectors`, and `refreshed`, which keeps the coordinates of an earlier export."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes

from leporid.data import VECTOR_READERS, IdMap, Sequences
from leporid.errors import ConfigError, DataError
from leporid.foundation import chunk_rows
from leporid.models import Recommender, find_model
from leporid.ranking import masked_top_k

MOVED = 0.1
"""A vector that moves by less than this share of its side's median length is not written."""
Vectors = NDArray[np.float32]
"""float32[n, width]: one vector per row."""
Positions = NDArray[np.int32]
"""int32[m, n]: rows of the item vectors, best first; -1 fills short lists."""


@dataclass(frozen=True)
class ModelVectors:
    """User and item vectors whose products rank the items a user has not seen.

    A bias of items is the last entry of their vectors; users have a 1 there.
    """

    users: Vectors
    """float32[n_users, width]"""
    items: Vectors
    """float32[n_items, width]"""
    user_ids: IdMap = field(repr=False)
    item_ids: IdMap = field(repr=False)
    seen: Sequences = field(repr=False)
    """The items each user has, in time order: the model recommends none of them."""

    @classmethod
    def of(cls, model: Recommender) -> Self:
        """Take the vectors of a fitted model.

        A model that has none raises `VectorsUnsupportedError`.
        """
        everyone = np.arange(len(model.users), dtype=np.int32)
        return cls(
            users=model.user_vectors(model.known.sequences(), everyone),
            items=model.item_vectors(),
            user_ids=model.users,
            item_ids=model.items,
            seen=model.known.excluded_items(),
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the vectors from the parquet files of an earlier export."""
        read_vectors = VECTOR_READERS["parquet"]
        user_ids, users = read_vectors(folder / "users.parquet")
        item_ids, items = read_vectors(folder / "items.parquet")
        known_items = IdMap(item_ids, "item")

        seen_column = pq.read_table(folder / "users.parquet", columns=["seen"])["seen"]
        seen = seen_column.combine_chunks()
        indptr = np.concatenate([[0], np.cumsum(pc.list_value_length(seen))])
        return cls(
            users=users,
            items=items,
            user_ids=IdMap(user_ids, "user"),
            item_ids=known_items,
            seen=Sequences(indptr, known_items.encode(seen.flatten())),
        )

    def sides(self) -> list[tuple[str, Vectors, IdMap]]:
        """Return name, vectors and ids of the users and of the items."""
        return [
            ("users", self.users, self.user_ids),
            ("items", self.items, self.item_ids),
        ]

    @property
    def width(self) -> int:
        """Number of entries of a vector."""
        return int(self.items.shape[1])

    def top_k(self, queries: Vectors, excluded: Sequences, n: int) -> Positions:
        """Return the best `n` items for user vectors, by the products themselves."""
        lists = [np.empty((0, n), np.int32)]
        step = chunk_rows(len(self.items))
        for first in range(0, len(queries), step):
            products = queries[first : first + step] @ self.items.T
            rows = np.arange(first, first + len(products))
            lists.append(masked_top_k(products, n, seen=excluded.take(rows)).items)
        return np.concatenate(lists)


@dataclass(frozen=True)
class Changes:
    """What a store that holds an earlier export lacks, by side: "users" and "items"."""

    written: dict[str, NDArray[np.bool_]]
    """bool[n] by side: the rows that are new, or have changed."""
    gone: dict[str, pa.Array]
    """External ids by side that the earlier export has and the model has not."""
    earlier: Path
    """Folder of the earlier export."""

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the rows written and deleted, as `export.json` has them."""
        return {
            "written": {side: int(rows.sum()) for side, rows in self.written.items()},
            "deleted": {side: len(ids) for side, ids in self.gone.items()},
        }


class _Matched(NamedTuple):
    """One side of a model beside the same side of an earlier export."""

    side: str
    """Name of the side, "users" or "items"."""
    new: Vectors
    """Vectors of the model."""
    stored: Vectors
    """Vectors of the earlier export."""
    stored_rows: NDArray[np.int32]
    """int32[n]: the row of each new vector in `stored`; -1 where the id is new."""

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """bool[n]: whether the earlier export has the id."""
        return self.stored_rows >= 0


def refreshed(
    vectors: ModelVectors,
    earlier: str | Path,
    moved: float = MOVED,
) -> tuple[ModelVectors, Changes]:
    """Return what a store with an `earlier` export holds after the changes, and the changes.

    One rotation of users and items leaves all products as they are. Rows that are not written keep
    their earlier vectors, which they are compared with: later refreshes do not add up.
    """
    if not moved >= 0:
        raise ConfigError(f"moved must be 0 or above, not {moved!r}")
    old = _read_earlier(Path(earlier))
    if old.width != vectors.width:
        raise DataError(
            f"{earlier} has {old.width} columns and the model {vectors.width}: export it whole"
        )

    sides: list[_Matched] = []
    gone: dict[str, pa.Array] = {}
    for (side, new, ids), (_, stored, stored_ids) in zip(
        vectors.sides(), old.sides(), strict=True
    ):
        stored_rows = stored_ids.encode(ids.ids)
        if ids.ids.type != stored_ids.ids.type or (stored_rows < 0).all():
            raise DataError(
                f"{earlier} has other {side} than the model: export it whole"
            )
        sides.append(_Matched(side, new, stored, stored_rows))
        gone[side] = stored_ids.ids.filter(pa.array(ids.encode(stored_ids.ids) < 0))

    rotation, _ = orthogonal_procrustes(
        np.concatenate([side.new[side.is_known] for side in sides]),
        np.concatenate(
            [side.stored[side.stored_rows[side.is_known]] for side in sides]
        ),
    )
    written: dict[str, NDArray[np.bool_]] = {}
    held: dict[str, Vectors] = {}
    for matched in sides:
        rotated = matched.new @ rotation
        before = matched.stored[matched.stored_rows]
        # One unit for all: a share of its own length would write the shortest, which no list has.
        unit = np.median(np.linalg.norm(matched.stored, axis=1))
        is_far = np.linalg.norm(rotated - before, axis=1) > moved * unit
        is_written = is_far | ~matched.is_known
        if matched.side == "users":
            is_written |= _seen_changed(vectors, old)
        written[matched.side] = is_written
        held[matched.side] = np.where(is_written[:, None], rotated, before)

    state = replace(vectors, users=held["users"], items=held["items"])
    return state, Changes(written, gone, Path(earlier))


def _read_earlier(path: Path) -> ModelVectors:
    """Read the vectors of an exported folder, or of the model that was exported."""
    model = find_model(path)
    if model is not None:
        return ModelVectors.of(Recommender.load(model))
    if not (path / "users.parquet").is_file():
        raise ConfigError(
            f"{path} holds no earlier export: name the folder of one, or write it first by "
            f"`leporid export OLD_RUN --to parquet`"
        )
    return ModelVectors.read(path)


def _seen_changed(vectors: ModelVectors, old: ModelVectors) -> NDArray[np.bool_]:
    """Return, as bool[n_users], whether a user has other items than before."""
    width = len(vectors.item_ids) + 1  # column 0 is for all items that are gone

    def pairs(owner: ModelVectors) -> NDArray[np.int64]:
        """Number the (user, item) pairs of `owner` by the rows of the new vectors."""
        events_per_user = np.diff(owner.seen.indptr)
        user = vectors.user_ids.encode(owner.user_ids.ids).repeat(events_per_user)
        item = vectors.item_ids.encode(owner.item_ids.ids)[owner.seen.items] + 1
        return (user.astype(np.int64) * width + item)[user >= 0]

    changed = np.zeros(len(vectors.users), np.bool_)
    changed[np.setxor1d(pairs(vectors), pairs(old)) // width] = True
    return changed
