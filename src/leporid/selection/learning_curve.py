"""`LearningCurve`: what more data would give, measured by leaving half of the users out."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import numpy as np

from leporid.errors import LeporidError
from leporid.foundation import JsonValue
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.search import Search
from leporid.selection.trials import TrialResult, mean_value

MAX_CURVE_SHARE = 1 / 4


@dataclass(frozen=True)
class LearningCurve:
    """The metric of one candidate for half of the users, by the users it was fitted on."""

    candidate: str
    half: float
    """Fitted on that half of the users."""
    all: float
    """Fitted on all users."""
    twice: float
    """Extrapolated to twice as many users."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain JSON values."""
        return asdict(self)


def learning_curve(search: Search) -> LearningCurve | None:
    """Fit the best quick classical candidate on half of the users; None without the time for it.

    Everything is evaluated on the inner validation split.
    """
    best = quick_classical(search)
    inner = search.task.inner
    rng = np.random.default_rng(search.task.seed)
    is_drawn = rng.permutation(inner.n_users) % 2 == 0
    half = replace(
        inner,
        train=inner.train.select(is_drawn[inner.train.user]),
        valid=inner.valid.select(is_drawn[inner.valid.user]),
        test=inner.test.select(is_drawn[inner.test.user]),
    )
    if best is None or not len(half.train) or not len(half.test):
        return None
    evaluator = TrialEvaluator(
        replace(search.task, inner=half),
        search.timer,
        search.evaluator.folder / "half",
    )
    with suppress(LeporidError, MemoryError):  # the answer must not be lost
        of_half = evaluator.evaluate(best.candidate, math.inf).value
        of_all = mean_value(best.columns[is_drawn[np.unique(inner.test.user)]])
        twice = max(2 * of_all - of_half, of_all)
        return LearningCurve(best.candidate.label, of_half, of_all, twice)
    return None


def quick_classical(search: Search) -> TrialResult | None:
    """Return the best classical result whose trial takes a small share of the time left."""
    limit = MAX_CURVE_SHARE * search.timer.left
    for result in search.ranked:
        candidate = result.candidate
        if not candidate.is_network and search.estimates.cost(candidate) < limit:
            return result
    return None
