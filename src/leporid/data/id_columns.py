"""Ids in the columns of a frame, as they were given and as indices."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from leporid.data.arrays import AnyArray, Int32Array
from leporid.data.codes import coded
from leporid.data.columns import find_column
from leporid.data.frames import Frame, Values, converted, frame_columns
from leporid.data.id_map import IdMap, uuids_as_text
from leporid.errors import DataError


class GivenIds(NamedTuple):
    """A column of ids that somebody gave."""

    values: pa.Array
    """The column as it was given; dictionaries are decoded, and a UUID is its usual text."""
    codes: Int32Array
    """int32[rows]: positions in `distinct`; -1 where an id is missing."""
    distinct: pa.Array
    """Integers or text; `7.0` is 7, and white space around text is gone."""

    @classmethod
    def of(cls, values: Values, kind: str, origin: str) -> Self:
        """Read a column of the ids of users or items (`kind`); `origin` is for errors."""
        column = converted(values, f"{origin}, the column of {kind}s")
        if not isinstance(column, pa.ChunkedArray):
            column = pa.chunked_array([column])
        codes, distinct = coded(column, kind, origin)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return cls(uuids_as_text(column.combine_chunks()), codes, distinct)

    def indices(self, ids: IdMap) -> Int32Array:
        """Return int32[rows]: indices in a map, -1 where an id is unknown or missing."""
        return self.looked_up(ids.encode(self.distinct))

    def looked_up(self, index: AnyArray) -> Int32Array:
        """Return int32[rows]: the entry of each row's id in `index`, -1 for a missing one."""
        padded = np.append(index, -1)
        return padded[self.codes].astype(np.int32)

    def value(self, row: int) -> object:
        """Return the id of a row as Python has it."""
        return self.values[int(row)].as_py()


def id_columns(
    frame: Frame,
    roles: Mapping[str, str | None],
    origin: str,
) -> dict[str, GivenIds]:
    """Read the columns of users and items (the `roles`), found by their usual names.

    A role may name its column. The only column of a frame has the only role.
    """
    columns = frame_columns(frame, "give a frame or columns by name")
    names = list(columns)
    if len(names) == 1 and len(roles) > 1:
        raise DataError(
            f"{origin} has one column, {names[0]!r}: give one of users and one of items"
        )
    given: dict[str, GivenIds] = {}
    for role, name in roles.items():
        position = find_column(names, role, name, origin)
        given[role] = GivenIds.of(columns[names[position]], role, origin)
    return given
