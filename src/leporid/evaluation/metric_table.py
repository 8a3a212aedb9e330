"""`MetricTable`: one row per user. Means, strata, intervals and exports derive from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import scipy
from numpy.typing import NDArray

from leporid.artifacts import atomic_path
from leporid.data import IdMap, in_words
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import metrics

_MASK_BITS = 31
HIT_COLUMNS = ("user", "hits", "relevant")
"""Of the files that `save_hits` writes."""
_WHOLE = ("Coverage", "Gini")
"""Metrics that measure all lists together."""


class Interval(NamedTuple):
    """A mean and its confidence interval."""

    value: float
    low: float
    high: float


_Within = tuple[NDArray[np.int64] | slice, NDArray[np.bool_], NDArray[np.int32]]
"""A stratum: its rows of the table, with their hits and numbers of test items inside it."""


@dataclass(frozen=True, eq=False)
class MetricTable:
    """The outcome of one evaluation, user by user.

    Metric names are 'HR@10' and the like; `names` lists them. Strata are named in
    `leporid.evaluation.metrics`: in a stratum of users ('tail-users', 'cold-users') the mean is
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
    include_seen: bool = False
    """Whether items that a user has already could be recommended."""
    repeated: int = 0
    """Held-out items that were not evaluated, because their users have them already."""

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        shown = [f"{family}@{self.at[-1]}" for family in self.families[:4]]
        means = ", ".join(
            f"{name} {mean:.4f}" for name, mean in self._means(shown, None).items()
        )
        about = "hits only"
        if self.has_lists:
            about = f"{self.cold:,} of them cold, {self.skipped:,} left out"
        return f"MetricTable({len(self):,} users, {about}; {means})"

    @property
    def skipped(self) -> int:
        """Users left out because they have no item to find."""
        return len(self.users) - len(self.user)

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
        """Whether anyone evaluated is in a stratum of users, so that it has a mean."""
        self._need_lists()
        return bool(metrics.user_stratum(stratum, self.activity)[self.user].any())

    @property
    def names(self) -> list[str]:
        """All metrics of this table."""
        return [f"{family}@{n}" for family in self.families for n in self.at]

    def mean(self, stratum: str | None = None) -> dict[str, float]:
        """Every metric over all users, or over a stratum.

        F1 is the harmonic mean of the mean precision and mean recall there. Coverage, popularity
        and Gini judge the lists, not the hits, and are left out for strata of items.
        """
        return self._means(self._names(stratum), stratum)

    def per_user(self, metric: str, stratum: str | None = None) -> NDArray[np.float64]:
        """float64[m]: the users' values (in the stratum) of a metric that is a mean over users."""
        return self._column(metric, self._within(stratum))

    def columns(self, metric: str, stratum: str | None = None) -> NDArray[np.float64]:
        """float64[m, c]: the values per user whose means make the metric; two columns for F1."""
        within = self._within(stratum)
        return np.column_stack(
            [self._column(part, within) for part in metrics.ingredients(metric)]
        )

    def confidence(
        self, metric: str, level: float = 0.95, *, stratum: str | None = None
    ) -> Interval:
        """A metric with its t interval over users.

        The interval of F1 is that of its linearisation per user. Coverage and Gini have none: they
        are no means over users.
        """
        if not 0 < level < 1:
            raise ConfigError(f"level must lie between 0 and 1, not {level}")
        values = metrics.linearized(self.columns(metric, stratum))
        mean, m = float(values.mean()), len(values)
        if m < 2:
            return Interval(mean, mean, mean)
        margin = float(
            scipy.stats.t.ppf((1 + level) / 2, m - 1) * values.std(ddof=1) / m**0.5
        )
        return Interval(mean, mean - margin, mean + margin)

    def intervals(self, stratum: str | None = None) -> dict[str, Interval]:
        """`confidence` of all metrics that have one."""
        names = [n for n in self._names(stratum) if n.partition("@")[0] not in _WHOLE]
        return {name: self.confidence(name, stratum=stratum) for name in names}

    def same_users(self, other: Self) -> bool:
        """Whether both were evaluated on the same users with as many items to find each."""
        known = self.has_lists and other.has_lists
        return (
            self.part == other.part
            and (not known or self.users == other.users)
            and np.array_equal(self.user, other.user)
            and np.array_equal(self.relevant.sum(axis=1), other.relevant.sum(axis=1))
        )

    def to_arrow(self) -> pa.Table:
        """User by user: external id, training and test counts, and every per-user metric.

        The numbers of users left out and of cold ones are in the schema's metadata.
        """
        self._need_lists()
        columns: dict[str, Any] = {
            "user": self.users.ids.take(pa.array(self.user)),
            "train_interactions": self.activity[self.user],
            f"{self.part}_items": self.relevant.sum(axis=1, dtype=np.int32),
        }
        for name in self.names:
            if name.partition("@")[0] not in ("F1", *_WHOLE):
                columns[name] = self.per_user(name)
        about = {
            "skipped": str(self.skipped),
            "cold": str(self.cold),
            "protocol": self.protocol,
        }
        named = {f"leporid.{name}": value for name, value in about.items()}
        return pa.table(columns).replace_schema_metadata(named)

    def to_parquet(self, path: str | Path) -> Path:
        """Write `to_arrow()` as a parquet file."""
        return _write_parquet(self.to_arrow(), path)

    def to_csv(self, path: str | Path) -> Path:
        """Write `to_arrow()` as a CSV file with a header."""
        with atomic_path(path) as temporary:
            pyarrow.csv.write_csv(self.to_arrow(), temporary)
        return Path(path)

    def hit_columns(self) -> dict[str, NDArray[np.int32]]:
        """Per user: index, hits as a bit mask (bit r - 1 for rank r), number of test items.

        The mask holds the first 31 ranks.
        """
        bits = (1 << np.arange(min(self.hits.shape[1], _MASK_BITS))).astype(np.int32)
        mask = (self.hits[:, : len(bits)] * bits).sum(axis=1, dtype=np.int32)
        relevant = self.relevant.sum(axis=1, dtype=np.int32)
        return dict(zip(HIT_COLUMNS, (self.user, mask, relevant), strict=True))

    @classmethod
    def from_hits(
        cls,
        user: NDArray[np.int32],
        hits: NDArray[np.int32],
        relevant: NDArray[np.int32],
    ) -> Self:
        """A table of what `hit_columns` gives, without lists: no strata, no metrics of lists.

        Cut-offs are all up to 31. The lists may have been shorter: ask for those they were made at.
        """
        ranks = np.arange(_MASK_BITS, dtype=np.int32)
        nothing: NDArray[np.int32] = np.empty(0, np.int32)
        return cls(
            user=user,
            users=IdMap.range(int(user.max(initial=-1)) + 1, "user"),
            top=np.empty((len(user), 0), np.int32),
            hits=(hits[:, None] >> ranks & 1).astype(np.bool_),
            relevant=relevant[:, None],
            cold_relevant=nothing,
            activity=nothing,
            popularity=nothing,
            at=tuple(range(1, _MASK_BITS + 1)),
            families=("F1", *metrics.PER_USER),
            part="test",
            protocol="",
        )

    def save_hits(self, path: str | Path) -> Path:
        """Write `hit_columns` as parquet: a few bytes per user, all that `compare` needs."""
        return _write_parquet(pa.table(self.hit_columns()), path)

    @classmethod
    def load_hits(cls, path: str | Path) -> Self:
        """`from_hits` of what `save_hits` wrote."""
        with in_words(str(path), "is not a parquet file"):
            table = pyarrow.parquet.read_table(path)
        columns = [table[name] for name in HIT_COLUMNS if name in table.column_names]
        whole = all(pa.types.is_integer(c.type) and not c.null_count for c in columns)
        if len(columns) != len(HIT_COLUMNS) or not whole:
            raise DataError(
                f"{path} must have columns of integers: {', '.join(HIT_COLUMNS)}"
            )
        user, hits, relevant = (np.asarray(column) for column in columns)
        if (np.diff(user) <= 0).any() or (relevant < 1).any():
            raise DataError(
                f"{path} must have each user once, in order, with test items"
            )
        return cls.from_hits(user, hits, relevant)

    def _need_lists(self) -> None:
        if not self.has_lists:
            raise DataError(
                "a table of hits has no lists, strata or exports: evaluate the model"
            )

    def _names(self, stratum: str | None) -> list[str]:
        hidden = (*_WHOLE, "Popularity") if stratum in metrics.STRATA_OF_ITEMS else ()
        return [name for name in self.names if name.partition("@")[0] not in hidden]

    def _means(self, names: Iterable[str], stratum: str | None) -> dict[str, float]:
        means, within = {}, self._within(stratum)
        for name in names:
            family, n = self._parse(name)
            if family in _WHOLE:
                judge = metrics.item_coverage if family == "Coverage" else metrics.gini
                means[name] = judge(self.top[within[0]], len(self.popularity), n)
            else:
                parts = [
                    self._column(part, within).mean()
                    for part in metrics.ingredients(name)
                ]
                means[name] = float(metrics.combine(parts))
        return means

    def _column(self, metric: str, within: _Within) -> NDArray[np.float64]:
        (family, n), (rows, hits, relevant) = self._parse(metric), within
        if family == "F1":
            raise ConfigError(
                f"{metric} is made of two means and has no value per user: use User{metric}"
            )
        if family in _WHOLE:
            raise ConfigError(
                f"{metric} judges all lists together and has no value per user"
            )
        if family == "Popularity":
            return metrics.average_popularity(self.top[rows], self.popularity, n)
        return metrics.PER_USER[family](hits, relevant, n)

    def _within(self, stratum: str | None) -> _Within:
        relevant = self.relevant.sum(axis=1, dtype=np.int32)
        if stratum is None:
            return slice(None), self.hits, relevant
        self._need_lists()
        hits = self.hits
        if stratum not in metrics.STRATA_OF_ITEMS:
            rows = np.flatnonzero(
                metrics.user_stratum(stratum, self.activity)[self.user]
            )
        else:
            if stratum in metrics.ITEM_STRATA:
                wanted = metrics.ITEM_STRATA.index(stratum)
                inside = metrics.popularity_class(self.popularity) == wanted
                relevant = self.relevant[:, wanted]
            else:
                cold = stratum == metrics.COLD_ITEMS[1]
                inside = (self.popularity == 0) == cold
                relevant = self.cold_relevant if cold else relevant - self.cold_relevant
            hits, rows = hits & inside[self.top], np.flatnonzero(relevant)
        if len(rows) == 0:
            raise DataError(
                f"no evaluated user is in the stratum {stratum!r}: nothing to average"
            )
        return rows, hits[rows], relevant[rows]

    def _parse(self, metric: str) -> tuple[str, int]:
        family, n = metrics.parse_metric(metric, self.names)
        # F1 is made of precision and recall, and tested for significance by UserF1.
        more = ("Precision", "Recall", "UserF1") if "F1" in self.families else ()
        if family not in (*self.families, *more) or n not in self.at:
            raise UnknownNameError("metric", metric, self.names)
        return family, n


def _write_parquet(table: pa.Table, path: str | Path) -> Path:
    with atomic_path(path) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd")
    return Path(path)
