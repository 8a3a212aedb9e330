"""What the kinds of events of a log mean: their weights, which are targets, what is disliked.

Negative events are rows of their own (`Interactions.disliked`); `with_negatives` splits them too.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from leporid.data.arrays import Int64Array, Mask
from leporid.data.interactions import Interactions
from leporid.errors import ConfigError, DataError, shortened


class EventKinds(NamedTuple):
    """What the caller says about the kinds of events."""

    weights: Mapping[str, float] | None
    """By kind: below 0 for a dislike; 0, or not named, to leave out. None: each kind counts 1."""
    target_events: tuple[str, ...]
    """The kinds that are targets; empty: all."""

    @classmethod
    def from_arguments(
        cls,
        event: str | int | None,
        weights: Mapping[str, float] | None,
        target_events: str | Iterable[str] | None,
    ) -> Self | None:
        """Return None without an event column; what contradicts itself is a `ConfigError`."""
        if isinstance(target_events, str):
            target_events = [target_events]
        targets = () if target_events is None else tuple(map(str, target_events))
        if event is None:
            if weights or targets:
                raise ConfigError(
                    "weights and target_events need the event column: event=... (--event)"
                )
            return None
        if not (weights or targets):
            raise ConfigError(
                "an event column needs weights={'view': 1, 'purchase': 5} (--event-weights "
                "view=1,purchase=5), target_events='purchase' (--target-events purchase), or both"
            )
        for kind, weight in (weights or {}).items():
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ConfigError(
                    f"the weight of the event {kind!r} is no number: {weight!r}"
                )
        for kind in targets:
            if weights and not weights.get(kind, 0) > 0:
                raise ConfigError(
                    f"the target event {kind!r} has no weight above 0: give it one"
                )
        if not weights:
            return cls(None, targets)
        numbers = {str(kind): float(weight) for kind, weight in weights.items()}
        return cls(numbers, targets)

    def of(
        self,
        kinds: Sequence[str],
        origin: str,
    ) -> tuple[NDArray[np.float64], Mask | None]:
        """Return the weight of each kind, float64[len(kinds)], and which of them are targets."""
        for kind in (*(self.weights or ()), *self.target_events):
            if kind not in kinds:
                names = shortened(", ".join(sorted(set(kinds))), 500)
                raise DataError(
                    f"{origin} has no event {kind!r} (kinds found: {names})"
                )
        weights = self.weights
        if weights is None:
            weights = dict.fromkeys(kinds, 1.0)
        by_kind = np.array([weights.get(kind, 0.0) for kind in kinds])
        is_target = np.isin(kinds, self.target_events) if self.target_events else None
        return by_kind, is_target


def with_negatives(
    parts: Sequence[Interactions],
    negative: Interactions,
    data: Interactions,
    is_train: Mask,
    is_test: Mask,
) -> list[Interactions]:
    """Add their negative events to train, validation and test.

    Train has those up to the user's last event in train, validation those up to the last one before
    test. Without times all are in train. `is_train` and `is_test` mask rows of `data`.
    """
    in_train = np.ones(len(negative), bool)
    before_test = in_train
    if data.time is not None and negative.time is not None:
        in_train = negative.time <= _last_times(data, is_train)[negative.user]
        before_test = negative.time <= _last_times(data, ~is_test)[negative.user]
    masks = (
        in_train,
        before_test & ~in_train,
        ~(before_test | in_train),
    )
    return [
        replace(part, disliked=negative.select(mask))
        for part, mask in zip(parts, masks, strict=True)
    ]


def _last_times(data: Interactions, rows: Mask) -> Int64Array:
    """Return int64[n_users]: the last time of each user in some rows; the smallest if none."""
    last = np.full(data.n_users, np.iinfo(np.int64).min)
    if data.time is not None:
        np.maximum.at(last, data.user[rows], data.time[rows])
    return last
