"""`compare_live`: in which of two served runs did users have more hits?"""

import contextlib
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leporid.errors import DataError
from leporid.evaluation import Comparison, compare_groups
from leporid.serve.store import EventStore, existing_store

_METRIC = "hits per list"
_SECONDS_PER_DAY = 86400


@dataclass(frozen=True, kw_only=True)
class LiveResult:
    """What users did with the lists of two runs."""

    comparison: Comparison
    """Compared run minus main run; the value of a user is their hits per list."""
    users: tuple[int, int]
    """Number of users of the compared run, and of the main run."""
    lists: tuple[int, int]
    """Number of lists of the compared run, and of the main run."""
    left_out: int
    """Users who were shown lists of both runs, because the share was changed."""

    @property
    def users_needed(self) -> int | None:
        """Further users of both runs until the interval excludes zero at this difference.

        None means that it cannot be estimated yet.
        """
        comparison = self.comparison
        if comparison.outcome != "inconclusive":
            return 0
        if comparison.difference == 0 or math.isinf(comparison.detectable):
            return None
        # The interval narrows by the square root of the number of users.
        factor = (comparison.detectable / comparison.difference) ** 2
        return max(1, math.ceil(comparison.n_users * (factor - 1)))

    def rows(self) -> list[dict[str, str | int | float]]:
        """Return one row per run, the main run first."""
        comparison = self.comparison
        users_compare, users_main = self.users
        lists_compare, lists_main = self.lists
        return [
            {
                "run": comparison.name_b,
                "users": users_main,
                "lists": lists_main,
                _METRIC: comparison.mean_b,
            },
            {
                "run": comparison.name_a,
                "users": users_compare,
                "lists": lists_compare,
                _METRIC: comparison.mean_a,
            },
        ]

    def sentence(self) -> str:
        """Return the outcome, and whether there is enough data to decide."""
        comparison = self.comparison
        needed = self.users_needed
        if needed is None:
            return (
                f"{comparison.name_a} and {comparison.name_b} do not differ yet, or have too few "
                "users to say"
            )
        outcome = comparison.describe()
        if needed == 0:
            return f"{outcome}; there is enough data to decide"
        return (
            f"{outcome}; about {needed:,} more users are needed for the interval to exclude zero "
            "at this difference"
        )


_HitsByUser: TypeAlias = defaultdict[str, list[int]]
"""The number of hits of each list that a user was shown, by user."""
_HitsByRun: TypeAlias = dict[str, _HitsByUser]
"""Hits for 'main' and for 'compare'."""


def compare_live(store: str | Path, days: float = 7) -> list[LiveResult]:
    """Compare the runs that a service was started with, for each pair of runs in the store.

    A hit is an item of a list with an event of the same user within `days` after the list.
    """
    with contextlib.closing(existing_store(store)) as opened:
        hits_by_pair = _count_hits(opened, days)
    if not hits_by_pair:
        raise DataError(
            "the store holds no impressions: leporid serve --share keeps them"
        )
    return [
        _compare_pair(main, compare, hits)
        for (main, compare), hits in hits_by_pair.items()
    ]


def _count_hits(store: EventStore, days: float) -> dict[tuple[str, str], _HitsByRun]:
    """Count the hits of every list in a store, by the folders of the main and compared run."""
    event_times = defaultdict[tuple[str, str], list[int]](list)
    for event in store.events():
        event_times[event.user, event.item].append(event.time)
    hits_by_pair: defaultdict[tuple[str, str], _HitsByRun] = defaultdict(
        lambda: {"main": defaultdict(list), "compare": defaultdict(list)}
    )
    for shown in store.impressions():
        hits = 0
        for item in set(shown.items):
            delays = [t - shown.time for t in event_times.get((shown.user, item), ())]
            hits += any(0 <= delay <= days * _SECONDS_PER_DAY for delay in delays)
        hits_by_run = hits_by_pair[shown.main, shown.compare]
        hits_by_run[shown.run][shown.user].append(hits)
    return hits_by_pair


def _compare_pair(main: str, compare: str, hits: _HitsByRun) -> LiveResult:
    """Compare two runs, without users who were shown lists of both."""
    users_of_both = hits["main"].keys() & hits["compare"].keys()
    main_counts = _counts_without(hits["main"], users_of_both)
    compare_counts = _counts_without(hits["compare"], users_of_both)
    comparison = compare_groups(
        _hits_per_list(compare_counts),
        _hits_per_list(main_counts),
        _METRIC,
        name_a=compare,
        name_b=main,
    )
    return LiveResult(
        comparison=comparison,
        users=(len(compare_counts), len(main_counts)),
        lists=(sum(map(len, compare_counts)), sum(map(len, main_counts))),
        left_out=len(users_of_both),
    )


def _counts_without(
    hits: _HitsByUser,
    left_out: set[str],
) -> list[list[int]]:
    """Return the hits of each user who is not left out."""
    return [counts for user, counts in hits.items() if user not in left_out]


def _hits_per_list(counts: list[list[int]]) -> NDArray[np.float64]:
    """Return the mean of each user, or one zero if there are no users.

    A comparison needs a value; one user says as little as none.
    """
    means = [float(np.mean(user_counts)) for user_counts in counts]
    return np.array(means or [0.0])
