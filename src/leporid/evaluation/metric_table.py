"""`MetricTable`: one row per user. Means, strata, intervals and exports derive from it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from leporid.artifacts import atomic_path, check_sealed, read_arrays, write_arrays
from leporid.data import IdMap
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import metrics
from leporid.evaluation.bootstrap import bootstrap_means, percentile_interval
from leporid.evaluation.strata import (
    COLD_ITEMS,
    ITEM_STRATA,
    STRATA_OF_ITEMS,
    check_stratum,
    popularity_class,
    user_stratum,
)

_FILE_NAME, _FORMAT = "table.safetensors", 2
_WHOLE = ("Coverage", "Gini")
"""Metrics that judge all lists together."""


class Interval(NamedTuple):
    """A mean and its confidence interval."""

    value: float
    low: float
    high: float


class _Within(NamedTuple):
    """A stratum: its rows of the table, with their hits and numbers of test items inside it."""

    rows: NDArray[np.int64] | slice
    hits: NDArray[np.bool_]
    relevant: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class MetricTable:
    """The outcome of one evaluation, user by user.

    Metric names are 'HR@10' and the like; `names` lists them. Strata are named in
    `leporid.evaluation.strata`: in a stratum of users ('tail-users', 'cold-users') the mean is
    over those users; in a stratum of items ('tail-items', 'cold-items') only test items of the
    stratum count, as hits and as |T_u|, and users without one are left out.
    """

    user: NDArray[np.int32]
    """int32[m]: the users with test items, ascending."""
    users: IdMap
    """External ids of all users of the split."""
    top: NDArray[np.int32]
    """int32[m, k]: the ranked lists, k the largest cut-off; -1 where there is no (known) item."""
    hits: NDArray[np.bool_]
    """bool[m, k]: which of them are test items."""
    relevant: NDArray[np.int32]
    """int32[m, 3]: each user's number of tail, mid and head test items."""
    cold_relevant: NDArray[np.int32]
    """int32[m]: each user's number of test items without a training interaction."""
    activity: NDArray[np.int32]
    """int32[n_users]: training interactions of all users."""
    popularity: NDArray[np.int32]
    """int32[n_items]: training interactions of all items."""
    at: tuple[int, ...]
    """The cut-offs N."""
    families: tuple[str, ...]
    """The metrics without their cut-off."""
    part: str
    """'valid' or 'test'."""
    protocol: str
    """How the split was made."""
    exclude_seen: bool = True
    """Whether items that a user has already could not be recommended."""
    repeated: int = 0
    """Held-out items that were not judged, because their users have them already."""

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        shown = [f"{family}@{self.at[-1]}" for family in self.families[:4]]
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self._means(shown, None).items())
        left_out = f"{self.skipped:,} left out without {self.part} items"
        if self.repeated:
            left_out += f", {self.repeated:,} items not judged because they are known"
        return f"MetricTable({len(self):,} users, {self.cold:,} of them cold, {left_out}; {means})"

    @property
    def skipped(self) -> int:
        """Users left out because they have no item to find."""
        return len(self.users) - len(self.user)

    @property
    def cold(self) -> int:
        """Number of evaluated users without a training interaction: the stratum 'cold-users'."""
        return int(np.count_nonzero(self.activity[self.user] == 0))

    def has_users(self, stratum: str) -> bool:
        """Whether anyone evaluated is in a stratum of users, so that it has a mean."""
        return bool(user_stratum(stratum, self.activity)[self.user].any())

    @property
    def names(self) -> list[str]:
        """All metrics of this table."""
        return [f"{family}@{n}" for family in self.families for n in self.at]

    @property
    def external_users(self) -> NDArray[Any]:
        """object[m]: the external id of each row."""
        return self.users.externals(self.user)

    def mean(self, stratum: str | None = None) -> dict[str, float]:
        """Every metric over all users, or over a stratum.

        F1 is the harmonic mean of the mean precision and mean recall there. Coverage, popularity
        and Gini judge the lists, not the hits, and are left out for strata of items.
        """
        return self._means(self._names(stratum), stratum)

    def per_user(self, metric: str, stratum: str | None = None) -> NDArray[np.float64]:
        """float64[m]: the users' values (in the stratum) of a metric that is a mean over users."""
        return self._column(metric, self._within(stratum))

    def confidence(
        self,
        metric: str,
        level: float = 0.95,
        resamples: int = 1000,
        seed: int = 0,
        *,
        stratum: str | None = None,
    ) -> Interval:
        """Bootstrap percentile interval of a mean, resampling users.

        F1 is recomputed from the resampled means of precision and recall. Coverage and Gini
        have none: a resample holds fewer distinct lists, which biases both.
        """
        return self.intervals([metric], level, resamples, seed, stratum=stratum)[metric]

    def intervals(
        self,
        names: Iterable[str] | None = None,
        level: float = 0.95,
        resamples: int = 1000,
        seed: int = 0,
        *,
        stratum: str | None = None,
    ) -> dict[str, Interval]:
        """`confidence` of several metrics (default: all that have one) from the same resamples."""
        if names is None:
            names = [n for n in self._names(stratum) if n.partition("@")[0] not in _WHOLE]
        values = self._means(names, stratum)
        parts = {name: ingredients(name) for name in values}
        needed = list(dict.fromkeys(part for pair in parts.values() for part in pair))
        within = self._within(stratum)
        columns = np.column_stack([self._column(part, within) for part in needed])
        drawn = dict(zip(needed, bootstrap_means(columns, resamples, seed).T, strict=True))
        samples = {name: combine([drawn[part] for part in parts[name]]) for name in values}
        return {n: Interval(v, *percentile_interval(samples[n], level)) for n, v in values.items()}

    def to_arrow(self) -> pa.Table:
        """User by user: external id, training and test counts, and every per-user metric.

        The numbers of users left out and of cold ones are in the schema's metadata.
        """
        columns: dict[str, Any] = {
            "user": self.users.ids.take(pa.array(self.user)),
            "train_interactions": self.activity[self.user],
            f"{self.part}_items": self.relevant.sum(axis=1, dtype=np.int32),
        }
        for name in self.names:
            if name.partition("@")[0] not in ("F1", *_WHOLE):
                columns[name] = self.per_user(name)
        about = {
            "leporid.skipped": str(self.skipped),
            "leporid.cold": str(self.cold),
            "leporid.protocol": self.protocol,
        }
        return pa.table(columns).replace_schema_metadata(about)

    def to_parquet(self, path: str | Path) -> Path:
        """Write `to_arrow()` as a parquet file."""
        with atomic_path(path) as temporary:
            pyarrow.parquet.write_table(self.to_arrow(), temporary)
        return Path(path)

    def to_csv(self, path: str | Path) -> Path:
        """Write `to_arrow()` as a CSV file with a header."""
        with atomic_path(path) as temporary:
            pyarrow.csv.write_csv(self.to_arrow(), temporary)
        return Path(path)

    def save(self, path: str | Path) -> Path:
        """Write the whole table into the directory `path`; `load` gives it back."""
        arrays = {name: getattr(self, name) for name in _ARRAYS} | self.users.to_arrays("users.")
        names = ("at", "families", "part", "protocol", "exclude_seen", "repeated")
        about = {name: getattr(self, name) for name in names}
        notes = {"table": json.dumps({**about, "format": _FORMAT})}
        write_arrays(Path(path) / _FILE_NAME, arrays, notes, sealed=True)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> MetricTable:
        """Read what `save` wrote."""
        arrays, metadata = read_arrays(Path(path) / _FILE_NAME)
        try:
            about = json.loads(metadata["table"])
            if about.pop("format", None) == _FORMAT:  # older tables have no seal
                check_sealed(path, metadata)
            about |= {name: tuple(about[name]) for name in ("at", "families")}
            about |= {name: arrays[name] for name in _ARRAYS}
            return cls(users=IdMap.from_arrays(arrays, "user", "users."), **about)
        except KeyError as error:
            raise DataError(f"{path} is not a saved metric table: {error} is missing") from None
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError(f"{path} is not a saved metric table: {error}") from None

    def _names(self, stratum: str | None) -> list[str]:
        hidden = (*_WHOLE, "Popularity") if stratum in STRATA_OF_ITEMS else ()
        return [name for name in self.names if name.partition("@")[0] not in hidden]

    def _means(self, names: Iterable[str], stratum: str | None) -> dict[str, float]:
        means, within = {}, self._within(stratum)
        top, n_items = self.top[within.rows], len(self.popularity)
        for name in names:
            family, n = self._parse(name)
            if family in _WHOLE:
                judge = metrics.item_coverage if family == "Coverage" else metrics.gini
                means[name] = judge(top, n_items, n)
            else:
                parts = [self._column(part, within).mean() for part in ingredients(name)]
                means[name] = float(combine(parts))
        return means

    def _column(self, metric: str, within: _Within) -> NDArray[np.float64]:
        family, n = self._parse(metric)
        if family == "F1":
            raise ConfigError(
                f"{metric} is made of two means and has no value per user: use User{metric}"
            )
        if family in _WHOLE:
            raise ConfigError(f"{metric} judges all lists together and has no value per user")
        if family == "Popularity":
            return metrics.average_popularity(self.top[within.rows], self.popularity, n)
        return metrics.PER_USER[family](within.hits, within.relevant, n)

    def _within(self, stratum: str | None) -> _Within:
        relevant = self.relevant.sum(axis=1, dtype=np.int32)
        if stratum is None:
            return _Within(slice(None), self.hits, relevant)
        check_stratum(stratum)
        hits = self.hits
        if stratum in ITEM_STRATA:
            wanted = ITEM_STRATA.index(stratum)
            hits = hits & (popularity_class(self.popularity)[self.top] == wanted)
            relevant = self.relevant[:, wanted]
            rows = np.flatnonzero(relevant)
        elif stratum in COLD_ITEMS:
            cold = stratum == COLD_ITEMS[1]
            hits = hits & ((self.popularity[self.top] == 0) == cold)
            relevant = self.cold_relevant if cold else relevant - self.cold_relevant
            rows = np.flatnonzero(relevant)
        else:
            rows = np.flatnonzero(user_stratum(stratum, self.activity)[self.user])
        if len(rows) == 0:
            raise DataError(f"no evaluated user is in the stratum {stratum!r}: nothing to average")
        return _Within(rows, hits[rows], relevant[rows])

    def _parse(self, metric: str) -> tuple[str, int]:
        family, n = metrics.parse_metric(metric, self.names)
        # F1 is made of precision and recall, and tested for significance by UserF1.
        more = ("Precision", "Recall", "UserF1") if "F1" in self.families else ()
        if family not in (*self.families, *more) or n not in self.at:
            raise UnknownNameError("metric", metric, self.names)
        return family, n


_ARRAYS = [f.name for f in fields(MetricTable) if "NDArray" in str(f.type)]


def ingredients(metric: str) -> list[str]:
    """The metrics whose means give a metric: itself, or precision and recall for F1."""
    family, _, n = metric.partition("@")
    return [f"Precision@{n}", f"Recall@{n}"] if family == "F1" else [metric]


def combine(means: Any) -> Any:
    """A metric from the means of its ingredients: itself, or F1 from precision and recall."""
    return metrics.f1(*means) if len(means) == 2 else means[0]
