"""`ItemColumns`: what rules read of the items of a model, each column once."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, ItemTable
from leporid.errors import ConfigError, DataError, UnknownNameError, article
from leporid.foundation import BOUNDS
from leporid.ranking.top_k import Floats, Mask

Numbers: TypeAlias = NDArray[np.float64]
"""float64[n_items], NaN where missing."""
Rows: TypeAlias = NDArray[np.int64]
"""int64[n_items]: each item's row of a table, -1 where it has none."""
Value: TypeAlias = str | int | float | bool
Condition: TypeAlias = Value | list[Value] | Mapping[str, float]
"""A value, several of which one suffices, or a range such as `{"at_least": 1990}`."""


class Column(NamedTuple):
    """A column of the item table, by item index."""

    numbers: Numbers | None
    """float64[n_items], NaN where missing, seconds since 1970 for dates; None for text."""
    names: dict[str, int]
    """Code of each value as text in lower case: of cells, and of their parts in "Drama|War"."""
    labels: sparse.csr_array
    """float32[n_items, n_values]: 1 where an item has a value."""
    rarest: sparse.csr_array
    """float32[n_items, n_values] with one value per item: the part of its cell that fewest items
    have."""


class ItemColumns:
    """The columns of an item table, item vectors and first times, by item index.

    Parameters
    ----------
    known : what the model was fitted with: the ids and times of its items
    table : as `ItemTable.load` takes it; None where the rules name no column
    vectors : gives float32[n_items, d], whose cosines are the similarity for `diversity`
    """

    def __init__(
        self,
        known: Interactions,
        table: object,
        vectors: Callable[[], Floats],
    ) -> None:
        self.known = known
        self.table = None if table is None else ItemTable.load(table)
        self._make_vectors = vectors
        self._columns: dict[str, Column] = {}

    @cached_property
    def vectors(self) -> Floats:
        """float32[n_items, d] of length 1, or 0 for an item without a vector."""
        vectors = self._make_vectors()
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors / np.maximum(length, 1e-12), np.float32)

    def column(self, name: str) -> Column:
        """Return a column by its name in any spelling, "genre" for "genres" too."""
        if self.table is None:
            raise DataError(
                f"the rule for {name!r} needs a table of items (--items FILE)"
            )
        actual_name: str | None = name
        if name not in self.table.raw:
            spelled = "".join(name.split())
            actual_name = self.table.find(f"{spelled} {spelled}s")
        if actual_name is None:
            raise UnknownNameError("column of the item table", name, self.table.raw)
        if actual_name not in self._columns:
            self._columns[actual_name] = _read_column(
                self.table, actual_name, self._rows
            )
        return self._columns[actual_name]

    def numbers(self, name: str) -> Numbers:
        """Return float64[n_items], NaN where missing; "recency" may be the first time of each item.

        A column named "recency" in the table comes before the times of the interactions.
        """
        if name == "recency" and (self.table is None or self.table.find(name) is None):
            return self._first_times
        numbers = self.column(name).numbers
        if numbers is None:
            raise ConfigError(
                f"the column {name!r} holds text, and the rule needs numbers"
            )
        return numbers

    def meeting(
        self,
        name: str,
        condition: Condition,
    ) -> Mask:
        """Return bool[n_items]: the items that meet a condition of `Rules`."""
        if isinstance(condition, Mapping):
            return self._within(name, condition)
        values = condition if isinstance(condition, list | tuple) else [condition]
        column = self.column(name)
        names_text = any(isinstance(value, str) for value in values)
        if column.numbers is not None and not names_text:
            return np.isin(column.numbers, np.asarray(values, np.float64))

        codes = [
            column.names.get(str(value).casefold().strip(), -1) for value in values
        ]
        is_wanted = np.isin(np.arange(len(column.names)), codes)
        meets = np.asarray(column.labels @ is_wanted > 0)
        if not meets.any():
            known = ", ".join([*column.names][:10]) or "none"
            raise DataError(
                f"no item has such {article(name)}: {values[0]!r}; there are {known}"
            )
        return meets

    def _within(
        self,
        name: str,
        limits: Mapping[str, float],
    ) -> Mask:
        """Return bool[n_items]: the items whose number is within all limits."""
        numbers = self.numbers(name)
        meets = np.ones(len(numbers), np.bool_)
        for bound, limit in limits.items():
            _, compare = BOUNDS[bound]
            meets &= compare(numbers, limit)
        return meets

    @cached_property
    def _rows(self) -> Rows:
        """int64[n_items]: each item's row of the table, -1 where it has none."""
        assert self.table is not None
        rows = np.full(len(self.known.items), -1)
        item_of_row = self.table.places(self.known.items)
        is_known = item_of_row >= 0
        rows[item_of_row[is_known]] = np.flatnonzero(is_known)
        if (rows < 0).all():
            raise DataError(
                f"the item table has none of the {len(rows):,} items: compare the ids"
            )
        return rows

    @cached_property
    def _first_times(self) -> Numbers:
        """float64[n_items]: the time of each item's first interaction, NaN without one."""
        if self.known.time is None:
            raise DataError(
                "a boost by recency needs times in the log, or a column of that name"
            )
        first = np.full(self.known.n_items, np.inf)
        np.minimum.at(first, self.known.item, self.known.time)
        return np.where(np.isinf(first), np.nan, first)


def _read_column(
    table: ItemTable,
    name: str,
    rows: Rows,
) -> Column:
    """Read a column of the table for the items, whose rows are given (-1: none)."""
    numbers = _read_numbers(table, name, rows)
    texts = table.texts(name)
    code_by_name: dict[str, int] = {}
    codes_by_item: list[list[int]] = []
    for row in rows.tolist():
        text = texts[row].strip() if row >= 0 else ""
        parts = dict.fromkeys(part.casefold() for part in (text, *table.genres(text)))
        codes_by_item.append(
            [code_by_name.setdefault(part, len(code_by_name)) for part in parts if part]
        )

    n_items_by_code = Counter(code for codes in codes_by_item for code in codes)
    rarest_by_item: list[list[int]] = []
    for codes in codes_by_item:
        # The first of several codes stands for the whole cell.
        parts_of_cell = codes[1:] or codes
        by_rarity = sorted(parts_of_cell, key=n_items_by_code.__getitem__)
        rarest_by_item.append(by_rarity[:1])

    return Column(
        numbers=numbers,
        names=code_by_name,
        labels=_labels(codes_by_item, len(code_by_name)),
        rarest=_labels(rarest_by_item, len(code_by_name)),
    )


def _read_numbers(
    table: ItemTable,
    name: str,
    rows: Rows,
) -> Numbers | None:
    """Return float64[n_items], NaN where a number is missing, or None for a column of text."""
    cells = table.columns[name].take(pa.array(rows, mask=rows < 0))
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        cells = cells.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    if not pa.types.is_primitive(cells.type) and not pa.types.is_decimal(cells.type):
        return None
    numbers = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _labels(
    codes_by_row: list[list[int]],
    n_values: int,
) -> sparse.csr_array:
    """Return float32[rows, n_values]: 1 where a row lists a code."""
    codes = [code for row in codes_by_row for code in row]
    indptr = np.cumsum([0, *map(len, codes_by_row)])
    ones = np.ones(len(codes), np.float32)
    return sparse.csr_array((ones, codes, indptr), shape=(len(codes_by_row), n_values))
