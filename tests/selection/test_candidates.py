"""Who takes part, in which order, and the variants of their settings."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import leporid
from leporid import models
from leporid.selection import init_ranking, network_plan
from leporid.selection.budget import Timer
from leporid.selection.candidates import (
    Candidate,
    classical_candidates,
    neural_models,
)
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.events import open_journal
from leporid.selection.network_plan import (
    CONTINUED_SHARE_OF_STEPS,
    plan_networks,
    training_seconds,
)
from leporid.selection.priors import (
    FAMILIES,
    NETWORKS,
    LogStatistics,
    expected_shares,
    family_of,
)
from leporid.selection.search import Search
from leporid.selection.task import SearchTask, Settings
from leporid.selection.variants import variant
from reproduction.tuned_baselines import classical_models

DENSE = LogStatistics(interactions_per_user=90.0, density=0.03, has_order=False)
SPARSE = LogStatistics(interactions_per_user=6.0, density=0.0005, has_order=True)


def test_every_classical_model_takes_part_once() -> None:
    named = [c.model for c in classical_candidates(DENSE)]
    # Where nothing is shown twice, `frequency` would be a second `toppop`; without an order nothing
    # follows anything.
    assert sorted([*named, "frequency", "transitions"]) == sorted(classical_models())
    assert named[:2] == ["toppop", "itemknn"]
    log = replace(DENSE, include_seen=True, has_order=True)
    again = [c.model for c in classical_candidates(log)]
    assert sorted(again) == sorted(classical_models())
    assert again[:3] == ["toppop", "frequency", "itemknn"]


def test_networks_are_those_with_initial_vectors() -> None:
    assert set(NETWORKS) == {n for n in models.available() if models.get(n).takes_initial_vectors}


def test_every_model_has_one_family() -> None:
    named = [name for members in FAMILIES.values() for name in members]
    assert sorted([*named, "blend"]) == sorted(models.available())
    assert family_of("ials") == "factors"
    assert family_of("somebody's own") == "other"


def test_the_first_answers_need_no_torch() -> None:
    code = """
import sys
from leporid.selection.candidates import classical_candidates
from leporid.selection.priors import LogStatistics
assert classical_candidates(LogStatistics(9.0, 0.1, has_order=True))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_prior_orders_by_the_statistics_of_a_log() -> None:
    without, ordered = expected_shares(DENSE), expected_shares(SPARSE)
    assert set(list(without)[:2]) == {"dlr2", "slim"}
    assert set(list(ordered)[:2]) == {"dlr2", "sasrec"}
    assert without.keys() == ordered.keys()
    assert all(0 < share <= 1 for share in [*without.values(), *ordered.values()])
    assert classical_candidates(DENSE)[2].model == "slim"


def test_an_order_is_found_and_no_network_is_left_out() -> None:
    data = leporid.synthesize(60, 40, 900, seed=1)
    timed = SearchTask.of(leporid.temporal_split(data), "NDCG@10").statistics
    assert timed.has_order
    assert timed.interactions_per_user == pytest.approx(0.8 * 15, abs=1)
    assert not SearchTask.of(leporid.random_split(data), "NDCG@10").statistics.has_order
    assert neural_models(timed)[:2] == neural_models(SPARSE)[:2] == ["dlr2", "sasrec"]
    assert sorted(neural_models(SPARSE)) == sorted(neural_models(DENSE))
    assert neural_models(DENSE, ["ncf"]) == ["ncf"]


@pytest.mark.parametrize("model", [*classical_models(), "sasrec"])
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
    assert again.headline == "ease"
    recipe = models.get("dlr2").recipe_settings("general")
    varied = Candidate(model="dlr2", init="svd", settings={**recipe, "lr": 0.5})
    assert varied.label == "dlr2 from svd lr=0.5"
    assert varied.headline == "dlr2 from svd"
    assert Candidate(model="ease", settings={"l2": 4.0, "window": 5}).key != first.key


