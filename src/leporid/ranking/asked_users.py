"""`AskedUsers`: whom somebody wants lists for, and which of them a model knows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.data import GivenIds, IdMap, id_columns, is_frame
from leporid.errors import DataError, UnknownIdError, warn
from leporid.ranking.top_k import Indices, Ints, Mask

Unknown: TypeAlias = Literal["error", "skip", "popular"]
"""What becomes of a user, or of a history, of whom a model knows nothing."""
_GETS = {"skip": "get no list", "popular": "get the most popular items"}


@dataclass(frozen=True, eq=False)
class AskedUsers:
    """Users, or histories, in the order of their lists."""

    index: Indices
    """int32[m]: rows of the model's users; -1 for a user whom it does not know."""
    keys: NDArray[np.int64]
    """int64[m]: equal for the same user. A known user has their index."""
    strangers: dict[str, int]
    """The keys of users whom the model does not know, by their ids as text."""
    given: Sequence[object] | pa.Array
    """[m]: the ids as they were given; those of a frame are an array. Histories have none."""
    unknown: Unknown = "error"
    """What becomes of those whom the model does not know."""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def is_known(self) -> Mask:
        """bool[m]: whether the model knows them."""
        return self.index >= 0

    @property
    def skips_items(self) -> bool:
        """Whether unknown items of filters are left out rather than refused."""
        return self.unknown != "error"

    @classmethod
    def everybody(cls, users: IdMap) -> Self:
        """Return all users of a model."""
        index = np.arange(len(users), dtype=np.int32)
        return cls(index, index.astype(np.int64), {}, users.ids)

    @classmethod
    def by_index(cls, index: Indices) -> Self:
        """Return users by their rows; they have no names."""
        return cls(index, index.astype(np.int64), {}, [])

    @classmethod
    def of_histories(cls, is_known: Mask, unknown: Unknown) -> Self:
        """Return one nameless user for each history, known if the model knows an item of it."""
        index = np.where(is_known, 0, -1).astype(np.int32)
        return cls(index, np.arange(len(index)), {}, [], unknown)

    @classmethod
    def of_list(
        cls,
        users: IdMap,
        externals: object,
        unknown: Unknown,
    ) -> Self:
        """Find users by a list of ids."""
        users.check_ids(externals)
        assert isinstance(externals, Iterable)
        given = list(externals)
        if unknown == "error":
            index = users.indices(given)
        else:
            index = np.fromiter((_find(users, user) for user in given), np.int32)
        keys = index.astype(np.int64)
        strangers: dict[str, int] = {}
        for row in np.flatnonzero(index < 0):
            name = str(given[row])
            keys[row] = strangers.setdefault(name, len(users) + len(strangers))
        return cls(index, keys, strangers, given, unknown)

    @classmethod
    def of_frame(
        cls,
        users: IdMap,
        frame: object,
        unknown: Unknown,
    ) -> Self:
        """Find users by the column of users of a frame, or by its only column."""
        column = id_columns(frame, {"user": None}, "the frame")["user"]
        index = column.indices(users)
        if unknown == "error":
            refuse_unknown(users, column, index)
        first_key = len(users) + 1  # one less for a missing id
        return cls(
            index,
            np.where(index >= 0, index, first_key + column.codes).astype(np.int64),
            {
                str(name): first_key + code
                for code, name in enumerate(column.distinct.to_pylist())
            },
            column.values,
            unknown,
        )

    def take(self, rows: Ints) -> Self:
        """Return some of the users."""
        given = self.given
        if isinstance(given, pa.Array | pa.ChunkedArray):
            given = given.take(pa.array(rows))
        elif given:
            given = [given[row] for row in rows]
        return type(self)(
            self.index[rows], self.keys[rows], self.strangers, given, self.unknown
        )

    def distinct(self) -> Self:
        """Return each user once, in the order of their first appearance."""
        _, first = np.unique(self.keys, return_index=True)
        return self if len(first) == len(self) else self.take(np.sort(first))

    def rows_of(self, users: IdMap, column: GivenIds) -> NDArray[np.int64]:
        """Return int64[rows]: the key of the user of each row of a column, -1 for others."""
        keys = users.encode(column.distinct).astype(np.int64)
        for code in np.flatnonzero(keys < 0):
            keys[code] = self.strangers.get(str(column.distinct[int(code)].as_py()), -1)
        return np.append(keys, -1)[column.codes]

    def names(self, users: IdMap) -> pa.Array:
        """Return the ids as lists show them: those of a frame as they are, others as in the log.

        Where an unknown user has no such id, a word where all others are numbers, all are text.
        """
        if isinstance(self.given, pa.Array | pa.ChunkedArray):
            return self.given
        known = users.ids.take(pa.array(np.maximum(self.index, 0)))
        if self.is_known.all():
            return known
        names = [
            users.external(index) if index >= 0 else given
            for index, given in zip(self.index, self.given, strict=True)
        ]
        if users.is_integer and all(isinstance(name, int) for name in names):
            return pa.array(names, pa.int64())
        return pa.array([str(name) for name in names])

    def warn_of_unknown(self, what: str, stacklevel: int) -> None:
        """Count those of whom the model knows nothing; `what` says who and why."""
        strangers = np.flatnonzero(~self.is_known)
        if not len(strangers):
            return
        first = f"number {strangers[0]}"
        if len(self.given):
            first = repr(_plain(self.given[int(strangers[0])]))
        warn(
            f"{len(strangers):,} of {len(self):,} {what} and {_GETS[self.unknown]}, the first is "
            f"{first}",
            stacklevel + 1,
        )


def asked_users(
    users: IdMap,
    externals: object,
    unknown: Unknown,
    model: str,
) -> AskedUsers:
    """Find users by a list of ids or a frame (None: all); unknown ones are counted or refused."""
    if externals is None:
        return AskedUsers.everybody(users)
    asked = (
        AskedUsers.of_frame(users, externals, unknown)
        if is_frame(externals)
        else AskedUsers.of_list(users, externals, unknown)
    )
    asked.warn_of_unknown(f"users are unknown to {model}", 4)
    return asked


def refuse_unknown(ids: IdMap, column: GivenIds, index: Indices) -> None:
    """Raise an error for the first id of a column that is not in the map."""
    missing = np.flatnonzero(index < 0)
    if not len(missing):
        return
    row = int(missing[0])
    if column.codes[row] < 0:
        raise DataError(f"row {row} of the frame has no {ids.kind} id")
    ids.index(column.distinct[int(column.codes[row])].as_py())


def _find(users: IdMap, external: object) -> int:
    try:
        return users.index(external)
    except UnknownIdError:
        return -1


def _plain(value: object) -> object:
    """Return an Arrow scalar as Python has it."""
    return value.as_py() if isinstance(value, pa.Scalar) else value
