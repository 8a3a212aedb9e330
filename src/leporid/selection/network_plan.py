"""Which networks are trained, with how many steps and which batches, in the time there is."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leporid.errors import LeporidWarning
from leporid.models import FitContext, StopWhen, fit
from leporid.selection.budget import Deadline, format_duration
from leporid.selection.candidates import Candidate
from leporid.selection.events import last_plan
from leporid.selection.init_ranking import rank_inits
from leporid.selection.runtime_estimates import CONTINUED_SHARE_OF_STEPS
from leporid.selection.search import REASONS_TO_LEAVE_OUT, Search
from leporid.selection.task import Settings

MAX_NETWORKS = 2
MIN_STEPS = 300
ENOUGH_STEPS = 1_000
SMALLER_BATCHES_BELOW_STEPS = 1_500
MIN_BATCH = 32
MIN_SHARE_OF_BATCH = 1 / 4
VALIDATIONS_PER_TRAINING = 8
VALIDATION_USERS = 1_000
MARGIN_FOR_VALIDATIONS = 1.15
MAX_TIMED_STEPS = 8
MAX_TIMED_SECONDS = 1.0


@dataclass(frozen=True)
class TimedNetwork:
    """A network that was timed, and the steps that fit into its share of the time."""

    candidate: Candidate
    steps_alone: int
    """Steps if it is the only one that is trained."""
    steps_beside: int
    """Steps if another network is trained too."""

    @property
    def name(self) -> str:
        return self.candidate.model

    def settings(self, steps: int) -> Settings:
        """Return the settings for so many steps, with a validation at least every eighth."""
        every = min(
            self.candidate.training.eval_every, steps // VALIDATIONS_PER_TRAINING
        )
        return {
            **self.candidate.settings,
            "steps": steps,
            "eval_every": max(1, every),
        }


def plan_networks(
    search: Search, names: Sequence[str], share: float
) -> dict[str, Settings]:
    """Return the settings of the networks that are trained, from the journal if it has them.

    All trainings and final fits together take a `share` of the time that is left.
    """
    speeds = search.estimates.speeds
    earlier = last_plan(search.journal)
    if earlier is not None:
        for name, speed in earlier.speeds.items():
            speeds.setdefault(name, speed)
        return earlier.settings
    settings = {
        name: search.task.network_settings(name, VALIDATION_USERS) for name in names
    }
    if not rank_inits(search, names[0], settings[names[0]]):
        return {}
    timed = time_networks(search, settings, share)
    planned: dict[str, Settings] = {}
    has_enough = all(network.steps_beside >= ENOUGH_STEPS for network in timed)
    if len(timed) == MAX_NETWORKS and has_enough:
        planned = {each.name: each.settings(each.steps_beside) for each in timed}
    elif timed:
        # The first that has enough; where none has, the one that comes nearest.
        best = max(timed, key=lambda each: min(each.steps_alone, ENOUGH_STEPS))
        leave_out_others(search, settings, best.name)
        planned = {best.name: best.settings(best.steps_alone)}
    search.note("plan", settings=planned, speeds=speeds)
    return planned


def time_networks(
    search: Search, settings: dict[str, Settings], share: float
) -> list[TimedNetwork]:
    """Time networks in their order, until there are two, or one that should be trained alone."""
    # One that wins needs no time for the end of the leader; one that does not needs no end.
    with_ends = share * (search.timer.left - search.end_seconds())
    trainings = search.timer.left - search.reserve()
    alone = training_seconds(with_ends, trainings, entrants=1)
    beside = training_seconds(with_ends, trainings, entrants=2)
    timed: list[TimedNetwork] = []
    for name, base in settings.items():
        if search.timer.left - search.reserve() < alone:
            break  # timing the others took too long
        candidate = with_fitting_batches(search, name, base, alone)
        if candidate is None:
            continue
        network = TimedNetwork(
            candidate,
            affordable_steps(search, candidate, alone),
            affordable_steps(search, candidate, beside),
        )
        timed.append(network)
        fits_only_alone = network.steps_alone >= ENOUGH_STEPS > network.steps_beside
        if fits_only_alone or len(timed) == MAX_NETWORKS:
            break
    return timed


def leave_out_others(search: Search, settings: dict[str, Settings], best: str) -> None:
    """Note that there was time for one network, and what the others would have taken."""
    speeds = search.estimates.speeds
    settled = {best, *(event["model"] for event in search.journal.of("left out"))}
    for name, base in settings.items():
        if name in settled:
            continue
        why = f"there was time for one network, {best}"
        if name in speeds:
            steps = network_candidate(name, base).training.steps
            takes = format_duration(steps * speeds[name])
            why += f"; {steps:,} steps of it take about {takes}"
        search.leave_out(name, why)


def training_seconds(with_ends: float, trainings: float, entrants: int) -> float:
    """Return the seconds of one training.

    All trainings and final fits take `with_ends` seconds, the trainings alone `trainings`.
    """
    each_with_end = with_ends / (entrants + 2 * CONTINUED_SHARE_OF_STEPS)
    return min(each_with_end, trainings / entrants) / MARGIN_FOR_VALIDATIONS


def network_candidate(model: str, settings: Settings) -> Candidate:
    """Return a network whose initialisation is not decided yet."""
    return Candidate(model=model, init="none", settings=settings)


def affordable_steps(search: Search, candidate: Candidate, seconds: float) -> int:
    """Return the steps of a network that these seconds allow, at most all of them."""
    speed = search.estimates.speeds[candidate.model]
    return min(int(seconds / speed), candidate.training.steps)


def with_fitting_batches(
    search: Search, name: str, base: Settings, seconds: float
) -> Candidate | None:
    """Return a timed network with batches for so short a training; None for too few steps."""
    candidate = network_candidate(name, base)
    config = candidate.training
    smallest = max(MIN_BATCH, int(MIN_SHARE_OF_BATCH * config.batch_size))
    wanted = min(SMALLER_BATCHES_BELOW_STEPS, config.steps)
    try:
        time_steps(search, name, base)
        steps = affordable_steps(search, candidate, seconds)
        if steps < wanted and config.batch_size > smallest:
            largest = max(config.batch_size * steps // SMALLER_BATCHES_BELOW_STEPS, 1)
            power_of_two = 2 ** (largest.bit_length() - 1)
            smaller = {**base, "batch_size": max(power_of_two, smallest)}
            candidate = network_candidate(name, smaller)
            time_steps(search, name, smaller)
            steps = affordable_steps(search, candidate, seconds)
    except REASONS_TO_LEAVE_OUT as error:
        search.leave_out(name, str(error))
        return None
    if steps < min(MIN_STEPS, config.steps):
        complete = format_duration(config.steps * search.estimates.speeds[name])
        search.leave_out(
            name,
            f"{format_duration(seconds)} are {steps:,} steps of its training here, and fewer "
            f"than {MIN_STEPS} say nothing; {config.steps:,} steps take about {complete}",
        )
        return None
    return candidate


def time_steps(search: Search, model: str, settings: Settings) -> None:
    """Measure the seconds per step of a network by a few steps."""
    moments: list[float] = []

    def is_measured(step: int) -> bool:
        moments.append(search.timer.clock())
        took_long = step > 1 and moments[-1] - moments[0] > MAX_TIMED_SECONDS
        return step >= MAX_TIMED_STEPS or took_long

    inner = search.task.inner
    nothing = inner.train.select(np.empty(0, np.int64))
    context = FitContext(
        device=search.task.device,
        progress=Deadline(search.timer, search.timer.budget - search.reserve()),
        callbacks=(StopWhen(is_measured),),
    )
    spec = network_candidate(model, settings).trial_spec(search.task)
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):
        fit(spec, replace(inner, valid=nothing), context)
    # A coarse clock may measure 0.
    speed = max(statistics.median(np.diff(moments).tolist()), 1e-6)
    search.estimates.speeds[model] = speed
