"""The quartiles on file are those that the runs themselves had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leporid
from leporid.models.closed_form.toppop import TopPop
from reproduction.activity import (
    TAIL,
    add_quartiles,
    outcomes_of_nothing,
    packed,
    read_quartiles,
    unpacked,
)
from reproduction.store import PackedResults

ROOT = Path(__file__).resolve().parents[2]


def test_packed_numbers_come_back() -> None:
    values = np.array([0, 7, 1023, 5], np.int32)
    np.testing.assert_array_equal(unpacked(packed(values)), values)


def test_quartiles_select_the_tail_users_of_an_evaluation(tmp_path: Path) -> None:
    split = leporid.temporal_split(leporid.synthesize(90, 40, 1500, seed=2))
    add_quartiles(tmp_path, "toy", split)
    quartile = read_quartiles(tmp_path)[split.digest]
    table = leporid.evaluate(TopPop().fit(split), split)
    np.testing.assert_array_equal(outcomes_of_nothing(split).user, table.user)
    values = table.per_user("HR@10")
    assert values[quartile == TAIL].mean() == table.mean("tail-users")["HR@10"]
    assert values[quartile == 4].mean() == table.mean("activity-q4")["HR@10"]


@pytest.mark.parametrize("dataset", ["ml-1m-r3", "ml-100k", "anime-5k", "steam-200k"])
def test_the_tail_of_every_record_is_that_of_its_stored_hits(dataset: str) -> None:
    results = PackedResults(ROOT / "results")
    quartiles = read_quartiles(ROOT / "results")
    experiments = {"ml-1m-r3": "initialisers", "ml-100k": "models", "anime-5k": "initialisers"}
    runs = results.records(dataset, [experiments.get(dataset, "leaderboard")])
    assert runs
    for run in runs:
        outcomes = results.outcomes(run.key)
        assert outcomes is not None
        is_tail = quartiles[run.extra["data_digest"]] == TAIL
        found = outcomes.per_user("HR@10")[is_tail].mean()
        assert found == pytest.approx(run.tail_metrics["HR@10"], abs=1e-12)
