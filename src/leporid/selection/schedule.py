"""The schedule of a search: classical models, networks, then variants of the best.

A few steps of each network are timed, and all networks get the same time: `plan_steps`.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leporid import models
from leporid.errors import ConfigError, DataError, GraphError, LeporidWarning
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import (
    INITS,
    NETWORKS,
    Candidate,
    classical_candidates,
    neural_models,
    neural_settings,
    variant,
    with_inits,
    with_windows,
)
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import CONTINUED_STEPS
from leporid.selection.search import Search, entrants_kept
from leporid.selection.trial import FULL, RUNGS, by_value
from leporid.training import StopWhen

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


@dataclass
class Schedule:
    """The rounds of one search."""

    search: Search
    only: Sequence[str] | None = None
    """The models that take part; None for all."""

    @property
    def evaluator(self) -> TrialEvaluator:
        """Of the search."""
        return self.search.evaluator

    def run(self) -> None:
        """Everything there is time for."""
        search, timer = self.search, self.search.timer
        everyone = classical_candidates(self.only)
        # One after the other here, since the windows of a model need no second fit.
        for group in [[c] for c in everyone] if self.evaluator.workers is None else [everyone]:
            search.round(group)
            self._try_windows(group)
        networks = self._may_train()
        ordered = self.evaluator.problem.has_order
        early = _NETWORKS_AFTER if ordered else _NETWORKS_AFTER_UNORDERED
        for place in range(_EARLY_ROUNDS):
            begun = place < len(self._rounds("early"))
            if networks and not begun and timer.elapsed >= early * timer.budget:
                break
            if not self._vary("early", place):
                break
        planned = self._plan() if networks else {}
        search.bracket([c for model, own in planned.items() for c in self._with_inits(model, own)])
        for model, own in planned.items():  # those that were dropped, if there is time
            search.bracket(self._with_inits(model, own))
        phases = ["classical", *(["neural"] if planned else [])]
        for place in range(_ROUNDS):
            phases = [phase for phase in phases if self._vary(phase, place)]

    def _takes_part(self, model: str) -> bool:
        return self.only is None or model in self.only

    def _try_windows(self, candidates: Sequence[Candidate]) -> None:
        """Windows of the newest items, which need no other fit; the best of them in full."""
        if not self.evaluator.problem.has_order:
            return
        limit = _WINDOWS_BELOW * self.search.timer.budget
        known = (c for c in candidates if (c.key, FULL) in self.search.results)
        quick = [c for c in known if self.evaluator.estimates.fit_seconds(c) <= limit]
        field = [c for own in quick if (others := with_windows(own)) for c in (own, *others)]
        best: dict[str, Candidate] = {}
        for result in sorted(self.search.round(field, rung=0), key=by_value):
            best.setdefault(result.candidate.model, result.candidate)
        self.search.round(best.values())

    def _may_train(self) -> bool:
        if not any(self._takes_part(name) for name in NETWORKS):
            return False
        search = self.search
        if search.journal.of("plan") or search.timer.left - search.reserve() > _MIN_SECONDS:
            return True
        search.note("left out", model="networks", why="there is too little time for them")
        return False

    def _plan(self) -> dict[str, dict[str, Any]]:
        """Settings of the networks that take part, in order; from the journal where it has them."""
        search, evaluator = self.search, self.evaluator
        if done := search.journal.of("plan"):
            speeds = {**done[-1]["speeds"], **evaluator.estimates.speeds}
            evaluator.estimates.speeds = speeds
            return dict(done[-1]["settings"])
        settings = {
            name: neural_settings(
                name, evaluator.problem.inner.train, evaluator.metric, _VALIDATION_USERS
            )
            for name in neural_models(evaluator.problem.has_order)
            if self._takes_part(name)
        }
        inits = self._possible_inits(settings)
        planned = self._take_part(settings) if inits else {}
        for name, n in planned.items():
            if n < _SHORT_TRAINING:
                size = self._config(name, settings[name]).batch_size * n // _SHORT_TRAINING
                settings[name]["batch_size"] = max(2 ** max(size, 1).bit_length() // 2, _MIN_BATCH)
                evaluator.estimates.speeds.pop(name)
        planned = self._take_part({name: settings[name] for name in planned})
        chosen = {
            name: {**settings[name], "steps": n, "eval_every": max(1, n // _VALIDATIONS)}
            for name, n in planned.items()
        }
        self.search.note("plan", settings=chosen, speeds=evaluator.estimates.speeds, inits=inits)
        return chosen

    def _take_part(self, settings: Mapping[str, dict[str, Any]]) -> dict[str, int]:
        """The steps of the networks that take part: the first two, and more if there is time."""
        search = self.search
        steps: dict[str, int] = {}
        planned: dict[str, int] = {}
        for name, own in settings.items():
            if search.timer.left - search.reserve() < _MIN_SECONDS / 2:
                break
            try:
                whole, _ = self._config(name, own).steps, self._speed(name, own)
            except (DataError, ConfigError, GraphError, OutOfTimeError) as error:
                self.search.note("left out", model=name, why=str(error))
                continue
            more = {**{n: steps[n] for n in planned}, name: whole}
            left = search.timer.left - search.reserve()
            new = plan_steps(more, self.evaluator.estimates.speeds, left)
            if len(planned) >= _MIN_NETWORKS and any(
                new.get(n, 0) < _MIN_STEP_SHARE * more[n] for n in more
            ):
                break
            steps, planned = more, new
        for name in (n for n in settings if n not in planned):
            search.note("left out", model=name, why="its training does not fit into the time left")
        return planned

    def _config(self, model: str, settings: Mapping[str, Any]) -> Any:
        return models.get(model).config_class.from_dict(settings)

    def _speed(self, model: str, settings: dict[str, Any]) -> float:
        """Seconds per step of a network, from a few steps."""
        at: list[float] = []

        def stop(step: int) -> bool:
            at.append(self.search.timer.clock())
            return step >= _TIMED_STEPS or (step > 1 and at[-1] - at[0] > _TIMED_SECONDS)

        search, problem = self.search, self.evaluator.problem
        speeds = self.evaluator.estimates.speeds
        if model not in speeds:
            network: Any = models.get(model)(**{**settings, "eval_every": 0})
            guard = Guard(search.timer, search.timer.budget - search.reserve())
            how = {"device": problem.device, "progress": guard, "callbacks": [StopWhen(stop)]}
            with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                network.fit(problem.inner, seed=problem.seed, **how)
            seconds = statistics.median(np.diff(at).tolist())
            speeds[model] = max(seconds, _MIN_STEP_SECONDS)
        return speeds[model]

    def _possible_inits(self, settings: Mapping[str, dict[str, Any]]) -> list[str]:
        """The initialisations there is time for; they are computed here, for all networks."""
        possible, timer = [], self.search.timer
        for name in INITS if settings else ():
            model, own = next(iter(settings.items()))
            candidate = Candidate(model=model, init=name, settings=own, kind="neural")
            guard = Guard(timer, timer.elapsed + (timer.left - self.search.reserve()) / 3)
            try:
                self.evaluator.embeddings(candidate, guard)
                possible.append(name)
            except (DataError, ConfigError, GraphError, OutOfTimeError) as error:
                self.search.note("left out", model=f"initialisation {name}", why=str(error))
        return possible

    def _with_inits(self, model: str, settings: Mapping[str, Any]) -> list[Candidate]:
        """A network with all initialisations that take part."""
        return with_inits(model, settings, self.search.journal.of("plan")[-1]["inits"])

    def _vary(self, phase: str, place: int) -> bool:
        """One round of variants; whether there was time for any of them.

        A round is in the journal before it begins, so that a killed search goes on with the same.
        """
        self.search.journal.reload()
        rounds = self._rounds(phase)
        if place < len(rounds):
            field = [Candidate.from_dict(about) for about in rounds[place]["candidates"]]
        else:
            wide = phase == "early" and place < _WIDE_ROUNDS
            field = self._new_neural() if phase == "neural" else self._new_classical(wide)
            if not field:
                return False
            self.search.note("round", phase=phase, candidates=[c.to_dict() for c in field])
        if phase == "neural":
            self.search.bracket(field)
            return any(self.search.is_settled(candidate, 0) for candidate in field[:-1])
        self.search.round(field)
        return any(self.search.is_settled(candidate, FULL) for candidate in field)

    def _rounds(self, phase: str) -> list[dict[str, Any]]:
        return [event for event in self.search.journal.of("round") if event["phase"] == phase]

    def _new_classical(self, wide: bool) -> list[Candidate]:
        """A new variant of each leading classical model, or of all of them."""
        field, late = [], {candidate.model for candidate in self.search.late.values()}
        for model, best in list(self._best("classical").items())[
            : None if wide else _VARIED_MODELS
        ]:
            if model not in late and (settings := self._new(model, best.settings)) is not None:
                field.append(Candidate(model=model, settings=settings))
        return field

    def _new_neural(self) -> list[Candidate]:
        """A new variant of the leading network with every initialisation, and that network."""
        for model, best in self._best("neural").items():
            if (settings := self._new(model, best.settings)) is not None:
                return [*self._with_inits(model, settings), best]
        return []

    def _best(self, kind: str) -> dict[str, Candidate]:
        """The best finished candidate of each model of a kind, the best model first."""
        ranked = sorted(self.search.finished, key=by_value)
        best: dict[str, Candidate] = {}
        for result in ranked:
            if result.candidate.kind == kind and models.get(result.candidate.model).search_space:
                best.setdefault(result.candidate.model, result.candidate)
        return best

    def _new(self, model: str, base: Mapping[str, Any]) -> dict[str, Any] | None:
        """Settings of this model that were not tried; None where 20 draws find none."""
        drawn = [c for event in self.search.journal.of("round") for c in event["candidates"]]
        tried = [c["settings"] for c in drawn if c["model"] == model]
        tried += [r.candidate.settings for r in self.search.finished if r.candidate.model == model]
        for attempt in range(20):
            settings = variant(model, base, 20 * len(tried) + attempt, self.evaluator.problem.seed)
            if settings not in tried:
                return settings
        return None


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
