"""Of candidates that are level the clearly cheaper one, whatever was measured before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leporid.experiments import Journal
from leporid.selection.budget import Timer
from leporid.selection.candidates import FULL, Candidate, Outcome, Result
from leporid.selection.decision import Decision, prefer_faster
from leporid.selection.runtime_estimates import request_milliseconds
from leporid.selection.search import Search
from tests.selection.clocks import Clock
from tests.selection.test_search import World


class Served:
    """A model whose requests take their time."""

    def __init__(self, clock: Clock, milliseconds: Callable[[], float]) -> None:
        self._clock, self._milliseconds = clock, milliseconds

    def top_k(self, users: Any, k: int) -> None:
        self._clock.advance(self._milliseconds() / 1000)


class TimedEvaluator(World):
    """Candidates that are fitted again in a second, and served with a price."""

    clock_: Clock
    milliseconds: dict[str, float]
    refits: list[str]

    def refit_seconds(self, candidate: Candidate) -> float:
        return 1.0

    def refitted(self, candidate: Candidate, guard: Any) -> Any:
        self.refits.append(candidate.model)
        self.clock_.advance(1.0)
        return Served(self.clock_, lambda: self.milliseconds[candidate.model])


def result(name: str, value: float, ms: float = 1.0, **settings: Any) -> Result:
    """One whose users differ from those of others, so that near values are level."""
    noise = np.random.default_rng([ord(name[0])]).normal(0, 0.2, (60, 1))
    columns = value + noise - noise.mean()
    outcome = Outcome(columns, 1.0, {"ms": ms, "bytes": 1})
    return Result(Candidate(model=name, settings=settings), FULL, outcome, 0.0)


def search_of(
    folder: Path, evaluator: TimedEvaluator, *results: Result, budget: float = 1000.0
) -> Search:
    timer = Timer(budget, clock=evaluator.clock_)
    search = Search(evaluator, Journal(folder / "journal.jsonl", {}), timer)
    search.results = {(r.candidate.key, FULL): r for r in results}
    return search


def evaluator_of(**milliseconds: float) -> TimedEvaluator:
    evaluator = TimedEvaluator({}, dict.fromkeys(milliseconds, 1.0))
    evaluator.clock_, evaluator.milliseconds, evaluator.refits = Clock(), milliseconds, []
    return evaluator


def winner(search: Search, evaluator: Any) -> tuple[str, Decision]:
    best = search.leader
    assert best is not None
    decision = Decision(best, best)
    prefer_faster(search, best, decision)
    assert decision.winner is not None
    return decision.winner.candidate.model, decision


@pytest.mark.parametrize(
    ("slow", "quick", "taken"),
    [(8.0, 4.0, "b"), (8.0, 3.9, "b"), (8.0, 4.1, "a"), (1.5, 0.6, "a"), (3.0, 8.0, "a")],
    ids=["half", "less than half", "more than half", "less than 1 ms", "dearer"],
)
@pytest.mark.parametrize("stale", [(8.0, 1.0), (1.0, 8.0)])
def test_a_level_candidate_is_taken_where_it_is_clearly_cheaper_now(
    tmp_path: Path, slow: float, quick: float, taken: str, stale: tuple[float, float]
) -> None:
    evaluator = evaluator_of(a=slow, b=quick)
    search = search_of(
        tmp_path, evaluator, result("a", 0.5, stale[0]), result("b", 0.499, stale[1])
    )
    name, decision = winner(search, evaluator)
    assert name == taken
    times = decision.milliseconds
    assert times is None if taken == "a" else times == pytest.approx((slow, quick))


def test_the_first_by_value_of_the_cheaper_models_is_taken(tmp_path: Path) -> None:
    evaluator = evaluator_of(a=9.0, b=8.0, c=3.0, d=1.0)
    values = [("a", 0.5), ("b", 0.499), ("c", 0.498), ("d", 0.4979)]
    search = search_of(tmp_path, evaluator, *(result(*pair) for pair in values))
    assert winner(search, evaluator)[0] == "c"
    assert evaluator.refits == ["a", "b", "c"], "each is fitted once, the best too"


def test_who_is_behind_is_not_taken_however_cheap(tmp_path: Path) -> None:
    evaluator = evaluator_of(a=9.0, b=0.1)
    search = search_of(tmp_path, evaluator, result("a", 0.5), result("b", 0.4))
    assert winner(search, evaluator)[0] == "a"
    assert evaluator.refits == []


def test_without_time_to_time_them_the_value_decides(tmp_path: Path) -> None:
    evaluator = evaluator_of(a=9.0, b=0.1)
    search = search_of(tmp_path, evaluator, result("a", 0.5), result("b", 0.499))
    evaluator.clock_.advance(999.5)
    assert winner(search, evaluator)[0] == "a"
    assert evaluator.refits == []


def test_equal_models_on_a_machine_that_slows_down_are_equally_quick() -> None:
    clock, asked = Clock(), [0]

    def slower_and_slower() -> float:
        asked[0] += 1
        return 4.0 * 1.05 ** asked[0]

    first, second = (Served(clock, slower_and_slower) for _ in range(2))
    slow, quick = request_milliseconds([first, second], clock, 25)  # type: ignore[list-item]
    assert quick == pytest.approx(1.05 * slow)


def test_exact_ties_do_not_depend_on_who_comes_first(tmp_path: Path) -> None:
    equal = [result("a", 0.5, window=5), result("a", 0.5), result("a", 0.5, window=9)]
    for place, results in enumerate(permutations(equal)):
        search = search_of(tmp_path / str(place), evaluator_of(a=1.0), *results)
        assert search.leader is equal[1], "the one with fewer settings"
    keyed = sorted([equal[0], equal[2]], key=lambda r: r.candidate.key)
    for place, results in enumerate(permutations(keyed)):
        assert search_of(tmp_path / f"b{place}", evaluator_of(a=1.0), *results).leader is keyed[0]
