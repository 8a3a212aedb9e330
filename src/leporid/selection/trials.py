"""`TrialResult`: what fitting and evaluating a candidate gave, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leporid.evaluation import combine
from leporid.selection.candidates import Candidate


@dataclass(frozen=True, kw_only=True)
class TrialCost:
    """Time and memory of a trial."""

    fit_seconds: float
    ranking_seconds: float
    ms: float
    """Milliseconds per request for one user."""
    bytes: float
    """Size of the fitted model."""
    steps: float | None = None
    """Steps that a network was trained for; None for classical models."""
    best_step: float | None = None
    """The step whose weights were kept."""

    @classmethod
    def from_text(cls, values: Mapping[str, str]) -> TrialCost:
        """Return the cost that a file holds as text; the inverse of `to_text`."""
        numbers = {name: float(value) for name, value in values.items()}
        return cls(**numbers)

    def to_text(self) -> dict[str, str]:
        """Return the numbers as text, by name."""
        return {name: str(value) for name, value in self.to_dict().items()}

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name, without those that a classical model does not have."""
        values: dict[str, float | None] = asdict(self)
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, eq=False)
class TrialResult:
    """What a trial of a candidate gave."""

    candidate: Candidate
    columns: NDArray[np.float64]
    """float64[m, c]: the metric per user, or what it is made of (F1)."""
    cost: TrialCost
    at: float
    """When it was done, in seconds of the search."""

    @cached_property
    def value(self) -> float:
        """The metric, averaged over users."""
        return mean_value(self.columns)

    @property
    def seconds(self) -> float:
        """Seconds of the fit and of the evaluation."""
        return self.cost.fit_seconds + self.cost.ranking_seconds


def mean_value(columns: NDArray[np.float64]) -> float:
    """Return the metric of users from what it is made of."""
    return float(combine(list(columns.mean(axis=0))))


def by_value(result: TrialResult) -> tuple[float, int, str]:
    """Return a key that sorts the best result first.

    Among equals the one with fewer settings comes first, then the one with the lower key.
    """
    candidate = result.candidate
    return -result.value, len(candidate.settings), candidate.key
