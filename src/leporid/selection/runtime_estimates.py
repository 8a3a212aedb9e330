"""Runtime estimates: of fits, from fits on small shares of the log and from earlier trials."""

import math
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leporid import models
from leporid.data import Split
from leporid.errors import LeporidError, LeporidWarning
from leporid.selection.budget import Timer
from leporid.selection.candidates import Candidate, Problem

SAFETY_FACTOR, WORST_OVERRUN = 1.2, 3.0
MAX_TRIAL_SHARE = 0.15
MIN_SHARE_OF_STEPS, CONTINUED_SHARE_OF_STEPS = 0.6, 2 / 3
SUBPROCESS_ABOVE_SHARE, SUBPROCESS_START_SECONDS = 0.02, 4.0
TIMED_SHARES_OF_LOG = 1 / 16, 1 / 8, 1 / 4
MAX_GROWTH_POWER = 3.0


@dataclass
class RuntimeEstimates:
    """Seconds of trials and final fits, updated by every trial."""

    problem: Problem
    timer: Timer
    speeds: dict[str, float] = field(default_factory=dict)
    """Seconds per step of each network."""
    process_seconds: float = SUBPROCESS_START_SECONDS
    shares: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Expected and worst seconds of a fit, by candidate, measured on small shares of the log."""
    _seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    """Facts of the last trial of each candidate, and of each model."""

    def cost(self, candidate: Candidate) -> float:
        """Estimated seconds of a trial, of a training at least; 0 where nothing is known."""
        if candidate.is_network:
            fit = MIN_SHARE_OF_STEPS * self.training_seconds(candidate)
        else:
            fit = self.fit_seconds(candidate)
        return SAFETY_FACTOR * fit + self._ranking_seconds(candidate)

    def fit_seconds(self, candidate: Candidate) -> float:
        """Estimated seconds of the fit of a classical model on the inner split."""
        known = self._seconds.get(candidate.key)
        return known["fit_seconds"] if known else self._by_shares(candidate)[0]

    def finish(self, candidate: Candidate) -> float:
        """Estimated seconds of the fit before the test, the test, and the fit on everything."""
        ranking = (
            1.5 * self.problem.users_to_test * self._ranking_seconds(candidate) + 0.2
        )
        if candidate.is_network:  # both times its training is continued
            fit = CONTINUED_SHARE_OF_STEPS * self.training_seconds(
                candidate, "best_step"
            )
            return 2 * (SAFETY_FACTOR * fit + 1.0) + ranking
        fit, split = self.fit_seconds(candidate), self.problem.split
        process = (
            self.process_seconds
            if fit > SUBPROCESS_ABOVE_SHARE * self.timer.budget
            else 0.0
        )
        growth = (len(split.train_valid) + len(split.test)) / max(
            len(self.problem.inner.train), 1
        )
        return 2 * (SAFETY_FACTOR * fit * growth + process) + ranking

    def training_seconds(self, candidate: Candidate, until: str = "steps") -> float:
        """Of all steps of a network, or of those that it was trained for (to the `best_step`)."""
        config: Any = models.get(candidate.model).config_class.from_dict(
            candidate.settings
        )
        steps = self._seconds.get(candidate.key, {}).get(until, config.steps)
        return self.speeds.get(candidate.model, 0.0) * float(steps)

    def is_doubtful(self, candidate: Candidate, until: float) -> bool:
        """Whether a fit that cannot be stopped might end after `until`."""
        left = until - self.timer.elapsed
        if known := self._seconds.get(candidate.key):
            return WORST_OVERRUN * known["fit_seconds"] > left
        worst = self._by_shares(candidate)[1]
        return worst > left or WORST_OVERRUN * worst > self.timer.left

    def update(self, candidate: Candidate, facts: dict[str, Any]) -> None:
        if candidate.is_network:
            # With its validations: better than the few steps it was planned with.
            self.speeds[candidate.model] = facts["fit_seconds"] / max(facts["steps"], 1)
        self._seconds[candidate.key] = self._seconds[candidate.model] = facts

    def _ranking_seconds(self, candidate: Candidate) -> float:
        """Of this candidate, or of the last one of the same model; 0 where nothing is known."""
        known = self._seconds.get(candidate.key) or self._seconds.get(
            candidate.model, {}
        )
        return known.get("ranking_seconds", 0.0)

    def _by_shares(self, candidate: Candidate) -> tuple[float, float]:
        """Expected and worst seconds of settings that have not been fitted yet."""
        if candidate.key not in self.shares:
            fit = models.get(candidate.model)(**candidate.settings).fit
            enough, seconds = MAX_TRIAL_SHARE * self.timer.budget, (0.0, 0.0)
            with (
                warnings.catch_warnings(action="ignore", category=LeporidWarning),
                suppress(LeporidError),  # the model refuses so few items
            ):
                seconds = estimate_seconds(
                    fit, self.problem.inner, enough, self.timer.clock
                )
            self.shares[candidate.key] = seconds
        return self.shares[candidate.key]


def estimate_seconds(
    fit: Callable[[Split], object],
    split: Split,
    enough: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Expected and worst seconds of `fit(split)`, from small shares of the users and items.

    No larger share is measured once it is clear that the fit takes less, or more, than `enough`.
    """
    fit(
        share_of(split, TIMED_SHARES_OF_LOG[0])
    )  # loads or compiles what the model needs
    power, last = 1.0, 0.0
    for share in TIMED_SHARES_OF_LOG:
        part, begun = share_of(split, share), clock()
        fit(part)
        seconds = max(clock() - begun, 1e-4)
        if share == TIMED_SHARES_OF_LOG[-1]:
            power = min(max(math.log2(seconds / last), 1.0), MAX_GROWTH_POWER)
        worst = seconds / share**MAX_GROWTH_POWER
        if worst <= enough or seconds / share >= enough:
            break
        last = seconds
    return seconds / share**power, worst


def share_of(split: Split, share: float) -> Split:
    """The training part of a share of the users and of the items, as a log of its own."""
    train, rng = split.train, np.random.default_rng(0)
    users, items = (
        rng.permutation(n) < math.ceil(share * n)
        for n in (train.n_users, train.n_items)
    )
    few = train.select(users[train.user] & items[train.item])
    few = few if len(few) else train.select(np.arange(1))
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):
        few = few.core(1)
    nothing = few.select(np.empty(0, np.int64))
    return Split(few, nothing, nothing, split.protocol)
