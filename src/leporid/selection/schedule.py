"""The schedule of a search: classical models, networks, then variants of the best.

A few steps of each network are timed, and all networks get the same time: `plan_steps`.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from leporid import models
from leporid.errors import ConfigError, DataError, GraphError, LeporidWarning
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import (
    FULL,
    INITS,
    NETWORKS,
    RUNGS,
    Candidate,
    Result,
    by_value,
    classical_candidates,
    neural_models,
    neural_settings,
    variant,
    with_inits,
    with_windows,
)
from leporid.selection.runtime_estimates import CONTINUED_STEPS
from leporid.selection.search import Search, entrants_kept
from leporid.training import StopWhen

_REFUSALS = (DataError, ConfigError, GraphError, OutOfTimeError)
"""Why a network or an initialisation is left out."""
_MIN_SECONDS = 15.0
"""With less time left no network is begun: loading torch alone takes a good part of it."""
_MIN_STEPS = 100
"""With fewer steps a network is left out."""
_TIMED_STEPS, _TIMED_SECONDS = 8, 1.0
_MIN_STEP_SECONDS = 1e-6
"""A coarse clock may measure 0."""
_VALIDATIONS = 9
"""Per training, so that every rung ends with one."""
_VALIDATION_USERS = 1_000
_PLAN_MARGIN = 1.25
"""For validations and preparations, which the timed steps do not have."""
_MIN_NETWORKS, _MIN_STEP_SHARE = 2, 0.5
"""Further networks are added only while all have this share of their steps."""
_SHORT_TRAINING, _MIN_BATCH = 1_000, 32
"""A network with fewer steps gets smaller batches, and more of them."""
_PLAN_ATTEMPTS = 200
"""Each with trainings a twentieth shorter."""
_WINDOWS_BELOW = 0.02
"""A model whose fit takes less than this share of the budget is evaluated with every window."""
_NETWORKS_AFTER, _NETWORKS_AFTER_UNORDERED = 0.2, 0.5
"""Share of the budget after which networks begin. Without an order in the log classical models are
above networks (docs/leaderboard.md, Anime)."""
_VARIED_MODELS = 3
"""Models whose settings are varied in one round."""
_WIDE_ROUNDS = 3
"""First rounds, which vary all classical models: defaults say little about a model."""
_EARLY_ROUNDS, _ROUNDS = 10, 30
"""Rounds of variants before and after the networks: more would overfit the inner split."""


def run_schedule(search: Search, only: Sequence[str] | None = None) -> None:
    """Everything there is time for; `only` names the models that take part, None for all."""
    timer, has_order = search.timer, search.evaluator.problem.has_order
    everyone = classical_candidates(only)
    # One after the other here, since the windows of a model need no second fit.
    for group in [[c] for c in everyone] if search.evaluator.workers is None else [everyone]:
        search.round(group)
        if has_order:
            try_windows(search, group)
    networks = any(only is None or name in only for name in NETWORKS) and _has_time(search)
    begin = (_NETWORKS_AFTER if has_order else _NETWORKS_AFTER_UNORDERED) * timer.budget
    for place in range(_EARLY_ROUNDS):
        is_new = place >= len(_rounds(search, "early"))
        if networks and is_new and timer.elapsed >= begin:
            break
        if not vary(search, "early", place):
            break
    planned = plan_networks(search, only) if networks else {}
    inits = {model: _with_inits(search, model, own) for model, own in planned.items()}
    search.bracket([candidate for own in inits.values() for candidate in own])
    for own in inits.values():  # those that were dropped, if there is time
        search.bracket(own)
    phases = ["classical", *(["neural"] if planned else [])]
    for place in range(_ROUNDS):
        phases = [phase for phase in phases if vary(search, phase, place)]


def try_windows(search: Search, candidates: Sequence[Candidate]) -> None:
    """Windows of the newest items, which need no other fit; the best of them in full."""
    limit = _WINDOWS_BELOW * search.timer.budget
    known = (c for c in candidates if (c.key, FULL) in search.results)
    quick = [c for c in known if search.evaluator.estimates.fit_seconds(c) <= limit]
    field = [c for own in quick if (others := with_windows(own)) for c in (own, *others)]
    search.round(_best_of_each(search.round(field, rung=0)).values())


def _has_time(search: Search) -> bool:
    if search.journal.of("plan") or search.timer.left - search.reserve() > _MIN_SECONDS:
        return True
    search.note("left out", model="networks", why="there is too little time for them")
    return False


def plan_networks(search: Search, only: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Settings of the networks that take part, in order; from the journal where it has them."""
    problem, speeds = search.evaluator.problem, search.evaluator.estimates.speeds
    if done := search.journal.of("plan"):
        speeds |= {**done[-1]["speeds"], **speeds}
        return dict(done[-1]["settings"])
    settings = {
        name: neural_settings(name, problem.inner.train, problem.metric, _VALIDATION_USERS)
        for name in neural_models(problem.has_order)
        if only is None or name in only
    }
    inits = possible_inits(search, settings)
    planned = _take_part(search, settings) if inits else {}
    for name, n in planned.items():
        if n < _SHORT_TRAINING:
            size = _config(name, settings[name]).batch_size * n // _SHORT_TRAINING
            settings[name]["batch_size"] = max(2 ** max(size, 1).bit_length() // 2, _MIN_BATCH)
            speeds.pop(name)
    planned = _take_part(search, {name: settings[name] for name in planned})
    chosen = {
        name: {**settings[name], "steps": n, "eval_every": max(1, n // _VALIDATIONS)}
        for name, n in planned.items()
    }
    search.note("plan", settings=chosen, speeds=speeds, inits=inits)
    return chosen


def possible_inits(search: Search, settings: Mapping[str, dict[str, Any]]) -> list[str]:
    """The initialisations there is time for; they are computed here, for all networks."""
    possible, timer = [], search.timer
    for model, own in list(settings.items())[:1]:
        for candidate in with_inits(model, own):
            guard = Guard(timer, timer.elapsed + (timer.left - search.reserve()) / 3)
            try:
                search.evaluator.embeddings(candidate, guard)
                possible.append(str(candidate.init))
            except _REFUSALS as error:
                name = f"initialisation {candidate.init}"
                search.note("left out", model=name, why=str(error))
    return possible


def _take_part(search: Search, settings: Mapping[str, dict[str, Any]]) -> dict[str, int]:
    """The steps of the networks that take part: the first two, and more if there is time."""
    whole: dict[str, int] = {}
    planned: dict[str, int] = {}
    for name, own in settings.items():
        if search.timer.left - search.reserve() < _MIN_SECONDS / 2:
            break
        try:
            time_steps(search, name, own)
        except _REFUSALS as error:
            search.note("left out", model=name, why=str(error))
            continue
        more = {**{n: whole[n] for n in planned}, name: _config(name, own).steps}
        left = search.timer.left - search.reserve()
        new = plan_steps(more, search.evaluator.estimates.speeds, left)
        has_few = any(new.get(n, 0) < _MIN_STEP_SHARE * more[n] for n in more)
        if has_few and len(planned) >= _MIN_NETWORKS:
            break
        whole, planned = more, new
    for name in (n for n in settings if n not in planned):
        search.note("left out", model=name, why="its training does not fit into the time left")
    return planned


def time_steps(search: Search, model: str, settings: Mapping[str, Any]) -> None:
    """Measure the seconds per step of a network by a few steps, unless they are known."""
    at: list[float] = []

    def stop(step: int) -> bool:
        at.append(search.timer.clock())
        return step >= _TIMED_STEPS or (step > 1 and at[-1] - at[0] > _TIMED_SECONDS)

    problem, speeds = search.evaluator.problem, search.evaluator.estimates.speeds
    if model not in speeds:
        network: Any = models.get(model)(**{**settings, "eval_every": 0})
        guard = Guard(search.timer, search.timer.budget - search.reserve())
        how = {"device": problem.device, "progress": guard, "callbacks": [StopWhen(stop)]}
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            network.fit(problem.inner, seed=problem.seed, **how)
        speeds[model] = max(statistics.median(np.diff(at).tolist()), _MIN_STEP_SECONDS)


def _config(model: str, settings: Mapping[str, Any]) -> Any:
    return models.get(model).config_class.from_dict(settings)


def _with_inits(search: Search, model: str, settings: Mapping[str, Any]) -> list[Candidate]:
    """A network with all initialisations that take part."""
    return with_inits(model, settings, search.journal.of("plan")[-1]["inits"])


def vary(search: Search, phase: str, place: int) -> bool:
    """One round of variants; whether there was time for any of them.

    A round is in the journal before it begins, so that a killed search goes on with the same.
    """
    search.journal.reload()
    rounds = _rounds(search, phase)
    if place < len(rounds):
        field = [Candidate.from_dict(about) for about in rounds[place]["candidates"]]
    else:
        everyone = phase == "early" and place < _WIDE_ROUNDS
        count = None if everyone else _VARIED_MODELS
        field = _new_neural(search) if phase == "neural" else _new_classical(search, count)
        if not field:
            return False
        search.note("round", phase=phase, candidates=[c.to_dict() for c in field])
    if phase == "neural":
        search.bracket(field)
        return any(search.is_settled(candidate, 0) for candidate in field[:-1])
    search.round(field)
    return any(search.is_settled(candidate, FULL) for candidate in field)


def _rounds(search: Search, phase: str) -> list[dict[str, Any]]:
    return [event for event in search.journal.of("round") if event["phase"] == phase]


def _new_classical(search: Search, count: int | None) -> list[Candidate]:
    """A new variant of each of the leading classical models, or of all of them."""
    field, late = [], {candidate.model for candidate in search.late.values()}
    for model, best in list(_varied(search, "classical").items())[:count]:
        if model not in late and (settings := _new(search, best)) is not None:
            field.append(Candidate(model=model, settings=settings))
    return field


def _new_neural(search: Search) -> list[Candidate]:
    """A new variant of the leading network with every initialisation, and that network."""
    for model, best in _varied(search, "neural").items():
        if (settings := _new(search, best)) is not None:
            return [*_with_inits(search, model, settings), best]
    return []


def _varied(search: Search, kind: str) -> dict[str, Candidate]:
    """The best finished candidate of each model of a kind that has a search space."""
    return _best_of_each(
        result
        for result in search.finished
        if result.candidate.kind == kind and models.get(result.candidate.model).search_space
    )


def _best_of_each(results: Iterable[Result]) -> dict[str, Candidate]:
    """The best candidate of each model, the best model first."""
    best: dict[str, Candidate] = {}
    for result in sorted(results, key=by_value):
        best.setdefault(result.candidate.model, result.candidate)
    return best


def _new(search: Search, best: Candidate) -> dict[str, Any] | None:
    """Settings of a model that were not tried; None where 20 draws find none."""
    drawn = [c for event in search.journal.of("round") for c in event["candidates"]]
    tried = [c["settings"] for c in drawn if c["model"] == best.model]
    tried += [r.candidate.settings for r in search.finished if r.candidate.model == best.model]
    seed = search.evaluator.problem.seed
    places = range(20 * len(tried), 20 * len(tried) + 20)
    variants = (variant(best.model, best.settings, place, seed) for place in places)
    return next((settings for settings in variants if settings not in tried), None)


def plan_steps(
    steps: Mapping[str, int], seconds: Mapping[str, float], left: float
) -> dict[str, int]:
    """How many steps each network gets, at most its `steps`; the quickest training first.

    `seconds` are those of one step. Every network gets the same time for a training: the longest
    with which the search and the final fits fit into what is `left`. A network with too few steps
    is left out.
    """
    longest = max((steps[name] * seconds[name] for name in steps), default=0.0)
    for _ in range(_PLAN_ATTEMPTS):
        planned = {name: min(n, int(longest / seconds[name])) for name, n in steps.items()}
        planned = {name: n for name, n in planned.items() if n >= min(_MIN_STEPS, steps[name])}
        full = {name: n * seconds[name] for name, n in planned.items()}
        if _search_seconds(list(full.values())) <= left:
            return dict(sorted(planned.items(), key=lambda pair: full[pair[0]]))
        longest *= 0.95
    return {}


def _search_seconds(full: Sequence[float]) -> float:
    """A bracket of these trainings with every initialisation, and the final fits, at worst."""
    entrants = sorted([*full] * len(INITS), reverse=True)
    done, total = 0.0, 0.0
    for rung in RUNGS:
        total += (rung.steps - done) * sum(entrants)
        entrants, done = entrants[: entrants_kept(len(entrants))], rung.steps
    return _PLAN_MARGIN * (total + 2 * CONTINUED_STEPS * max(full, default=0.0))
