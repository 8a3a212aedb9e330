"""What each user got, in a few bytes: enough to compare two runs user by user.

A record holds means. Beside it lies `<record>.users.parquet` with one row per user: which of the
top places were hits (a bit mask) and how many test items there were. HR, precision, recall and F1
of every user follow, so paired tests between records need no model and no data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.artifacts import atomic_path
from leporid.errors import ConfigError, DataError

if TYPE_CHECKING:
    from leporid.evaluation import MetricTable

COLUMNS = ("user", "hits", "relevant")


@dataclass(frozen=True, eq=False)
class UserOutcomes:
    """Hits and test items of every evaluated user."""

    user: NDArray[np.int32]
    """int32[m], ascending."""
    hits: NDArray[np.int32]
    """int32[m]: bit p is set when place p + 1 of the list is a test item."""
    relevant: NDArray[np.int32]
    """int32[m]: number of test items."""

    @classmethod
    def of(cls, table: MetricTable) -> UserOutcomes:
        """From an evaluation; only the first 31 places fit the mask."""
        places = min(table.hits.shape[1], 31)
        bits = (1 << np.arange(places)).astype(np.int32)
        mask = (table.hits[:, :places] * bits).sum(axis=1, dtype=np.int32)
        return cls(table.user, mask, table.relevant.sum(axis=1, dtype=np.int32))

    def hit_rate(self, n: int) -> NDArray[np.float64]:
        """float64[m]: HR@n of every user."""
        return (self._hits(n) > 0).astype(np.float64)

    def f1(self, n: int) -> NDArray[np.float64]:
        """float64[m]: F1@n of every user, 2 hits / (n + test items)."""
        return np.asarray(2.0 * self._hits(n) / (n + self.relevant))

    def per_user(self, metric: str) -> NDArray[np.float64]:
        """float64[m]: HR@N or F1@N of every user."""
        family, n = _parse(metric)
        return self.hit_rate(n) if family == "HR" else self.f1(n)

    def ingredients(self, metric: str) -> NDArray[np.float64]:
        """float64[m, c]: of whose means the metric is made; HR@N, or precision and recall."""
        family, n = _parse(metric)
        if family == "HR":
            return self.hit_rate(n)[:, None]
        hits = self.f1(n) * (n + self.relevant) / 2
        return np.column_stack([hits / n, hits / self.relevant])

    def _hits(self, n: int) -> NDArray[np.int64]:
        return np.asarray(np.bitwise_count(self.hits & ((1 << n) - 1)), dtype=np.int64)

    def write(self, path: str | Path) -> None:
        """Write parquet, atomically."""
        table = pa.table({name: getattr(self, name) for name in COLUMNS})
        with atomic_path(path) as target:
            pq.write_table(table, target, compression="zstd")

    @classmethod
    def read(cls, path: str | Path) -> UserOutcomes:
        """The inverse of `write`."""
        try:
            table = pq.read_table(path)
        except FileNotFoundError:
            raise DataError(f"no such file: {path}") from None
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{path} is not a parquet file: {reason}") from None
        columns = [table[name] for name in COLUMNS if name in table.column_names]
        whole = all(pa.types.is_integer(c.type) and not c.null_count for c in columns)
        if len(columns) != len(COLUMNS) or not whole:
            raise DataError(f"{path} must have columns of integers: {', '.join(COLUMNS)}")
        outcomes = cls(*(np.asarray(column) for column in columns))
        if (np.diff(outcomes.user) <= 0).any() or (outcomes.relevant < 1).any():
            raise DataError(f"{path} must have each user once, in order, with test items")
        return outcomes


def _parse(metric: str) -> tuple[str, int]:
    family, _, n = metric.partition("@")
    if family not in ("HR", "F1") or not n.isdecimal():
        raise ConfigError(f"runs can be tested by HR@N and F1@N, not by {metric!r}")
    return family, int(n)
