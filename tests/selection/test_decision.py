"""What a search ends with: the best, ties by key, and only blends that can be fitted in time."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from leporid.evaluation import compare
from leporid.runs import Journal
from leporid.selection.budget import Timer
from leporid.selection.candidates import Candidate
from leporid.selection.decision import Decision, decide
from leporid.selection.search import Search
from leporid.selection.trials import TrialResult
from tests.selection.clocks import Clock
from tests.selection.test_search import COST, World


class Blendable(World):
    """Candidates with lists."""

    def lists(self, candidate: Candidate) -> Any:
        return candidate.model


def result(name: str, value: float, **settings: Any) -> TrialResult:
    noise = np.random.default_rng([ord(name[0])]).normal(0, 0.2, (60, 1))
    values = value + noise - noise.mean()
    return TrialResult(Candidate(model=name, settings=settings), values, COST, 0.0)


def search_of(folder: Path, price: dict[str, float], *results: TrialResult, left: float) -> Search:
    """A search with so many seconds left, and models that take twice their price at the end."""
    search = Search(
        Blendable({}, price, task=SimpleNamespace(baselines=(), inner=None, metric="NDCG@10")),
        Journal(folder / "journal.jsonl", {}),
        Timer(left, clock=Clock()),
    )
    search.results = {r.candidate.key: r for r in results}
    return search


@pytest.mark.parametrize(
    ("left", "offered"),
    [(100.0, ["a", "b", "c"]), (17.0, ["a", "c"]), (5.0, None)],
    ids=["all fit", "the dear one does not", "none fits"],
)
def test_only_what_can_be_fitted_is_offered_to_a_blend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: float, offered: list[str] | None
) -> None:
    seen: list[list[str]] = []
    gain = compare(np.array([0.6, 0.7]), np.array([0.5, 0.6]), "NDCG@10")

    def pick(lists: list[str], *_: Any) -> Any:
        seen.append(lists)
        return {0: 2, len(lists) - 1: 1}, gain

    monkeypatch.setattr("leporid.selection.decision.pick_blend", pick)
    results = [result("a", 0.5), result("b", 0.45), result("c", 0.4)]
    search = search_of(tmp_path, {"a": 4.0, "b": 20.0, "c": 2.0}, *results, left=left)
    found = decide(search)
    assert found is not None
    assert seen == ([] if offered is None else [offered])
    if offered is None:
        assert found == Decision.of(results[0])
        return
    assert [member.model for member in found.members] == [offered[0], offered[-1]]
    assert found.weights == (2, 1)
    assert found.value == pytest.approx(0.6)


def test_exact_ties_do_not_depend_on_who_comes_first(tmp_path: Path) -> None:
    equal = [result("a", 0.5, window=5), result("a", 0.5), result("a", 0.5, window=9)]
    for place, results in enumerate(permutations(equal)):
        search = search_of(tmp_path / str(place), {"a": 1.0}, *results, left=9.0)
        assert search.leader is equal[1], "the one with fewer settings"
    keyed = sorted([equal[0], equal[2]], key=lambda r: r.candidate.key)
    for place, results in enumerate(permutations(keyed)):
        search = search_of(tmp_path / f"b{place}", {"a": 1.0}, *results, left=9.0)
        assert search.leader is keyed[0]
