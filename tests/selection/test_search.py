"""The engine of the search, with synthetic candidates and a clock of its own."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leporid.errors import DataError, TrainingInterruptedError
from leporid.selection.budget import OutOfTimeError, Timer
from leporid.selection.candidates import Candidate
from leporid.selection.events import open_journal, seconds_spent
from leporid.selection.search import Search
from leporid.selection.trials import TrialCost, TrialResult

USERS = 60
COST = TrialCost(fit_seconds=0.5, ranking_seconds=0.5, ms=1.0, bytes=1.0)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class World:
    """Candidates with a true quality and a price, and a clock that evaluations turn."""

    quality: dict[str, float]
    price: dict[str, float]
    dies_after: float = math.inf
    now: float = 0.0
    done: list[str] = field(default_factory=list)
    task: Any = field(default_factory=lambda: SimpleNamespace(baselines=("toppop", "itemknn")))
    broken: frozenset[str] = frozenset()

    @property
    def estimates(self) -> World:
        """Its prices are known."""
        return self

    def clock(self) -> float:
        return self.now

    def cost(self, candidate: Candidate) -> float:
        return self.price[candidate.model]

    def finish(self, candidate: Candidate) -> float:
        return 2 * self.price[candidate.model]

    def evaluate(self, candidate: Candidate, until: float) -> TrialResult:
        if candidate.model in self.broken:
            raise DataError("it cannot be fitted")
        self.now += self.cost(candidate)
        if self.now > until + 1e-6:
            raise OutOfTimeError("late")
        if len(self.done) >= self.dies_after:
            raise Killed
        self.done.append(candidate.key)
        return self.recall(candidate)

    def recall(self, candidate: Candidate, at: float = 0.0) -> TrialResult:
        noise = np.random.default_rng(0).normal(0, 0.01, (USERS, 1))
        values = self.quality[candidate.model] + noise
        return TrialResult(candidate, values, COST, at)


def field_of(world: World) -> list[Candidate]:
    return [Candidate(model=name, init="random") for name in world.quality]


def search_of(world: World, folder: Path, budget: float = 1e6, **how: Any) -> Search:
    journal = open_journal(folder / "search", {})
    return Search(world, journal, Timer(budget, seconds_spent(journal), world.clock), **how)


qualities = st.lists(st.floats(0.05, 0.95), min_size=1, max_size=9, unique=True)
prices = st.floats(0.5, 30.0)
worlds = st.builds(
    lambda q, p: World(
        {f"m{i}": v for i, v in enumerate(q)}, {f"m{i}": p[i % len(p)] for i in range(len(q))}
    ),
    qualities,
    st.lists(prices, min_size=1, max_size=9),
)
no_limits = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@no_limits
@given(worlds)
def test_with_time_enough_the_best_candidate_leads(world: World) -> None:
    with tempfile.TemporaryDirectory() as folder:
        search = search_of(world, Path(folder))
        search.round(field_of(world))
        assert search.leader is not None
        best = max(world.quality.values())
        assert world.quality[search.leader.candidate.model] == pytest.approx(best, rel=1e-9)


@no_limits
@given(worlds, st.floats(5, 200))
def test_the_time_of_the_winner_is_always_left(world: World, budget: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        search = search_of(world, Path(folder), budget, reserve=1.0)
        first, *others = field_of(world)
        search.round([first])  # the first answer is given whatever it takes
        begun = world.now
        search.round(others)
        assert search.leader is not None
        if begun + 1 + world.finish(first) <= budget:
            assert world.now + 1 + world.finish(search.leader.candidate) <= budget + 1e-6


@no_limits
@given(worlds, st.integers(0, 12))
def test_a_killed_search_ends_as_one_that_was_not(world: World, dies_after: int) -> None:
    plain = World(world.quality, world.price)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        unbroken = search_of(plain, Path(other))
        unbroken.round(field_of(plain))
        world.dies_after = dies_after
        try:
            search_of(world, Path(folder)).round(field_of(world))
        except Killed:
            world.dies_after = math.inf
        resumed = search_of(world, Path(folder))
        resumed.round(field_of(world))
        assert list(resumed.results) == list(unbroken.results)
        assert resumed.leader is not None
        assert unbroken.leader is not None
        assert resumed.leader.candidate == unbroken.leader.candidate
        assert set(Counter(world.done).values()) == {1}, "an evaluation was repeated"


def test_one_that_cannot_be_fitted_is_noted_and_not_tried_again(tmp_path: Path) -> None:
    world = World({"a": 0.3, "b": 0.2}, {"a": 1.0, "b": 1.0}, broken=frozenset({"a"}))
    search = search_of(world, tmp_path)
    search.round(field_of(world))
    assert search.leader is not None
    assert search.leader.candidate.model == "b"
    [failed] = search.journal.of("failed")
    assert failed["why"] == "it cannot be fitted"
    again = search_of(World(world.quality, world.price), tmp_path)
    again.round(field_of(world))
    assert len(again.journal.of("failed")) == 1
    assert len(again.results) == 1


def test_a_crash_of_one_candidate_is_noted_and_an_interrupt_is_not(tmp_path: Path) -> None:
    world = World({"a": 0.3, "b": 0.2}, {"a": 1.0, "b": 1.0})
    search = search_of(world, tmp_path)
    world.quality.pop("a")
    search.round([Candidate(model="a"), Candidate(model="b")])
    assert search.journal.of("failed")[0]["why"] == "KeyError 'a'"
    assert len(search.results) == 1

    def interrupted(*_: object, **how: object) -> TrialResult:
        raise TrainingInterruptedError("Ctrl-C")

    world.evaluate = interrupted  # type: ignore[method-assign]
    with pytest.raises(TrainingInterruptedError):
        search.round([Candidate(model="b", init="svd")])


def test_too_late_is_said_and_tried_again_with_more_time(tmp_path: Path) -> None:
    world = World({"a": 0.3, "slow": 0.9}, {"a": 1.0, "slow": 50.0})
    search = search_of(world, tmp_path, budget=30)
    search.round(field_of(world))
    assert [event["candidate"]["model"] for event in search.journal.of("late")] == ["slow"]
    more = search_of(world, tmp_path, budget=300)
    more.round(field_of(world))
    assert more.leader is not None
    assert more.leader.candidate.model == "slow"
