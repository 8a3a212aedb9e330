"""The schedule of a search, to be read from `run_schedule` down.

Every quick classical model gets its first trial, the networks get their share of the time, then the
slow classical models, and what is left goes to variants of the models with the highest upper
confidence bound.
"""

import math
import statistics
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from leporid import models
from leporid.errors import ConfigError, DataError, GraphError, LeporidWarning
from leporid.evaluation import probe
from leporid.models import FitContext, StopWhen
from leporid.selection.budget import Guard, OutOfTimeError, format_duration
from leporid.selection.candidates import (
    Candidate,
    classical_candidates,
    neural_models,
    variant,
)
from leporid.selection.priors import NETWORKS, expected_shares
from leporid.selection.runtime_estimates import CONTINUED_SHARE_OF_STEPS
from leporid.selection.search import Search

REASONS_TO_LEAVE_OUT = (DataError, ConfigError, GraphError, OutOfTimeError)
SLOW_FIT_SHARE = 0.03
DRAWN_VARIANTS, TIMED_VARIANTS = 20, 8
VARIED_MODELS_PER_ROUND = 3
MAX_VARIANT_ROUNDS = 60
POSSIBLE_GAIN = 0.1
NETWORK_SHARE, NETWORK_SHARE_WITH_ORDER_OR_GPU = 0.5, 0.85
MAX_NETWORKS, MIN_SHARE_OF_BEST_EXPECTED = 2, 0.75
MIN_NETWORK_SECONDS = 15.0
MIN_STEPS, ENOUGH_STEPS, SMALLER_BATCHES_BELOW_STEPS = 300, 1_000, 1_500
MIN_BATCH, MIN_SHARE_OF_BATCH = 32, 1 / 4
VALIDATIONS_PER_TRAINING, VALIDATION_USERS = 8, 1_000
MARGIN_FOR_VALIDATIONS = 1.15
MAX_TIMED_STEPS, MAX_TIMED_SECONDS = 8, 1.0
MAX_INIT_SHARE, PROBED_USERS = 0.15, 2_000
FIRST_INIT, FIRST_INIT_MIN_SHARE_OF_BEST = "leporid", 0.5


def run_schedule(search: Search, only: Sequence[str] | None = None) -> None:
    """Everything there is time for; `only` names the models that take part, None for all."""
    problem = search.problem
    everyone = classical_candidates(problem.statistics, only, problem.items)
    search.round(
        candidate for candidate in everyone if candidate.model in problem.baselines
    )
    networks = _networks(search, only)
    has_gpu = bool(networks) and _has_gpu(problem.device)
    favoured = has_gpu or problem.statistics["has_order"]
    share = NETWORK_SHARE_WITH_ORDER_OR_GPU if favoured else NETWORK_SHARE
    if has_gpu:
        train_networks(search, networks, share)
    seconds, limit = search.estimates.fit_seconds, SLOW_FIT_SHARE * search.timer.budget
    slow = [
        candidate
        for candidate in everyone
        if search.has_time and seconds(candidate) > limit
    ]
    search.round(candidate for candidate in everyone if candidate not in slow)
    if networks and not has_gpu:
        train_networks(search, networks, share)
    search.round(slow)
    for place in range(MAX_VARIANT_ROUNDS):
        if not vary(search, place):
            break


def _networks(search: Search, only: Sequence[str] | None) -> list[str]:
    """The networks that take part, if there is time for any."""
    takes_part = only is None or bool({*only} & {*NETWORKS})
    if not takes_part or not _has_network_time(search):
        return []
    about = search.problem.statistics
    names, expected = neural_models(about, only), expected_shares(about)
    best = max((expected.get(name, 0.0) for name in names), default=0.0)
    least = MIN_SHARE_OF_BEST_EXPECTED * best
    return [
        name for name in names if expected.get(name, 1.0) >= least or only is not None
    ]


def _has_network_time(search: Search) -> bool:
    left = max(search.timer.left - search.reserve(), 0.0)
    if left >= MIN_NETWORK_SECONDS or search.journal.of("plan"):
        return True
    why = f"{format_duration(left)} were left, too little to train one"
    search.note("left out", model="networks", why=why)
    return False


def vary(search: Search, place: int) -> bool:
    """A variant of each of the models with the highest bounds; whether there was time for any.

    A round is in the journal before it begins, so that a killed search goes on with the same.
    """
    rounds, best = search.journal.of("round"), search.best_of_each()
    if place < len(rounds):
        field = [Candidate.from_dict(about) for about in rounds[place]["candidates"]]
    else:
        ranked = sorted(upper_bounds(search).items(), key=lambda pair: -pair[1])
        new = (
            _new(search, best[model].candidate)
            for model, _ in ranked
            if search.has_time
        )
        field = list(islice(filter(None, new), VARIED_MODELS_PER_ROUND))
        if not field:
            return False
        search.note("round", candidates=[c.to_dict() for c in field])
    search.round(field)
    return any(search.is_settled(candidate) for candidate in field)