def search_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, speeds: dict[str, float], left: float
) -> Search:
    """A search with `left` seconds and networks of known speed per example."""
    split = leporid.temporal_split(leporid.synthesize(60, 40, 900, seed=1))
    timer = Timer(left, clock=lambda: 0.0)
    evaluator = TrialEvaluator(SearchTask(split, split, "NDCG@10"), timer, tmp_path)

    def time_steps(search: Search, model: str, settings: Settings) -> None:
        size = models.get(model).config_class.from_dict(settings).batch_size  # type: ignore[attr-defined]
        evaluator.estimates.speeds[model] = speeds[model] * size

    monkeypatch.setattr(network_plan, "time_steps", time_steps)
    monkeypatch.setattr(network_plan, "rank_inits", lambda *_: {"svd": 0.1})
    return Search(evaluator, open_journal(tmp_path, {}), timer)


def test_a_slow_network_gives_its_place_to_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names, speeds = ["dlr2", "sasrec", "hgn", "bpr"], dict.fromkeys(NETWORKS, 1e-5)
    plan = plan_networks(search_of(monkeypatch, tmp_path / "a", speeds, 1e5), names, 0.5)
    assert list(plan) == ["dlr2", "sasrec"]
    search = search_of(monkeypatch, tmp_path / "b", {**speeds, "dlr2": 1.0}, 1000.0)
    assert list(plan_networks(search, names, 0.5)) == ["sasrec", "hgn"]
    [left] = search.journal.of("left out")
    assert left["model"] == "dlr2"
    assert "fewer than 300 say nothing" in left["why"]
    again = plan_networks(search, names, 0.5)
    assert list(again) == ["sasrec", "hgn"], "the plan is that of the journal"


def test_one_network_with_enough_steps_rather_than_two_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of 24 seconds dlr2 has 375 steps with its smallest batches, sasrec more than 1,500."""
    speeds = {"dlr2": 5e-4, "sasrec": 1e-5}
    search = search_of(monkeypatch, tmp_path, speeds, 100.0)
    plan = plan_networks(search, ["dlr2", "sasrec"], 0.5)
    assert list(plan) == ["sasrec"]
    assert plan["sasrec"]["steps"] >= 1500
    [left] = search.journal.of("left out")
    assert left["model"] == "dlr2"
    assert left["why"].startswith("there was time for one network, sasrec; 3,000 steps of it take ")


@pytest.mark.parametrize(
    ("probed", "first"),
    [({"svd": 0.2, "leporid": 0.1}, "leporid"), ({"svd": 0.2, "leporid": 0.09}, "svd"), ({}, None)],
)
def test_networks_begin_from_leporid_unless_its_vectors_predict_little(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, probed: dict[str, float], first: str | None
) -> None:
    search = search_of(monkeypatch, tmp_path, {}, 100.0)
    search.note("inits", values=probed)
    assert next(iter(init_ranking.ranked_inits(search)), None) == first
    assert init_ranking.ranked_inits(search) == probed


def test_few_steps_become_more_steps_with_smaller_batches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    speeds = dict.fromkeys(NETWORKS, 1e-4)
    plan = plan_networks(search_of(monkeypatch, tmp_path, speeds, 100.0), ["dlr2"], 0.5)
    dlr2 = models.get("dlr2").recipes["general"]
    assert 32 <= plan["dlr2"]["batch_size"] < dlr2["batch_size"]
    assert plan["dlr2"]["steps"] >= 500


def test_the_trainings_and_the_final_fits_fit_into_their_share() -> None:
    seconds = training_seconds(100.0, 90.0, entrants=2)
    assert network_plan.MARGIN_FOR_VALIDATIONS * (
        2 * seconds + 2 * seconds * CONTINUED_SHARE_OF_STEPS
    ) == pytest.approx(100.0)
    seconds = training_seconds(100.0, 50.0, entrants=2)
    assert network_plan.MARGIN_FOR_VALIDATIONS * 2 * seconds == pytest.approx(50.0)
