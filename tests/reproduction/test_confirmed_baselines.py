"""The best trials of a sample of users, evaluated on all beside the record there is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from leporid.data import Split, synthesize, temporal_split
from leporid.errors import DataError
from leporid.runs import RunRecord, record_of
from reproduction.confirmed_baselines import CONFIRMED, best_trials, confirm_classical
from reproduction.store import PackedResults
from reproduction.tuned_baselines import BASELINES, fit_and_record

SPLIT = temporal_split(synthesize(users=80, items=40, interactions=2000, seed=3))


def trial(value: float, log: str = "toy", **settings: Any) -> dict[str, Any]:
    valid = {"None": value, "5": value - 0.5}
    about = {"log": log, "model": "ease", "fit_seconds": 2.0}
    return {"settings": settings, "valid": valid, **about}


def recorded(root: Path, split: Split = SPLIT, **settings: Any) -> RunRecord:
    from leporid import models

    table = [{"settings": settings, "value": 0.1}]
    facts = {"metric": "F1@10", "best_value": 0.1, "trials": 8, "seconds": 1.0, "table": table}
    about = {"dataset": "toy", "seed": 7, "experiment": BASELINES, "extra": {"tuning": facts}}
    run = fit_and_record(models.get("ease")(**settings), split, **about)
    record = record_of(run)
    PackedResults(root).add(record, run.test)
    PackedResults(root).pack()
    return record


def test_a_better_setting_is_tested_and_replaces_the_record(tmp_path: Path) -> None:
    before = recorded(tmp_path, l2=1e6, window=1)
    [(record, new)] = confirm_classical(SPLIT, "toy", tmp_path, [trial(0.9, l2=100.0)])
    tuning = record.extra["tuning"]
    assert new
    assert (record.config["l2"], record.seed, tuning["trials"]) == (100.0, 7, 10)
    assert tuning["best_value"] == pytest.approx(record.valid_metrics["NDCG@10"])
    assert tuning["best_value"] == max(found["value"] for found in tuning["candidates"])
    assert [found["settings"]["window"] for found in tuning["candidates"]] == [1, None, 5]
    assert tuning["candidates"][0]["value"] == before.valid_metrics["NDCG@10"]
    assert tuning["earlier"] == before.extra["tuning"]
    results = PackedResults(tmp_path)
    assert [one.key for one in results.records("toy", [BASELINES])] == [record.key]
    assert results.outcomes(record.key) is not None
    assert not list(tmp_path.glob("toy/baselines/*"))


def test_the_best_setting_keeps_its_test_and_counts_all_trials(tmp_path: Path) -> None:
    before = recorded(tmp_path, l2=100.0, window=None)
    trials = [trial(0.9, l2=1e9), trial(0.8, "another", l2=1.0)]
    [(record, new)] = confirm_classical(SPLIT, "toy", tmp_path, trials)
    assert not new
    assert (record.key, record.metrics) == (before.key, before.metrics)
    assert (record.extra["tuning"]["trials"], record.extra["tuning"]["metric"]) == (10, "NDCG@10")
    results = PackedResults(tmp_path)
    assert results.records("toy", [BASELINES]) == [record]
    assert results.outcomes(record.key) is not None
    # They are counted once.
    assert not list(confirm_classical(SPLIT, "toy", tmp_path, trials))
    [(more, _)] = confirm_classical(SPLIT, "toy", tmp_path, [*trials, trial(0.7, l2=2e9)])
    assert (more.extra["tuning"]["trials"], more.extra["tuning"]["earlier"]["trials"]) == (12, 8)


def test_another_split_or_model_is_not_mixed_in(tmp_path: Path) -> None:
    record = recorded(tmp_path, l2=100.0)
    other = dataclasses.replace(SPLIT, valid=SPLIT.valid.select([0, 1, 2]))
    with pytest.raises(DataError, match="another split"):
        list(confirm_classical(other, "toy", tmp_path, [trial(0.9, l2=1e9)]))
    assert not list(confirm_classical(SPLIT, "toy", tmp_path, [trial(0.9, l2=1.0)], names=["slim"]))
    assert PackedResults(tmp_path).records("toy", [BASELINES]) == [record]


def test_the_best_trials_are_settings_with_a_window() -> None:
    many = [trial(value / 10, l2=float(value)) for value in range(CONFIRMED)]
    found = best_trials(many)
    assert len(found) == CONFIRMED
    assert found[0] == {"l2": 4.0, "window": None}
    assert best_trials([trial(0.9, l2=1.0)]) == [
        {"l2": 1.0, "window": None},
        {"l2": 1.0, "window": 5},
    ]
