"""Who takes part, in which order, and the variants of their settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid import models
from leporid.selection import schedule
from leporid.selection.budget import Timer
from leporid.selection.candidates import (
    INITS,
    NETWORKS,
    Candidate,
    Problem,
    classical_candidates,
    neural_models,
    variant,
    with_inits,
)
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.events import open_journal
from leporid.selection.schedule import _search_seconds, plan_networks, plan_steps
from leporid.selection.search import Search
from reproduction.tuned_baselines import classical_models


def test_every_classical_model_takes_part_once() -> None:
    named = [c.model for c in classical_candidates()]
    assert sorted(named) == sorted(classical_models())
    assert named[0] == "toppop"


def test_networks_are_those_with_initial_vectors() -> None:
    assert set(NETWORKS) == {n for n in models.available() if models.get(n).takes_initial_vectors}


def test_the_first_answers_need_no_torch() -> None:
    code = """
import sys
from leporid.selection.candidates import classical_candidates
assert classical_candidates()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_order_puts_the_models_first_that_read_it() -> None:
    data = leporid.synthesize(60, 40, 900, seed=1)
    assert Problem.of(leporid.temporal_split(data), "NDCG@10").has_order
    assert not Problem.of(leporid.random_split(data), "NDCG@10").has_order
    assert neural_models(has_order=True)[:2] == ["dlr2", "sasrec"]
    assert neural_models(has_order=False)[0] == "lightgcn"
    assert sorted(neural_models(has_order=True)) == sorted(neural_models(has_order=False))


def test_initialisations_are_treated_alike() -> None:
    field = with_inits("bpr", {"steps": 7})
    assert [c.init for c in field] == list(INITS)
    assert all(c.settings == {"steps": 7} for c in field)
    assert len({c.key for c in field}) == len(INITS)


@pytest.mark.parametrize("model", ["ease", "itemknn", "slim", "rp3beta", "sasrec", "toppop"])
def test_variants_are_valid_repeatable_and_differ(model: str) -> None:
    drawn = [variant(model, {}, place, seed=4) for place in range(30)]
    assert drawn == [variant(model, {}, place, seed=4) for place in range(30)]
    space = models.get(model).search_space
    for settings in drawn:
        config = models.get(model).config_class.from_dict(settings).to_dict()
        assert settings.keys() <= space.keys()
        assert all(config[name] in space[name] for name in settings)
        plain = models.get(model).config_class().to_dict()
        assert all(plain[name] != value for name, value in settings.items())
    if space:
        assert len({str(settings) for settings in drawn}) > 10


def test_a_candidate_is_the_same_in_every_session() -> None:
    first = Candidate(model="ease", settings={"l2": 3.0, "window": 5})
    again = Candidate.from_dict(first.to_dict())
    assert again.key == first.key
    assert again.label == "ease l2=3 window=5"
    recipe = models.get("dlr2").recipe_settings("general")
    varied = Candidate(model="dlr2", init="svd", settings={**recipe, "lr": 0.5}, kind="neural")
    assert varied.label == "dlr2 from svd lr=0.5"
    assert Candidate(model="ease", settings={"l2": 4.0, "window": 5}).key != first.key


def search_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, speeds: dict[str, float], left: float
) -> Search:
    """A search with `left` seconds and networks of known speed per example."""
    split = leporid.temporal_split(leporid.synthesize(60, 40, 900, seed=1))
    timer = Timer(left, clock=lambda: 0.0)
    evaluator = TrialEvaluator(Problem(split, split, "NDCG@10"), timer, tmp_path)

    def time_steps(search: Search, model: str, settings: dict[str, Any]) -> None:
        size = schedule._config(model, settings).batch_size
        evaluator.estimates.speeds[model] = speeds[model] * size

    monkeypatch.setattr(schedule, "time_steps", time_steps)
    monkeypatch.setattr(schedule, "possible_inits", lambda search, settings: list(INITS))
    return Search(evaluator, open_journal(tmp_path, {}), timer)


def test_more_networks_take_part_only_where_time_is_plenty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    speeds = dict.fromkeys(NETWORKS, 1e-5)
    everyone = plan_networks(search_of(monkeypatch, tmp_path / "a", speeds, 1e5))
    assert set(everyone) == {"dlr2", "sasrec", "hgn", "lightgcn", "bpr"}
    few = plan_networks(search_of(monkeypatch, tmp_path / "b", speeds, 20.0))
    assert set(few) == {"dlr2", "sasrec"}
    slow = {**speeds, "dlr2": 1.0}
    assert set(plan_networks(search_of(monkeypatch, tmp_path / "c", slow, 20.0))) == {
        "sasrec",
        "hgn",
    }


def test_few_steps_become_more_steps_with_smaller_batches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    speeds = dict.fromkeys(NETWORKS, 1e-4)
    plan = plan_networks(search_of(monkeypatch, tmp_path, speeds, 100.0))
    dlr2 = models.get("dlr2").recipes["general"]
    assert 32 <= plan["dlr2"]["batch_size"] < dlr2["batch_size"]
    assert plan["dlr2"]["steps"] >= 500


def test_a_plan_fits_and_slow_models_do_not_keep_out_quick_ones() -> None:
    steps, seconds = {"slow": 5000, "quick": 3000}, {"slow": 9.0, "quick": 0.001}
    assert plan_steps(steps, seconds, 40.0) == {"quick": 3000}
    assert plan_steps(steps, seconds, 0.1) == {}
    seconds["slow"] = 0.02
    assert plan_steps(steps, seconds, 10_000.0) == steps
    for left in (30.0, 60.0, 120.0):
        plan = plan_steps(steps, seconds, left)
        assert list(plan) == ["quick", "slow"], "the quickest first"
        assert plan["quick"] == 3000
        assert 100 <= plan["slow"] < 5000
        assert _search_seconds([seconds[n] * k for n, k in plan.items()]) <= left