def upper_bounds(search: Search) -> dict[str, float]:
    """What each model may still reach: its best, and the more the less time it had.

    A trial that took long counts as several.
    """
    unit = 0.05 * search.timer.budget
    trials: Counter[str] = Counter()
    for result in search.results.values():
        trials[result.candidate.model] += 1 + int(result.seconds / unit)
    total = math.log(1 + sum(trials.values()))
    return {
        name: best.value * (1 + POSSIBLE_GAIN * math.sqrt(total / trials[name]))
        for name, best in search.best_of_each().items()
        if models.get(name).search_space
    }


def _new(search: Search, best: Candidate) -> Candidate | None:
    """A variant of a candidate that was not tried and that there is time for; None: no draw is.

    A network is first tried with the item table, then with the next initialisation.
    """
    rounds = [c for event in search.journal.of("round") for c in event["candidates"]]
    tried = {Candidate.from_dict(c).key for c in rounds if c["model"] == best.model}
    tried |= {
        r.candidate.key
        for r in search.results.values()
        if r.candidate.model == best.model
    }
    places = range(DRAWN_VARIANTS * len(tried), DRAWN_VARIANTS * (len(tried) + 1))
    others = (
        [best.replace(init=init) for init in ranked_inits(search)] if best.init else []
    )
    if best.init and (items := search.problem.items):
        others.insert(0, best.replace(settings={**best.settings, "item_table": items}))
    drawn = (variant(best.model, best.settings, n, search.problem.seed) for n in places)
    others += [best.replace(settings=settings) for settings in drawn]
    new = [other for other in others if other.key not in tried]
    return next(
        (other for other in new[:TIMED_VARIANTS] if not search.obstacle(other)), None
    )


def train_networks(search: Search, names: Sequence[str], share: float) -> None:
    """The planned networks, from the best initialisation."""
    plan = plan_networks(search, names, share) if _has_network_time(search) else {}
    if not plan:
        return
    init = next(iter(ranked_inits(search)))
    search.round(
        Candidate(model=name, init=init, settings=own) for name, own in plan.items()
    )


def plan_networks(
    search: Search, names: Sequence[str], share: float
) -> dict[str, dict[str, Any]]:
    """Settings of the networks that take part; from the journal where it has them."""
    problem, speeds = search.problem, search.estimates.speeds
    if done := search.journal.of("plan"):
        speeds |= {**done[-1]["speeds"], **speeds}
        return dict(done[-1]["settings"])
    settings = {
        name: problem.network_settings(name, VALIDATION_USERS) for name in names
    }
    if not rank_inits(search, names[0], settings[names[0]]):
        return {}
    # One that wins needs no time for the end of the leader; one that does not needs no end.
    whole = share * (search.timer.left - search.end_seconds())
    least = search.timer.left - search.reserve()
    alone, each = (training_seconds(whole, least, entrants) for entrants in (1, 2))
    timed: dict[str, dict[str, Any]] = {}
    steps: dict[str, int] = {}
    halves: dict[str, int] = {}
    for name, own in settings.items():
        if search.timer.left - search.reserve() < alone:
            break  # timing the others took too long
        if (fitted := _timed_plan(search, name, own, alone)) is None:
            continue
        timed[name] = fitted
        steps[name], halves[name] = (
            _steps(search, name, fitted, s) for s in (alone, each)
        )
        if steps[name] >= ENOUGH_STEPS > halves[name] or len(timed) == MAX_NETWORKS:
            break
    if len(timed) == MAX_NETWORKS and min(halves.values()) >= ENOUGH_STEPS:
        steps = halves
    elif timed:
        # The first that has enough; where none has, the one that comes nearest.
        best = max(steps, key=lambda name: min(steps[name], ENOUGH_STEPS))
        known = {best, *(event["model"] for event in search.journal.of("left out"))}
        for name in (name for name in settings if name not in known):
            config: Any = models.get(name).config_class.from_dict(settings[name])
            takes = format_duration(config.steps * speeds.get(name, 0.0))
            length = (
                f"; {config.steps:,} steps of it take about {takes}"
                if name in speeds
                else ""
            )
            why = f"there was time for one network, {best}{length}"
            search.note("left out", model=name, why=why)
        steps = {best: steps[best]}
    planned = {
        name: _with_steps(name, timed[name], count) for name, count in steps.items()
    }
    search.note("plan", settings=planned, speeds=speeds)
    return planned


