"""`MetricTable`: one row per user. Means, strata, intervals and exports derive from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy
from numpy.typing import NDArray

from leporid.data import IdMap
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import metrics, strata
from leporid.evaluation.hit_files import (
    HIT_COLUMNS,
    MASK_BITS,
    Ints,
    pack_hits,
    read_hits,
    unpack_hits,
    write_parquet,
)
from leporid.evaluation.metrics import Hits, Values
from leporid.foundation import JsonValue, atomic_path

_OF_ALL_LISTS = ("Coverage", "Gini")
"""Metrics that measure all lists together."""


class Interval(NamedTuple):
    """A mean and its confidence interval."""

    value: float
    low: float
    high: float


class _Selection(NamedTuple):
    """The users and test items that a mean is over: all of them, or a stratum."""

    rows: NDArray[np.int64] | slice
    """Rows of the table."""
    hits: Hits
    """bool[rows, k]: which listed items are test items inside the stratum."""
    relevant: Ints
    """int32[rows]: number of test items inside the stratum."""


@dataclass(frozen=True, eq=False)
class MetricTable:
    """The outcome of one evaluation, user by user.

    Metric names are 'HR@10' and the like; `names` lists them. Strata are named in
    `leporid.evaluation.strata`: in a stratum of users ('tail-users', 'cold-users') the mean is
    over those users; in a stratum of items ('tail-items', 'cold-items') only test items of the
    stratum count, as hits and as |T_u|, and users without one are left out.
    """

    user: Ints
    """int32[m]: the users with test items, ascending."""
    users: IdMap
    """External ids of all users of the split."""
    top: Ints
    """int32[m, k]: the ranked lists, k the largest cut-off; -1 where there is no (known) item."""
    hits: Hits
    """bool[m, k]: which of them are test items."""
    relevant: Ints
    """int32[m, 3]: each user's number of tail, mid and head test items."""
    cold_relevant: Ints
    """int32[m]: each user's number of test items without a training interaction."""
    activity: Ints
    """int32[n_users]: training interactions of all users."""
    popularity: Ints
    """int32[n_items]: training interactions of all items."""
    at: tuple[int, ...]
    """The cut-offs N."""
    families: tuple[str, ...]
    """The metrics without their cut-off."""
    part: str
    """'valid' or 'test'."""
    protocol: str
    """How the split was made."""
    include_seen: bool = False
    """Whether items that a user has already could be recommended."""
    repeated: int = 0
    """Held-out items that were not evaluated, because their users have them already."""

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        shown = [f"{family}@{self.at[-1]}" for family in self.families[:4]]
        values = self._means(shown, None)
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in values.items())
        users = "hits only"
        if self.has_lists:
            users = f"{self.cold:,} of them cold, {self.skipped:,} left out"
        return f"MetricTable({len(self):,} users, {users}; {means})"

    @property
    def skipped(self) -> int:
        """Users left out because they have no item to find."""
        return len(self.users) - len(self)

    @property
    def has_lists(self) -> bool:
        """False for a table of hits (`from_hits`), which has no strata and no exports."""
        return len(self.popularity) > 0

    @property
    def cold(self) -> int:
        """Number of evaluated users without a training interaction: the stratum 'cold-users'."""
        self._need_lists()
        return int(np.count_nonzero(self.activity[self.user] == 0))

    def has_users(self, stratum: str) -> bool:
        """Return whether anyone evaluated is in a stratum of users, so that it has a mean."""
        self._need_lists()
        return bool(strata.user_stratum(stratum, self.activity)[self.user].any())

    @property
    def names(self) -> list[str]:
        """All metrics of this table."""
        return [f"{family}@{n}" for family in self.families for n in self.at]

    def mean(self, stratum: str | None = None) -> dict[str, float]:
        """Return every metric over all users, or over a stratum.

        F1 is the harmonic mean of the mean precision and mean recall there. Coverage, popularity
        and Gini judge the lists, not the hits, and are left out for strata of items.
        """
        return self._means(self._names(stratum), stratum)

    def per_user(
        self,
        metric: str,
        stratum: str | None = None,
    ) -> Values:
        """Return float64[m]: the users' values of a metric that is a mean over users."""
        return self._values(metric, self._select(stratum))

    def columns(
        self,
        metric: str,
        stratum: str | None = None,
    ) -> Values:
        """Return float64[m, c]: the values per user whose means make the metric; two for F1."""
        selection = self._select(stratum)
        parts = metrics.ingredients(metric)
        return np.column_stack([self._values(part, selection) for part in parts])

    def confidence(
        self,
        metric: str,
        level: float = 0.95,
        *,
        stratum: str | None = None,
    ) -> Interval:
        """Return a metric with its t interval over users.

        The interval of F1 is that of its linearisation per user. Coverage and Gini have none: they
        are no means over users.
        """
        if not 0 < level < 1:
            raise ConfigError(f"level must lie between 0 and 1, not {level}")
        values = metrics.linearized(self.columns(metric, stratum))
        mean = float(values.mean())
        m = len(values)
        if m < 2:
            return Interval(mean, mean, mean)
        quantile = scipy.stats.t.ppf((1 + level) / 2, m - 1)
        margin = float(quantile * values.std(ddof=1) / m**0.5)
        return Interval(mean, mean - margin, mean + margin)

    def intervals(self, stratum: str | None = None) -> dict[str, Interval]:
        """Return `confidence` of all metrics that have one."""
        return {
            name: self.confidence(name, stratum=stratum)
            for name in self._names(stratum)
            if name.partition("@")[0] not in _OF_ALL_LISTS
        }

    def summary(self) -> dict[str, JsonValue]:
        """Return what a record keeps besides the means: intervals, users and items left out."""
        longest = max(self.at)
        bounded = [f"{family}@{longest}" for family in ("NDCG", "HR", "F1")]
        facts: dict[str, JsonValue] = {
            "skipped_users": self.skipped,
            "cold_users": self.cold,
            "confidence_95": {
                name: list(self.confidence(name)[1:]) for name in bounded
            },
        }
        if self.protocol.startswith("cold-items"):
            facts["cold_item_metrics"] = {**self.mean(strata.COLD_ITEMS)}
            facts["warm_item_metrics"] = {**self.mean(strata.WARM_ITEMS)}
        if self.repeated:
            facts["repeated_items"] = self.repeated
        if self.cold:
            facts["cold_metrics"] = {**self.mean(strata.COLD_USERS)}
        return facts

    def same_users(self, other: Self) -> bool:
        """Return whether both were evaluated on the same users with as many items to find each."""
        know_ids = self.has_lists and other.has_lists
        return (
            self.part == other.part
            and (not know_ids or self.users == other.users)
            and np.array_equal(self.user, other.user)
            and np.array_equal(self._n_relevant, other._n_relevant)
        )

    def to_arrow(self) -> pa.Table:
        """Return a row per user: external id, training and test counts, every per-user metric.

        The numbers of users left out and of cold ones are in the schema's metadata.
        """
        self._need_lists()
        columns: dict[str, NDArray[np.generic] | pa.Array] = {
            "user": self.users.ids.take(pa.array(self.user)),
            "train_interactions": self.activity[self.user],
            f"{self.part}_items": self._n_relevant,
        }
        for name in self.names:
            if name.partition("@")[0] not in ("F1", *_OF_ALL_LISTS):
                columns[name] = self.per_user(name)
        metadata = {
            "leporid.skipped": str(self.skipped),
            "leporid.cold": str(self.cold),
            "leporid.protocol": self.protocol,
        }
        return pa.table(columns).replace_schema_metadata(metadata)

    def to_parquet(self, path: str | Path) -> Path:
        """Write `to_arrow()` as a parquet file."""
        return write_parquet(self.to_arrow(), path)

    def to_csv(self, path: str | Path) -> Path:
        """Write `to_arrow()` as a CSV file with a header."""
        with atomic_path(path) as temporary:
            pyarrow.csv.write_csv(self.to_arrow(), temporary)
        return Path(path)

    def hit_columns(self) -> dict[str, Ints]:
        """Return per user: index, hits as a bit mask (bit r - 1 for rank r), number of test items.

        The mask holds the first 31 ranks.
        """
        values = (self.user, pack_hits(self.hits), self._n_relevant)
        return dict(zip(HIT_COLUMNS, values, strict=True))

    @classmethod
    def from_hits(
        cls,
        user: Ints,
        hits: Ints,
        relevant: Ints,
    ) -> Self:
        """Make a table of what `hit_columns` gives, without lists: no strata, no metrics of lists.

        Cut-offs are all up to 31. The lists may have been shorter: ask for those they were made at.
        """
        empty: Ints = np.empty(0, np.int32)
        return cls(
            user=user,
            users=IdMap.range(int(user.max(initial=-1)) + 1, "user"),
            top=np.empty((len(user), 0), np.int32),
            hits=unpack_hits(hits),
            relevant=relevant[:, None],
            cold_relevant=empty,
            activity=empty,
            popularity=empty,
            at=tuple(range(1, MASK_BITS + 1)),
            families=("F1", *metrics.PER_USER),
            part="test",
            protocol="",
        )

    def save_hits(self, path: str | Path) -> Path:
        """Write `hit_columns` as parquet: a few bytes per user, all that `compare` needs."""
        return write_parquet(pa.table(self.hit_columns()), path)

    @classmethod
    def load_hits(cls, path: str | Path) -> Self:
        """Return `from_hits` of what `save_hits` wrote."""
        return cls.from_hits(*read_hits(path))

    @property
    def _n_relevant(self) -> Ints:
        """int32[m]: each user's number of test items."""
        return np.asarray(self.relevant.sum(axis=1, dtype=np.int32))

    def _need_lists(self) -> None:
        if not self.has_lists:
            raise DataError(
                "a table of hits has no lists, strata or exports: evaluate the model"
            )

    def _names(self, stratum: str | None) -> list[str]:
        """Return the metrics that there are for a stratum."""
        if stratum not in strata.STRATA_OF_ITEMS:
            return self.names
        of_lists = (*_OF_ALL_LISTS, "Popularity")
        return [name for name in self.names if name.partition("@")[0] not in of_lists]

    def _means(
        self,
        names: Iterable[str],
        stratum: str | None,
    ) -> dict[str, float]:
        selection = self._select(stratum)
        return {name: self._mean(name, selection) for name in names}

    def _mean(
        self,
        name: str,
        selection: _Selection,
    ) -> float:
        """Return one metric over the selected users."""
        family, n = self._parse(name)
        n_items = len(self.popularity)
        if family == "Coverage":
            return metrics.item_coverage(self.top[selection.rows], n_items, n)
        if family == "Gini":
            return metrics.gini(self.top[selection.rows], n_items, n)
        parts = metrics.ingredients(name)
        return float(
            metrics.combine([self._values(part, selection).mean() for part in parts])
        )

    def _values(
        self,
        metric: str,
        selection: _Selection,
    ) -> Values:
        """Return float64[m]: a metric of each selected user."""
        family, n = self._parse(metric)
        if family == "F1":
            raise ConfigError(
                f"{metric} is made of two means and has no value per user: use User{metric}"
            )
        if family in _OF_ALL_LISTS:
            raise ConfigError(
                f"{metric} judges all lists together and has no value per user"
            )
        if family == "Popularity":
            lists = self.top[selection.rows]
            return metrics.average_popularity(lists, self.popularity, n)
        return metrics.PER_USER[family](selection.hits, selection.relevant, n)

    def _select(self, stratum: str | None) -> _Selection:
        """Return the users and test items of a stratum; None: all of them."""
        if stratum is None:
            return _Selection(slice(None), self.hits, self._n_relevant)
        self._need_lists()
        if stratum in strata.STRATA_OF_ITEMS:
            is_inside, relevant = self._items_of(stratum)
            hits = self.hits & is_inside[self.top]
            rows = np.flatnonzero(relevant)
        else:
            is_member = strata.user_stratum(stratum, self.activity)
            hits = self.hits
            relevant = self._n_relevant
            rows = np.flatnonzero(is_member[self.user])
        if len(rows) == 0:
            raise DataError(
                f"no evaluated user is in the stratum {stratum!r}: nothing to average"
            )
        return _Selection(rows, hits[rows], relevant[rows])

    def _items_of(self, stratum: str) -> tuple[NDArray[np.bool_], Ints]:
        """Return bool[n_items], who is in a stratum, and int32[m], each user's test items in it."""
        if stratum in strata.ITEM_STRATA:
            position = strata.ITEM_STRATA.index(stratum)
            is_inside = strata.popularity_class(self.popularity) == position
            return is_inside, self.relevant[:, position]
        if stratum == strata.COLD_ITEMS:
            return self.popularity == 0, self.cold_relevant
        return self.popularity != 0, self._n_relevant - self.cold_relevant

    def _parse(self, metric: str) -> tuple[str, int]:
        family, n = metrics.parse_metric(metric, self.names)
        known = self.families
        if "F1" in known:
            # F1 is made of precision and recall, and tested for significance by UserF1.
            known = (*known, "Precision", "Recall", "UserF1")
        if family not in known or n not in self.at:
            raise UnknownNameError("metric", metric, self.names)
        return family, n
