"""What the kinds of events of a log mean: their weights, the goal, what is disliked.

Negative events are rows of their own (`Interactions.disliked`); `with_negatives` splits them too.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError, DataError, shortened


class EventKinds(NamedTuple):
    """What the caller said of the kinds of events."""

    weights: Mapping[str, float] | None
    """By kind: below 0 for a dislike; 0, or not named, to leave out. None: each kind counts 1."""
    goal: tuple[str, ...]
    """The kinds that are targets; empty: all."""

    @classmethod
    def asked(
        cls,
        event: str | int | None,
        weights: Mapping[str, float] | None,
        goal: str | Iterable[str] | None,
    ) -> Self | None:
        """None without an event column; what contradicts itself is a `ConfigError`."""
        several = () if goal is None else goal
        goals = (goal,) if isinstance(goal, str) else tuple(map(str, several))
        if event is None:
            if weights or goals:
                raise ConfigError(
                    "weights and a goal need the event column: event=... (--event)"
                )
            return None
        if not (weights or goals):
            raise ConfigError(
                "an event column needs weights={'view': 1, 'purchase': 5} (--event-weights "
                "view=1,purchase=5), goal='purchase' (--goal purchase), or both"
            )
        for kind, weight in (weights or {}).items():
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ConfigError(
                    f"the weight of the event {kind!r} is no number: {weight!r}"
                )
        for kind in goals:
            if weights and not weights.get(kind, 0) > 0:
                raise ConfigError(
                    f"the goal {kind!r} has no weight above 0: give it one"
                )
        return cls(
            {str(k): float(w) for k, w in weights.items()} if weights else None, goals
        )

    def of(
        self, kinds: Sequence[str], origin: str
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """float64[len(kinds)], the weight of each kind found, and bool[len(kinds)], the goals."""
        for kind in (*(self.weights or ()), *self.goal):
            if kind not in kinds:
                found = shortened(", ".join(sorted(set(kinds))), 500)
                raise DataError(
                    f"{origin} has no event {kind!r} (kinds found: {found})"
                )
        weights = dict.fromkeys(kinds, 1.0) if self.weights is None else self.weights
        by_kind = np.array([weights.get(kind, 0.0) for kind in kinds])
        return by_kind, np.isin(kinds, self.goal) if self.goal else None


def with_negatives(
    parts: Sequence[Interactions],
    negative: Interactions,
    data: Interactions,
    train: NDArray[np.bool_],
    test: NDArray[np.bool_],
) -> list[Interactions]:
    """Train, validation and test with their negative events; `train`, `test` mask rows of `data`.

    Train has those up to the user's last event in train, validation those up to the last one before
    test. Without times all are in train.
    """
    first = known = np.ones(len(negative), bool)
    if data.time is not None and negative.time is not None:
        until = np.full((2, data.n_users), np.iinfo(np.int64).min)
        for last, rows in zip(until, (train, ~test), strict=True):
            np.maximum.at(last, data.user[rows], data.time[rows])
        first, known = negative.time <= until[:, negative.user]
    masks = first, known & ~first, ~(known | first)
    pairs = zip(parts, masks, strict=True)
    return [replace(part, disliked=negative.select(mask)) for part, mask in pairs]
