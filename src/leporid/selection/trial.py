"""A trial: one candidate, fitted and evaluated at one rung."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from leporid.evaluation import combine
from leporid.selection.candidates import Candidate

MAX_TRIAL_SHARE = 0.06
"""Share of the budget that a trial of a classical model may take."""


class Rung(NamedTuple):
    """How much a trial sees: shares of the users to evaluate on, and of the steps of a training."""

    users: float
    steps: float


RUNGS = (Rung(0.25, 1 / 9), Rung(0.5, 1 / 3), Rung(1.0, 1.0))
FULL = len(RUNGS) - 1


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a trial gave."""

    columns: NDArray[np.float64]
    """float64[m, c]: the metric per user, or what it is made of (F1)."""
    seconds: float
    facts: dict[str, Any]
    """Milliseconds per request, bytes, steps."""


@dataclass(frozen=True, eq=False)
class Result:
    """A candidate, its rung, and the outcome of that trial."""

    candidate: Candidate
    rung: int
    outcome: Outcome
    at: float

    @cached_property
    def value(self) -> float:
        """The metric."""
        return float(combine(list(self.outcome.columns.mean(axis=0))))


def by_value(result: Result) -> tuple[float, int, str]:
    """Sorts the best first; of equals the one with fewer settings, then the one with the lower key.

    The order in which workers answer must not matter.
    """
    return -result.value, len(result.candidate.settings), result.candidate.key


class Workers(Protocol):
    """What runs trials in parallel: a cluster, a pool of processes."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Begin `function(*arguments)`; a future with `done`, `result` and `cancel`."""
