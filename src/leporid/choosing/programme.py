"""What is run in which order: first answers, classical models, networks, then variants of the best.

Networks get as many models and steps as the time allows: `plan_steps` measures a few steps of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leporid import models
from leporid.choosing.budget import Guard, OutOfTimeError
from leporid.choosing.candidates import (
    NETWORKS,
    STARTS,
    Candidate,
    classical_candidates,
    first_candidates,
    from_all_starts,
    neural_models,
    neural_settings,
    variant,
)
from leporid.choosing.judging import Rehearsal
from leporid.choosing.race import FULL, RUNGS, Race, entrants_kept
from leporid.errors import ConfigError, DataError, GraphError

LEAST_SECONDS = 15.0
"""With less time left networks are not begun: loading them alone takes a good part of it."""
_LEAST = 100
"""Steps: with fewer a network is not begun."""
_SHARES = (0.03, 0.05, 0.09, 0.125, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0)
"""Of the steps of a model's defaults."""
_VALIDATIONS = 12
_VALIDATION_USERS = 1_000
_FINISHES = 2.5
"""Trainings of the winner after the race, with what belongs to them."""
_EARLY_SHARE = 0.3
"""Of the budget: when networks are begun, however many variants there were before."""
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
        race.heat(c for c in first_candidates() if self._takes_part(c.model))
        race.heat(classical_candidates(self.only))
        networks = self._may_train()
        for place in range(_EARLY_ROUNDS):
            begun = place < len(self._rounds("early"))
            if networks and not begun and timer.elapsed >= _EARLY_SHARE * timer.budget:
                break
            if not self._vary("early", place):
                break
        planned = self._plan() if networks else {}
        for model, own in planned.items():
            race.bracket(self._field(model, own))
        phases = ["classical", *(["neural"] if planned else [])]
        for place in range(_ROUNDS):
            phases = [phase for phase in phases if self._vary(phase, place)]

    def _takes_part(self, model: str) -> bool:
        return self.only is None or model in self.only

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
        steps, seconds = {}, {}
        for name, own in settings.items() if starts else ():
            if race.timer.left - race.reserve() < LEAST_SECONDS / 2:
                break
            try:
                config: Any = models.get(name).config_class.from_dict(own)
                steps[name], seconds[name] = config.steps, judge.speed(name, own)
            except (DataError, ConfigError, GraphError, OutOfTimeError) as error:
                self._note("left out", model=name, why=str(error))
        again = 2 * max(judge.start_seconds.values(), default=0.0)
        planned = plan_steps(steps, seconds, race.timer.left - race.reserve() - again)
        for name in (n for n in settings if n not in planned):
            self._note("left out", model=name, why="its training does not fit into the time left")
        chosen = {
            name: {**settings[name], "steps": n, "eval_every": max(1, n // _VALIDATIONS)}
            for name, n in planned.items()
        }
        self._note("plan", settings=chosen, speeds=judge.speeds, starts=starts)
        return chosen

    def _open_starts(self, settings: Mapping[str, dict[str, Any]]) -> list[str]:
        """The starts whose vectors there is time for; they are computed here, for all networks."""
        open_to, timer = [], self.race.timer
        for name in STARTS if settings else ():
            model, own = next(iter(settings.items()))
            candidate = Candidate(model=model, init=name, settings=own, kind="neural")
            guard = Guard(timer, timer.elapsed + (timer.left - self.race.reserve()) / 3)
            try:
                self.judge.vectors(candidate, self.judge.stage.train, guard)
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
        else:
            self.race.heat(field)
        new, rung = (field[:-1], 0) if phase == "neural" else (field, FULL)
        return any(self.race.is_settled(candidate, rung) for candidate in new)

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
        ranked = sorted(self.race.finished, key=lambda r: -r.value)
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
    """How many steps each network gets, of the `steps` of its defaults; the quickest first.

    `seconds` are those of one step, in the order of the models' turns. Steps are given out bit by
    bit, always where the gain per second is largest, as long as everything fits into the time
    `left`. The gain is that of the root of the share of a model's steps, times a weight that falls
    with its turn: the first steps count more than the last ones.
    """
    level = dict.fromkeys(seconds, 0.0)

    def total(shares: Mapping[str, float]) -> float:
        return _race_seconds(
            [seconds[n] * steps[n] * share for n, share in shares.items() if share]
        )

    while True:
        best, chosen = 0.0, None
        for turn, name in enumerate(seconds):
            share = next((s for s in _SHARES if s > level[name] and s * steps[name] >= _LEAST), 0)
            raised = {**level, name: share}
            if share and total(raised) <= left:
                gain = (math.sqrt(share) - math.sqrt(level[name])) / (1 + turn / 4)
                price = max(total(raised) - total(level), 1e-9)
                if gain / price > best:
                    best, chosen = gain / price, raised
        if chosen is None:
            break
        level = chosen
    took_part = {name: math.ceil(share * steps[name]) for name, share in level.items() if share}
    return dict(sorted(took_part.items(), key=lambda pair: seconds[pair[0]] * pair[1]))


def _race_seconds(full: Sequence[float]) -> float:
    """Brackets of these trainings from every start, and the end of the race, at worst."""
    entrants, done, total = len(STARTS), 0.0, 0.0
    for rung in RUNGS:
        total += (rung.steps - done) * entrants * sum(full)
        entrants, done = entrants_kept(entrants), rung.steps
    return 1.15 * (total + _FINISHES * max(full, default=0.0))