def _with_steps(name: str, settings: dict[str, Any], steps: int) -> dict[str, Any]:
    config: Any = models.get(name).config_class.from_dict(settings)
    every = max(1, min(config.eval_every, steps // VALIDATIONS_PER_TRAINING))
    return {**settings, "steps": steps, "eval_every": every}


def training_seconds(whole: float, least: float, entrants: int) -> float:
    """Seconds of one training: all trainings and final fits take `whole`, trainings `least`."""
    return (
        min(whole / (entrants + 2 * CONTINUED_SHARE_OF_STEPS), least / entrants)
        / MARGIN_FOR_VALIDATIONS
    )


def _steps(search: Search, name: str, settings: dict[str, Any], seconds: float) -> int:
    """The steps of a network that these seconds allow, and its recipe asks for."""
    config: Any = models.get(name).config_class.from_dict(settings)
    return min(int(seconds / search.estimates.speeds[name]), int(config.steps))


def _timed_plan(
    search: Search, name: str, settings: dict[str, Any], seconds: float
) -> dict[str, Any] | None:
    """The settings of a network with batches for so short a training; None: too few steps."""
    config: Any = models.get(name).config_class.from_dict(settings)
    smallest = max(MIN_BATCH, int(MIN_SHARE_OF_BATCH * config.batch_size))
    try:
        time_steps(search, name, settings)
        steps = _steps(search, name, settings, seconds)
        if (
            steps < min(SMALLER_BATCHES_BELOW_STEPS, config.steps)
            and config.batch_size > smallest
        ):
            size = max(config.batch_size * steps // SMALLER_BATCHES_BELOW_STEPS, 1)
            settings = {
                **settings,
                "batch_size": max(2 ** (size.bit_length() - 1), smallest),
            }
            time_steps(search, name, settings)
            steps = _steps(search, name, settings, seconds)
    except REASONS_TO_LEAVE_OUT as error:
        search.note("left out", model=name, why=str(error))
        return None
    if steps < min(MIN_STEPS, config.steps):
        whole = format_duration(config.steps * search.estimates.speeds[name])
        why = f"{format_duration(seconds)} are {steps:,} steps of its training here, and fewer "
        why += (
            f"than {MIN_STEPS} say nothing; {config.steps:,} steps take about {whole}"
        )
        search.note("left out", model=name, why=why)
        return None
    return settings


def time_steps(search: Search, model: str, settings: Mapping[str, Any]) -> None:
    """Measure the seconds per step of a network by a few steps."""
    at: list[float] = []

    def stop(step: int) -> bool:
        at.append(search.timer.clock())
        return step >= MAX_TIMED_STEPS or (
            step > 1 and at[-1] - at[0] > MAX_TIMED_SECONDS
        )

    problem = search.problem
    network: Any = models.get(model)(**settings)
    nothing = problem.inner.train.select(np.empty(0, np.int64))
    split = replace(problem.inner, valid=nothing)
    guard = Guard(search.timer, search.timer.budget - search.reserve())
    context = FitContext(
        device=problem.device, progress=guard, callbacks=(StopWhen(stop),)
    )
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):
        network.fit(split, seed=problem.seed, context=context)
    # A coarse clock may measure 0.
    speed = max(statistics.median(np.diff(at).tolist()), 1e-6)
    search.estimates.speeds[model] = speed


def ranked_inits(search: Search) -> dict[str, float]:
    """The initialisations with what their vectors alone predict, the first to train from first."""
    events = search.journal.of("inits")
    values = dict(events[-1]["values"]) if events else {}
    trusted = values.get(FIRST_INIT, 0.0)
    if trusted < FIRST_INIT_MIN_SHARE_OF_BEST * max(values.values(), default=1.0):
        return values
    return {FIRST_INIT: trusted, **values}


def rank_inits(
    search: Search, model: str, settings: dict[str, Any]
) -> dict[str, float]:
    """Probe the initialisations: how well their vectors predict without any training."""
    timer, inner, values = search.timer, search.problem.inner, {}
    users = np.unique(inner.test.user)
    some = inner.test.select(
        np.isin(inner.test.user, users[:: -(-len(users) // PROBED_USERS)])
    )
    for init in search.problem.inits:
        guard = Guard(
            timer, timer.elapsed + MAX_INIT_SHARE * (timer.left - search.reserve())
        )
        candidate = Candidate(model=model, init=init, settings=settings)
        try:
            vectors = search.evaluator.embeddings(candidate, guard)
            found = probe(vectors, replace(inner, test=some), part="test").value()
            values[init] = round(found["both"], 4)
        except REASONS_TO_LEAVE_OUT as error:
            search.note("left out", model=f"initialisation {init}", why=str(error))
    values = dict(sorted(values.items(), key=lambda pair: -pair[1]))
    search.note("inits", values=values)
    return values


def _has_gpu(device: str) -> bool:
    from leporid.models import resolve_device  # loads torch

    return bool(resolve_device(device).type != "cpu")
