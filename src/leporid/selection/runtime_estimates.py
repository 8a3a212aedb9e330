"""Runtime estimates: of fits, from fits on small shares of the log and from earlier trials."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from leporid.data import Split
from leporid.errors import LeporidError, LeporidWarning
from leporid.models import FitContext, fit
from leporid.selection.budget import Timer
from leporid.selection.candidates import Candidate
from leporid.selection.task import SearchTask
from leporid.selection.trials import TrialCost

SAFETY_FACTOR = 1.2
WORST_OVERRUN = 3.0
MAX_TRIAL_SHARE = 0.15
MIN_SHARE_OF_STEPS = 0.6
CONTINUED_SHARE_OF_STEPS = 2 / 3
SUBPROCESS_ABOVE_SHARE = 0.02
SUBPROCESS_START_SECONDS = 4.0
TIMED_SHARES_OF_LOG = (1 / 16, 1 / 8, 1 / 4)
MAX_GROWTH_POWER = 3.0


class FitEstimate(NamedTuple):
    """Seconds that a fit may take."""

    expected: float
    worst: float


@dataclass
class RuntimeEstimates:
    """Seconds of trials and final fits, updated by every trial."""

    task: SearchTask
    timer: Timer
    speeds: dict[str, float] = field(default_factory=dict)
    """Seconds per step of each network."""
    process_seconds: float = SUBPROCESS_START_SECONDS
    """Seconds that a subprocess takes besides its work."""
    shares: dict[str, FitEstimate] = field(default_factory=dict)
    """Estimates by the key of the candidate, measured on small shares of the log."""
    _costs: dict[str, TrialCost] = field(default_factory=dict)
    """Cost of the last trial of each candidate (by its key), and of each model (by its name)."""

    def cost(self, candidate: Candidate) -> float:
        """Return the seconds of a trial, or the fewest of a training; 0 if nothing is known."""
        if candidate.is_network:
            fit_seconds = MIN_SHARE_OF_STEPS * self.training_seconds(candidate)
        else:
            fit_seconds = self.fit_seconds(candidate)
        return SAFETY_FACTOR * fit_seconds + self._ranking_seconds(candidate)

    def fit_seconds(self, candidate: Candidate) -> float:
        """Return the expected seconds of the fit of a classical model on the inner split."""
        trial = self._costs.get(candidate.key)
        return trial.fit_seconds if trial else self._by_shares(candidate).expected

    def finish(self, candidate: Candidate) -> float:
        """Return the seconds of the fit before the test, the test, and the fit on everything."""
        ranking_seconds = self._ranking_seconds(candidate)
        ranking = 1.5 * self.task.users_to_test * ranking_seconds + 0.2
        if candidate.is_network:  # both times its training is continued
            training = CONTINUED_SHARE_OF_STEPS * self.best_step_seconds(candidate)
            return 2 * (SAFETY_FACTOR * training + 1.0) + ranking
        fit_seconds = self.fit_seconds(candidate)
        process = 0.0
        if fit_seconds > SUBPROCESS_ABOVE_SHARE * self.timer.budget:
            process = self.process_seconds
        split = self.task.split
        interactions = len(split.train_valid) + len(split.test)
        growth = interactions / max(len(self.task.inner.train), 1)
        return 2 * (SAFETY_FACTOR * fit_seconds * growth + process) + ranking

    def training_seconds(self, candidate: Candidate) -> float:
        """Return the seconds of all steps of a network, or of those that it was trained for."""
        trial = self._costs.get(candidate.key)
        return self._step_seconds(candidate, trial.steps if trial else None)

    def best_step_seconds(self, candidate: Candidate) -> float:
        """Return the seconds of the steps up to the best one, or of all if there was no trial."""
        trial = self._costs.get(candidate.key)
        return self._step_seconds(candidate, trial.best_step if trial else None)

    def _step_seconds(self, candidate: Candidate, steps: float | None) -> float:
        if steps is None:
            steps = candidate.training.steps
        return self.speeds.get(candidate.model, 0.0) * float(steps)

    def is_doubtful(self, candidate: Candidate, until: float) -> bool:
        """Tell whether a fit that cannot be stopped might end after `until`."""
        left = until - self.timer.elapsed
        trial = self._costs.get(candidate.key)
        if trial:
            return WORST_OVERRUN * trial.fit_seconds > left
        worst = self._by_shares(candidate).worst
        return worst > left or WORST_OVERRUN * worst > self.timer.left

    def update(self, candidate: Candidate, cost: TrialCost) -> None:
        """Remember what a trial cost."""
        if cost.steps is not None:
            # With its validations: better than the few steps it was planned with.
            self.speeds[candidate.model] = cost.fit_seconds / max(cost.steps, 1)
        self._costs[candidate.key] = cost
        self._costs[candidate.model] = cost

    def _ranking_seconds(self, candidate: Candidate) -> float:
        """Return the seconds of this candidate's evaluation, or of another one's of its model.

        Returns 0 if nothing is known.
        """
        by_key = self._costs.get(candidate.key)
        trial = by_key or self._costs.get(candidate.model)
        return trial.ranking_seconds if trial else 0.0

    def _by_shares(self, candidate: Candidate) -> FitEstimate:
        """Return the estimate for settings that have not been fitted yet."""
        if candidate.key not in self.shares:
            spec = candidate.trial_spec(self.task)
            estimate = FitEstimate(0.0, 0.0)
            with (
                warnings.catch_warnings(action="ignore", category=LeporidWarning),
                suppress(LeporidError),  # the model refuses so few items
            ):
                estimate = estimate_seconds(
                    lambda split: fit(spec, split, FitContext()),
                    self.task.inner,
                    MAX_TRIAL_SHARE * self.timer.budget,
                    self.timer.clock,
                )
            self.shares[candidate.key] = estimate
        return self.shares[candidate.key]


def estimate_seconds(
    fit_part: Callable[[Split], object],
    split: Split,
    limit: float,
    clock: Callable[[], float] = time.perf_counter,
) -> FitEstimate:
    """Estimate the seconds of `fit_part(split)` from small shares of the users and items.

    No larger share is measured once it is clear that the fit takes less, or more, than `limit`.
    """
    fit_part(share_of(split, TIMED_SHARES_OF_LOG[0]))  # loads or compiles what it needs
    power = 1.0
    previous = 0.0
    for share in TIMED_SHARES_OF_LOG:
        part = share_of(split, share)
        begun = clock()
        fit_part(part)
        seconds = max(clock() - begun, 1e-4)
        if share == TIMED_SHARES_OF_LOG[-1]:
            growth = math.log2(seconds / previous)
            power = min(max(growth, 1.0), MAX_GROWTH_POWER)
        worst = seconds / share**MAX_GROWTH_POWER
        if worst <= limit or seconds / share >= limit:
            break
        previous = seconds
    return FitEstimate(seconds / share**power, worst)


def share_of(split: Split, share: float) -> Split:
    """Return the training part of a share of the users and of the items, as a log of its own."""
    train = split.train
    rng = np.random.default_rng(0)
    users = rng.permutation(train.n_users) < math.ceil(share * train.n_users)
    items = rng.permutation(train.n_items) < math.ceil(share * train.n_items)
    part = train.select(users[train.user] & items[train.item])
    if not len(part):
        part = train.select(np.arange(1))
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):
        part = part.core(1)
    nothing = part.select(np.empty(0, np.int64))
    return Split(part, nothing, nothing, split.protocol)
