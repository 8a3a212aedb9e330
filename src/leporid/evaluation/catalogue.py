"""`Catalogue`: what rules read of the items of a model, by item index, each column read once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, ItemTable
from leporid.errors import DataError, UnknownNameError

Floats: TypeAlias = NDArray[np.float32]
_RECENCY = "recency"
"""Where the table has no such column: the time of an item's first interaction."""


class Labels(NamedTuple):
    """The values of a column as text; a cell may list several, as in "Drama|War"."""

    names: dict[str, int]
    """Code of each value, in lower case; a whole cell is a value as well."""
    of_items: sparse.csr_array
    """float32[n_items, n_values]: 1 where an item has a value."""


class Catalogue:
    """The columns of an item table, item vectors and first times, by item index.

    Parameters
    ----------
    known : what the model was fitted with: the ids and times of its items
    table : as `ItemTable.load` takes it; None where the rules name no column
    vectors : gives float32[n_items, d], whose cosines are the similarity for `diversity`
    """

    def __init__(self, known: Interactions, table: Any, vectors: Callable[[], Floats]) -> None:
        self.known, self._make_vectors = known, vectors
        self.table = None if table is None else ItemTable.load(table)
        self._numbers: dict[str, NDArray[np.float64] | None] = {}
        self._labels: dict[str, Labels] = {}

    @cached_property
    def vectors(self) -> Floats:
        """float32[n_items, d] of length 1, or 0 for an item without a vector."""
        vectors = self._make_vectors()
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors / np.maximum(length, 1e-12), np.float32)

    def numbers(self, column: str) -> NDArray[np.float64] | None:
        """float64[n_items], NaN where missing, seconds since 1970 for dates; None for text."""
        if column == _RECENCY and (self.table is None or self.table.find(_RECENCY) is None):
            return self._first_times
        name = self._name(column)
        if name not in self._numbers:
            self._numbers[name] = self._read_numbers(name)
        return self._numbers[name]

    def labels(self, column: str) -> Labels:
        """The values of a column as text."""
        name = self._name(column)
        if name not in self._labels:
            self._labels[name] = self._read_labels(name)
        return self._labels[name]

    def _name(self, column: str) -> str:
        """A column's own name, from any spelling, "genre" for "genres" too."""
        if self.table is None:
            raise DataError(f"the rule for {column!r} needs a table of items (--items FILE)")
        spelled = "".join(column.split())
        name = column if column in self.table.raw else self.table.find(f"{spelled} {spelled}s")
        if name is None:
            raise UnknownNameError("column of the item table", column, self.table.raw)
        return name

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """int64[n_items]: each item's row of the table, -1 where it has none."""
        assert self.table is not None
        rows, places = np.full(len(self.known.items), -1), self.table.places(self.known.items)
        rows[places[places >= 0]] = np.flatnonzero(places >= 0)
        if (rows < 0).all():
            raise DataError(f"the item table has none of the {len(rows):,} items: compare the ids")
        return rows

    @cached_property
    def _first_times(self) -> NDArray[np.float64]:
        if self.known.time is None:
            raise DataError("a boost by recency needs times in the log, or a column of that name")
        first = np.full(self.known.n_items, np.inf)
        np.minimum.at(first, self.known.item, self.known.time)
        return np.where(np.isinf(first), np.nan, first)

    def _read_numbers(self, name: str) -> NDArray[np.float64] | None:
        assert self.table is not None
        cells = self.table.columns[name].take(pa.array(self._rows, mask=self._rows < 0))
        if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
            cells = cells.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
        if not (pa.types.is_primitive(cells.type) or pa.types.is_decimal(cells.type)):
            return None
        numbers = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def _read_labels(self, name: str) -> Labels:
        assert self.table is not None
        cells, names = self.table.texts(name), dict[str, int]()
        codes, ends = list[int](), [0]
        for row in self._rows.tolist():
            cell = cells[row].strip() if row >= 0 else ""
            parts = dict.fromkeys(part.casefold() for part in (cell, *self.table.genres(cell)))
            codes += [names.setdefault(part, len(names)) for part in parts if part]
            ends.append(len(codes))
        ones, shape = np.ones(len(codes), np.float32), (len(self._rows), len(names))
        return Labels(names, sparse.csr_array((ones, codes, ends), shape=shape))
