"""`compare_live`: in which of two served runs did users have more hits?"""

import contextlib
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leporid.errors import DataError
from leporid.evaluation import Comparison, compare_groups
from leporid.serve.store import existing_store

_METRIC = "hits per list"


@dataclass(frozen=True, kw_only=True)
class LiveResult:
    """What users did with the lists of two runs."""

    comparison: Comparison
    """Of the compared run minus the main one; the value of a user is their hits per list."""
    users: tuple[int, int]
    lists: tuple[int, int]
    """Of the compared run, and of the main one."""
    left_out: int
    """Users who were shown lists of both, because the share was changed."""

    @property
    def users_needed(self) -> int | None:
        """Users of both runs still to come until the interval excludes zero at this difference.

        None: nothing can be said yet.
        """
        of = self.comparison
        if of.outcome != "level":
            return 0
        if of.difference == 0 or of.low == of.high:
            return None
        grows = (
            (of.high - of.low) / 2 / of.difference
        ) ** 2  # the interval narrows by its root
        return max(1, math.ceil(of.n_users * (grows - 1)))

    def rows(self) -> list[dict[str, Any]]:
        """One row per run, the main one first."""
        of, keys = self.comparison, ("run", "users", "lists", _METRIC)
        values = (of.name_a, of.name_b), self.users, self.lists, (of.mean_a, of.mean_b)
        return [dict(zip(keys, row, strict=True)) for row in zip(*values, strict=True)][
            ::-1
        ]

    def sentence(self) -> str:
        """The outcome, and whether there is enough to decide."""
        of, needed = self.comparison, self.users_needed
        if needed is None:
            return f"{of.name_a} and {of.name_b} do not differ yet, or have too few users to say"
        if needed == 0:
            return f"{of.describe()}; the interval excludes zero: there is enough to decide"
        more = (
            f"about {needed:,} more users are needed for the interval to exclude zero"
        )
        return f"{of.describe()}; {more} at this difference"


def compare_live(store: str | Path, days: float = 7) -> list[LiveResult]:
    """Compare the runs that a service was started with, for each pair of runs in the store.

    A hit is an item of a list with an event of the same user within `days` after the list.
    """
    times, hits = defaultdict[Any, list[int]](list), defaultdict[Any, list[int]](list)
    with contextlib.closing(existing_store(store)) as opened:
        for user, item, time in opened.events():
            times[user, item].append(time)
        for main, compare, run, user, items, time in opened.impressions():
            spans = [
                [t - time for t in times.get((user, item), ())] for item in set(items)
            ]
            count = sum(
                any(0 <= after <= days * 86400 for after in span) for span in spans
            )
            hits[main, compare, run, user].append(count)
    if not hits:
        raise DataError(
            "the store holds no impressions: leporid serve --share keeps them"
        )
    return [
        _result(main, compare, hits)
        for main, compare in dict.fromkeys(k[:2] for k in hits)
    ]


def _result(main: str, compare: str, hits: dict[Any, list[int]]) -> LiveResult:
    sides = [
        {
            key[3]: counts
            for key, counts in hits.items()
            if key[:3] == (main, compare, run)
        }
        for run in ("compare", "main")
    ]
    both = sides[0].keys() & sides[1].keys()
    kept = [
        [counts for user, counts in side.items() if user not in both] for side in sides
    ]
    # A run that nobody was shown yet has no hits: one user says as little as none.
    a, b = (
        np.array([float(np.mean(counts)) for counts in side] or [0.0]) for side in kept
    )
    return LiveResult(
        comparison=compare_groups(a, b, _METRIC, name_a=compare, name_b=main),
        users=(len(kept[0]), len(kept[1])),
        lists=(sum(map(len, kept[0])), sum(map(len, kept[1]))),
        left_out=len(both),
    )
