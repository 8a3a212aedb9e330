"""Parquet files read a batch at a time: the ids they hold, then their pairs as codes.

The policies are those of `load` (docs/data.md), row by row the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.data.columns import find_columns
from leporid.data.policies import external_ids, is_null, plain_values, whole_floats
from leporid.data.timestamps import to_int64
from leporid.errors import DataError

__all__ = ["PairBatch", "ParquetStream"]


@dataclass(frozen=True)
class PairBatch:
    """Kept rows of one batch, as codes."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    rows: int
    """Rows the batch had."""
    dropped: Mapping[str, int]


@dataclass
class ParquetStream:
    """A parquet file or a directory of them, in the order of their names."""

    path: Path
    given: Mapping[str, str | int | None]
    batch_rows: int
    columns: dict[str, str] = field(default_factory=dict)
    """Role to the name of its column."""

    def __post_init__(self) -> None:
        import pyarrow.parquet as pa_parquet

        self.files = sorted(self.path.rglob("*.parquet")) if self.path.is_dir() else [self.path]
        if not self.files:
            raise DataError(f"{self.path} is a directory without .parquet files")
        try:
            names = pa_parquet.read_schema(self.files[0]).names
        except pa.ArrowException as error:
            raise DataError(f"{self.files[0]} is not a whole parquet file: {error}") from None
        except OSError as error:
            raise DataError(f"could not read {self.files[0]}: {error}") from None
        places = find_columns(names, self.given, str(self.path)).places()
        self.columns = {role: names[place] for role, place in places.items()}

    def distinct(self) -> tuple[pa.Array, pa.Array]:
        """All user values and all item values, as they are in the files."""
        users, items = _Distinct(), _Distinct()
        for batch in self._batches(("user", "item")):
            users.add(self._values(batch, "user"))
            items.add(self._values(batch, "item"))
        return users.result(), items.result()

    def pairs(
        self, users: pa.Array, items: pa.Array, min_rating: float | None
    ) -> Iterator[PairBatch]:
        """Rows as codes of the distinct values; a value that is blank is missing."""
        blank = {
            role: np.asarray(pc.is_null(self.ids(values, role)))
            for role, values in (("user", users), ("item", items))
        }
        roles = ["user", "item"]
        if "time" in self.columns:
            roles.append("time")
        if min_rating is not None:
            if "rating" not in self.columns:
                raise DataError(
                    f"{self.path} has no column that looks like a rating, which min_rating "
                    f"needs: name it with rating=..."
                )
            roles.append("rating")
        for batch in self._batches(tuple(roles)):
            codes = {
                role: _codes(self._values(batch, role), values, blank[role])
                for role, values in (("user", users), ("item", items))
            }
            keep, dropped = self._policies(batch, codes, min_rating)
            yield PairBatch(codes["user"][keep], codes["item"][keep], batch.num_rows, dropped)

    def ids(self, values: pa.Array, role: str) -> pa.Array:
        """External ids of distinct values; null where one is blank."""
        return external_ids(values, role, str(self.path))

    def _policies(
        self, batch: pa.Table, codes: Mapping[str, NDArray[np.int32]], min_rating: float | None
    ) -> tuple[NDArray[np.bool_], dict[str, int]]:
        keep = np.ones(batch.num_rows, bool)
        dropped: dict[str, int] = {}

        def leave_out(reason: str, bad: NDArray[np.bool_]) -> None:
            bad = bad & keep
            if bad.any():
                dropped[reason] = int(bad.sum())
                keep[bad] = False

        leave_out("missing user", codes["user"] < 0)
        leave_out("missing item", codes["item"] < 0)
        if "time" in self.columns:
            name = self.columns["time"]
            times, _ = to_int64(plain_values(batch.column(name)), name)
            leave_out("missing time", is_null(times))
        if min_rating is not None:
            name = self.columns["rating"]
            try:
                ratings = plain_values(batch.column(name)).cast(pa.float64())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise DataError(f"{self.path}: column {name!r} is no number: {error}") from None
            numbers = np.asarray(pc.fill_null(ratings, np.nan).to_numpy(), np.float64)
            leave_out("missing rating", np.isnan(numbers))
            leave_out("below min_rating", numbers < min_rating)
        return keep, dropped

    def _values(self, batch: pa.Table, role: str) -> pa.ChunkedArray:
        values = batch.column(self.columns[role])
        if pa.types.is_floating(values.type):
            return whole_floats(values, role, str(self.path))
        return plain_values(values)

    def _batches(self, roles: tuple[str, ...]) -> Iterator[pa.Table]:
        import pyarrow.parquet as pa_parquet

        names = list(dict.fromkeys(self.columns[role] for role in roles))
        for path in self.files:
            try:
                with pa_parquet.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
                    for batch in file.iter_batches(
                        batch_size=self.batch_rows, columns=names, use_threads=False
                    ):
                        yield pa.Table.from_batches([batch])
            except (pa.ArrowException, KeyError) as error:
                raise DataError(f"{path} is not a whole parquet file: {error}") from None
            except OSError as error:
                raise DataError(f"could not read {path}: {error}") from None


class _Distinct:
    """Distinct values of many batches; they are merged once they have doubled."""

    def __init__(self) -> None:
        self.known: pa.Array | None = None
        self.waiting: list[pa.Array] = []

    def add(self, values: pa.ChunkedArray) -> None:
        found = pc.unique(values).drop_null()
        self.waiting.append(found)
        known = 0 if self.known is None else len(self.known)
        if sum(map(len, self.waiting)) > max(known, 100_000):
            self._merge()

    def result(self) -> pa.Array:
        self._merge()
        return pa.array([], pa.int64()) if self.known is None else self.known

    def _merge(self) -> None:
        parts = ([] if self.known is None else [self.known]) + self.waiting
        if parts:
            kinds = {part.type for part in parts}
            if len(kinds) > 1:  # files that disagree about a column: as text, like a union
                parts = [part.cast(pa.string()) for part in parts]
            self.known = pc.unique(pa.concat_arrays(parts))
        self.waiting = []


def _codes(
    values: pa.ChunkedArray, distinct: pa.Array, blank: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Places among the distinct values; -1 where missing or blank."""
    if values.type != distinct.type:
        values = values.cast(distinct.type)
    found: Any = pc.fill_null(pc.index_in(values, value_set=distinct), -1)
    codes = np.array(found.to_numpy(), dtype=np.int32)
    if blank.any():
        codes[(codes >= 0) & blank[codes]] = -1
    return codes
