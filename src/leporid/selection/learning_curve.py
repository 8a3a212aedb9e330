"""The learning curve: what half of the users gave, and what twice as many might give."""

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from leporid.errors import LeporidError
from leporid.selection.candidates import Result, by_value
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.search import Search

MAX_SHARE_OF_TIME_LEFT = 1 / 4


def learning_curve(search: Search) -> dict[str, Any]:
    """The metric of the best quick classical candidate, fitted on half of the users and on all.

    Both for the users of that half, on the inner validation split. Empty without the time for it.
    """
    limit = MAX_SHARE_OF_TIME_LEFT * search.timer.left
    ranked = [
        r for r in sorted(search.results.values(), key=by_value) if not r.candidate.is_network
    ]
    best = next((r for r in ranked if search.estimates.cost(r.candidate) < limit), None)
    inner = search.problem.inner
    is_drawn = np.random.default_rng(search.problem.seed).permutation(inner.n_users) % 2 == 0
    train, valid, test = (
        part.select(is_drawn[part.user]) for part in (inner.train, inner.valid, inner.test)
    )
    if best is None or not len(train) or not len(test):
        return {}
    half = replace(search.problem, inner=replace(inner, train=train, valid=valid, test=test))
    aside = TrialEvaluator(half, search.timer, search.evaluator.folder / "half")
    with suppress(LeporidError, MemoryError):  # the answer must not be lost
        of_half = aside.evaluate(best.candidate, math.inf).value
        rows = best.columns[is_drawn[np.unique(inner.test.user)]]
        of_all = Result(best.candidate, rows, {}, 0.0).value
        values = {"half": of_half, "all": of_all, "twice": max(2 * of_all - of_half, of_all)}
        return {"candidate": best.candidate.label, **values}
    return {}
