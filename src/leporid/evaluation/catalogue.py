"""`Catalogue`: what rules read of the items of a model, by item index, each column read once."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.config import BOUNDS
from leporid.data import Interactions, ItemTable
from leporid.errors import ConfigError, DataError, UnknownNameError

Floats: TypeAlias = NDArray[np.float32]


class Column(NamedTuple):
    """A column of the item table, by item index."""

    numbers: NDArray[np.float64] | None
    """float64[n_items], NaN where missing, seconds since 1970 for dates; None for text."""
    names: dict[str, int]
    """Code of each value as text in lower case: of cells, and of their parts in "Drama|War"."""
    labels: sparse.csr_array
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
        self._columns: dict[str, Column] = {}

    @cached_property
    def vectors(self) -> Floats:
        """float32[n_items, d] of length 1, or 0 for an item without a vector."""
        vectors = self._make_vectors()
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors / np.maximum(length, 1e-12), np.float32)

    def column(self, name: str) -> Column:
        """A column by its name in any spelling, "genre" for "genres" too."""
        if self.table is None:
            raise DataError(f"the rule for {name!r} needs a table of items (--items FILE)")
        spelled = "".join(name.split())
        found = name if name in self.table.raw else self.table.find(f"{spelled} {spelled}s")
        if found is None:
            raise UnknownNameError("column of the item table", name, self.table.raw)
        if found not in self._columns:
            self._columns[found] = _read(self.table, found, self._rows)
        return self._columns[found]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """float64[n_items]: `Column.numbers`; "recency" may be the first time of each item."""
        if name == "recency" and (self.table is None or self.table.find(name) is None):
            return self._first_times
        numbers = self.column(name).numbers
        if numbers is None:
            raise ConfigError(f"the column {name!r} holds text, and the rule needs numbers")
        return numbers

    def meeting(self, name: str, condition: Any) -> NDArray[np.bool_]:
        """bool[n_items]: the items that meet a condition of `Rules`."""
        if isinstance(condition, Mapping):
            numbers = self.numbers(name)
            met = [BOUNDS[bound][1](numbers, limit) for bound, limit in condition.items()]
            return np.asarray(np.logical_and.reduce(met))
        values = condition if isinstance(condition, list | tuple) else [condition]
        column = self.column(name)
        if column.numbers is not None and not any(isinstance(value, str) for value in values):
            return np.isin(column.numbers, np.asarray(values, np.float64))
        asked = [column.names.get(str(value).casefold().strip(), -1) for value in values]
        found = np.asarray(column.labels @ np.isin(np.arange(len(column.names)), asked) > 0)
        if not found.any():
            known = ", ".join([*column.names][:10]) or "none"
            raise DataError(f"no item has such a {name}: {values[0]!r}; there are {known}")
        return found

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


def _read(table: ItemTable, name: str, rows: NDArray[np.int64]) -> Column:
    cells, numbers = table.columns[name].take(pa.array(rows, mask=rows < 0)), None
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        cells = cells.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    if pa.types.is_primitive(cells.type) or pa.types.is_decimal(cells.type):
        numbers = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    texts, names, codes, ends = table.texts(name), dict[str, int](), list[int](), [0]
    for row in rows.tolist():
        text = texts[row].strip() if row >= 0 else ""
        parts = dict.fromkeys(part.casefold() for part in (text, *table.genres(text)))
        codes += [names.setdefault(part, len(names)) for part in parts if part]
        ends.append(len(codes))
    ones, shape = np.ones(len(codes), np.float32), (len(rows), len(names))
    return Column(numbers, names, sparse.csr_array((ones, codes, ends), shape=shape))
