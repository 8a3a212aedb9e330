"""What is run in which order: first answers, classical models, networks, then variants of the best.

A few steps of a network are timed, and all that take part get the same time: `plan_steps`.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leporid import models
from leporid.errors import ConfigError, DataError, GraphError, LeporidWarning
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import (
    NETWORKS,
    STARTS,
    Candidate,
    classical_candidates,
    first_candidates,
    from_all_starts,
    neural_models,
    neural_settings,
    variant,
    with_windows,
)
from leporid.selection.evaluator import GOES_ON, Rehearsal
from leporid.selection.search import FULL, RUNGS, Race, by_value, entrants_kept
from leporid.training import StopWhen

LEAST_SECONDS = 15.0
"""With less time left networks are not begun: loading them alone takes a good part of it."""
_LEAST = 100
"""Steps: with fewer a network is not begun."""
_TIMED_STEPS, _TIMED_SECONDS = 8, 1.0
_QUICKEST = 1e-6
"""Seconds of a step at least: a coarse clock sees none."""
_VALIDATIONS = 9
"""Of a training, so that every rung ends with one."""
_VALIDATION_USERS = 1_000
_MARGIN = 1.25
"""For validations and preparations, which the timed steps do not have."""
_FIELD, _WHOLE = 2, 0.5
"""Networks that take part in any case; others only while all have this share of their steps."""
_FEW, _SMALLEST = 1_000, 32
"""A network with fewer steps gets smaller batches, and more of them; a batch at least."""
_ATTEMPTS = 200
"""Each with trainings a twentieth shorter."""
_QUICK = 0.02
"""Of the budget: a model that is fitted in less is tried with every window."""
_EARLY_SHARE, _EARLY_SHARE_UNORDERED = 0.2, 0.5
"""Of the budget: when networks are begun, however many variants there were before. Where there is
no order to read, classical models are ahead (docs/leaderboard.md, Anime)."""
_FAMILIES = 3
"""Models whose settings are varied at the same time."""
_WIDE_ROUNDS = 3
"""First rounds of variants, of all classical models: defaults say little of what a model can do."""
_EARLY_ROUNDS, _ROUNDS = 10, 30
"""Of variants, before the networks and after them: more would fit the rehearsal, not the log."""


@dataclass
class Programme:
    """One race on one log."""

    race: Race
    judge: Rehearsal
    facts: Mapping[str, Any]
    metric: str
    tell: Callable[[dict[str, Any]], None]
    only: Sequence[str] | None = None
    """The models that take part; None for all."""

    def run(self) -> None:
        """Everything there is time for."""
        race, timer = self.race, self.race.timer
        first = [c for c in first_candidates() if self._takes_part(c.model)]
        everyone = [*first, *classical_candidates(self.only)]
        # One after the other here, since the windows of a model need no second fit.
        for group in [[c] for c in everyone] if self.judge.workers is None else [everyone]:
            race.heat(group)
            self._try_windows(group)
        networks = self._may_train()
        early = _EARLY_SHARE if self.facts["has an order"] else _EARLY_SHARE_UNORDERED
        for place in range(_EARLY_ROUNDS):
            begun = place < len(self._rounds("early"))
            if networks and not begun and timer.elapsed >= early * timer.budget:
                break
            if not self._vary("early", place):
                break
        planned = self._plan() if networks else {}
        race.bracket([c for model, own in planned.items() for c in self._field(model, own)])
        for model, own in planned.items():  # those that have not come to the end, with time enough
            race.bracket(self._field(model, own))
        phases = ["classical", *(["neural"] if planned else [])]
        for place in range(_ROUNDS):
            phases = [phase for phase in phases if self._vary(phase, place)]

    def _takes_part(self, model: str) -> bool:
        return self.only is None or model in self.only

    def _try_windows(self, candidates: Sequence[Candidate]) -> None:
        """Profiles of the newest items, which the same fit can answer; the best of them in full."""
        if not self.facts["has an order"]:
            return
        limit, judged = _QUICK * self.race.timer.budget, self.race.results
        known = (c for c in candidates if (c.key, FULL) in judged)
        quick = [c for c in known if self.judge.fit_seconds(c) <= limit]
        field = [c for own in quick if (others := with_windows(own)) for c in (own, *others)]
        best: dict[str, Candidate] = {}
        for result in sorted(self.race.heat(field, rung=0), key=by_value):
            best.setdefault(result.candidate.model, result.candidate)
        self.race.heat(best.values())

    def _may_train(self) -> bool:
        if not any(self._takes_part(name) for name in NETWORKS):
            return False
        known = bool(self.race.journal.of("plan"))
        enough = known or self.race.timer.left - self.race.reserve() > LEAST_SECONDS
        if not enough:
            self._note("left out", model="networks", why="there is too little time for them")
        return enough

    def _plan(self) -> dict[str, dict[str, Any]]:
        """Settings of the networks that take part, in order; from the journal where it has them."""
        race, judge = self.race, self.judge
        if done := race.journal.of("plan"):
            judge.speeds = {**done[-1]["speeds"], **judge.speeds}
            return dict(done[-1]["settings"])
        settings = {
            name: neural_settings(name, judge.stage.train, self.metric, _VALIDATION_USERS)
            for name in neural_models(self.facts)
            if self._takes_part(name)
        }
        starts = self._open_starts(settings)
        planned = self._take_part(settings) if starts else {}
        for name, n in planned.items():
            if n < _FEW:
                size = self._config(name, settings[name]).batch_size * n // _FEW
                settings[name]["batch_size"] = max(2 ** max(size, 1).bit_length() // 2, _SMALLEST)
                judge.speeds.pop(name)
        planned = self._take_part({name: settings[name] for name in planned})
        chosen = {
            name: {**settings[name], "steps": n, "eval_every": max(1, n // _VALIDATIONS)}
            for name, n in planned.items()
        }
        self._note("plan", settings=chosen, speeds=judge.speeds, starts=starts)
        return chosen

    def _take_part(self, settings: Mapping[str, dict[str, Any]]) -> dict[str, int]:
        """The steps of those that race: the first of the order, and more where time is plenty."""
        race = self.race
        steps: dict[str, int] = {}
        planned: dict[str, int] = {}
        for name, own in settings.items():
            if race.timer.left - race.reserve() < LEAST_SECONDS / 2:
                break
            try:
                whole, _ = self._config(name, own).steps, self._speed(name, own)
            except (DataError, ConfigError, GraphError, OutOfTimeError) as error:
                self._note("left out", model=name, why=str(error))
                continue
            more = {**{n: steps[n] for n in planned}, name: whole}
            new = plan_steps(more, self.judge.speeds, race.timer.left - race.reserve())
            if len(planned) >= _FIELD and any(new.get(n, 0) < _WHOLE * more[n] for n in more):
                break
            steps, planned = more, new
        for name in (n for n in settings if n not in planned):
            self._note("left out", model=name, why="its training does not fit into the time left")
        return planned

    def _config(self, model: str, settings: Mapping[str, Any]) -> Any:
        return models.get(model).config_class.from_dict(settings)

    def _speed(self, model: str, settings: dict[str, Any]) -> float:
        """Seconds per step of a network, from a few steps."""
        at: list[float] = []

        def stop(step: int) -> bool:
            at.append(self.race.timer.clock())
            return step >= _TIMED_STEPS or (step > 1 and at[-1] - at[0] > _TIMED_SECONDS)

        judge, race = self.judge, self.race
        if model not in judge.speeds:
            network: Any = models.get(model)(**{**settings, "eval_every": 0})
            guard = Guard(race.timer, race.timer.budget - race.reserve())
            how = {"device": judge.device, "progress": guard, "callbacks": [StopWhen(stop)]}
            with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                network.fit(judge.stage, seed=judge.seed, **how)
            seconds = statistics.median(np.diff(at).tolist())
            judge.speeds[model] = max(seconds, _QUICKEST)
        return judge.speeds[model]

    def _open_starts(self, settings: Mapping[str, dict[str, Any]]) -> list[str]:
        """The starts whose vectors there is time for; they are computed here, for all networks."""
        open_to, timer = [], self.race.timer
        for name in STARTS if settings else ():
            model, own = next(iter(settings.items()))
            candidate = Candidate(model=model, init=name, settings=own, kind="neural")
            guard = Guard(timer, timer.elapsed + (timer.left - self.race.reserve()) / 3)
            try:
                self.judge.vectors(candidate, guard)
                open_to.append(name)
            except (DataError, ConfigError, GraphError, OutOfTimeError) as error:
                self._note("left out", model=f"the start {name}", why=str(error))
        return open_to

    def _field(self, model: str, settings: Mapping[str, Any]) -> list[Candidate]:
        """A network from all starts that take part."""
        starts = self.race.journal.of("plan")[-1]["starts"]
        return [c for c in from_all_starts(model, settings) if c.init in starts]

    def _vary(self, phase: str, place: int) -> bool:
        """One round of variants; whether there was time for any of them.

        A round is in the journal before it begins, so that a killed race goes on with the same.
        """
        self.race.journal.reload()
        rounds = self._rounds(phase)
        if place < len(rounds):
            field = [Candidate.from_dict(about) for about in rounds[place]["candidates"]]
        else:
            wide = phase == "early" and place < _WIDE_ROUNDS
            field = self._new_neural() if phase == "neural" else self._new_classical(wide)
            if not field:
                return False
            self._note("round", phase=phase, candidates=[c.to_dict() for c in field])
        if phase == "neural":
            self.race.bracket(field)
            return any(self.race.is_settled(candidate, 0) for candidate in field[:-1])
        self.race.heat(field)
        return any(self.race.is_settled(candidate, FULL) for candidate in field)

    def _rounds(self, phase: str) -> list[dict[str, Any]]:
        return [event for event in self.race.journal.of("round") if event["phase"] == phase]

    def _new_classical(self, wide: bool) -> list[Candidate]:
        """A new variant of each leading classical model, or of all of them."""
        field, late = [], {candidate.model for candidate in self.race.late.values()}
        for model, best in list(self._best("classical").items())[: None if wide else _FAMILIES]:
            if model not in late and (settings := self._new(model, best.settings)) is not None:
                field.append(Candidate(model=model, settings=settings))
        return field

    def _new_neural(self) -> list[Candidate]:
        """A new variant of the leading network, from every start, and that network itself."""
        for model, best in self._best("neural").items():
            if (settings := self._new(model, best.settings)) is not None:
                return [*self._field(model, settings), best]
        return []

    def _best(self, kind: str) -> dict[str, Candidate]:
        """The best finished candidate of each model of a kind, the best model first."""
        ranked = sorted(self.race.finished, key=by_value)
        best: dict[str, Candidate] = {}
        for result in ranked:
            if result.candidate.kind == kind and models.get(result.candidate.model).search_space:
                best.setdefault(result.candidate.model, result.candidate)
        return best

    def _new(self, model: str, base: Mapping[str, Any]) -> dict[str, Any] | None:
        """Settings of this model that nobody has tried; None where none come up."""
        drawn = [c for event in self.race.journal.of("round") for c in event["candidates"]]
        tried = [c["settings"] for c in drawn if c["model"] == model]
        tried += [r.candidate.settings for r in self.race.finished if r.candidate.model == model]
        for attempt in range(20):
            settings = variant(model, base, 20 * len(tried) + attempt, self.judge.seed)
            if settings not in tried:
                return settings
        return None

    def _note(self, event: str, **fields: Any) -> None:
        at = self.race.timer.elapsed
        self.tell(self.race.journal.append(event, at=at, **fields))


def plan_steps(
    steps: Mapping[str, int], seconds: Mapping[str, float], left: float
) -> dict[str, int]:
    """How many steps each network gets, at most its `steps`; the quickest training first.

    `seconds` are those of one step. Every network gets the same time for a training, the longest
    with which the race and its end fit into what is `left`; who has too few steps by then stays
    out.
    """
    longest = max((steps[name] * seconds[name] for name in steps), default=0.0)
    for _ in range(_ATTEMPTS):
        planned = {name: min(n, int(longest / seconds[name])) for name, n in steps.items()}
        planned = {name: n for name, n in planned.items() if n >= min(_LEAST, steps[name])}
        full = {name: n * seconds[name] for name, n in planned.items()}
        if _race_seconds(list(full.values())) <= left:
            return dict(sorted(planned.items(), key=lambda pair: full[pair[0]]))
        longest *= 0.95
    return {}


def _race_seconds(full: Sequence[float]) -> float:
    """A bracket of these trainings from every start, and the end of the race, at worst."""
    entrants = sorted([*full] * len(STARTS), reverse=True)
    done, total = 0.0, 0.0
    for rung in RUNGS:
        total += (rung.steps - done) * sum(entrants)
        entrants, done = entrants[: entrants_kept(len(entrants))], rung.steps
    return _MARGIN * (total + 2 * GOES_ON * max(full, default=0.0))
