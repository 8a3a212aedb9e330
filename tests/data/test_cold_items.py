"""Cold items occur in the test part alone, and are all judged."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.data import cold_items_split, synthesize, temporal_split
from leporid.errors import ConfigError, LeporidError
from leporid.evaluation import evaluate
from leporid.models import Recommender, get
from leporid.runs import record_of
from tests.made_runs import run_of

DATA = synthesize(80, 50, 1500, seed=4)


def test_cold_items_are_in_no_part_but_test() -> None:
    split, whole = cold_items_split(DATA, 0.2, seed=3), temporal_split(DATA)
    present = np.unique(np.concatenate([split.train.item, split.valid.item]))
    cold = np.setdiff1d(np.arange(50), present)
    assert len(cold) == 10
    assert np.isin(split.test.item, cold).any()
    np.testing.assert_array_equal(split.test.item, whole.test.item)
    left_out = np.isin(whole.train.item, cold).sum() + np.isin(whole.valid.item, cold).sum()
    assert split.protocol == (
        f"cold-items(0.2, random, seed=3, left out {left_out}) of temporal(0.7, 0.1)"
    )
    assert split.items == DATA.items
    other = cold_items_split(DATA, 0.2, seed=4)
    assert not np.array_equal(np.unique(other.train.item), np.unique(split.train.item))


def test_what_cannot_be_cold_is_said() -> None:
    for wrong in (0, 1, -0.5, 2):
        with pytest.raises(ConfigError, match="above 0 and below 1"):
            cold_items_split(DATA, wrong)
    with pytest.raises(ConfigError, match="at least one"):
        cold_items_split(DATA, 0.001)


def test_the_strata_of_cold_and_warm_items_by_hand() -> None:
    split = cold_items_split(DATA, 0.3, seed=1)
    trained = np.bincount(split.train.item, minlength=50) > 0
    scores = np.random.default_rng(0).random((80, 50)).astype(np.float32)
    table = evaluate(scores, split, at=(10,), metrics=("HR", "Recall", "F1", "Coverage"))
    relevant = split.test.sequences()
    for stratum, wanted in (("cold-items", ~trained), ("warm-items", trained)):
        recalls = []
        for row, user in enumerate(table.user):
            own = relevant.items[relevant.indptr[user] : relevant.indptr[user + 1]]
            own = own[wanted[own]]
            if len(own):
                recalls.append(np.isin(own, table.top[row]).mean())
        mean = table.mean(stratum=stratum)
        assert mean["Recall@10"] == pytest.approx(np.mean(recalls))
        assert "Coverage@10" not in mean
    warm_only = evaluate(scores, temporal_split(DATA), at=(10,))
    with pytest.raises(LeporidError, match="cold-items"):
        warm_only.mean(stratum="cold-items")


def test_a_popularity_model_never_finds_a_cold_item() -> None:
    split = cold_items_split(DATA, 0.2, seed=3)
    model: Recommender = get("toppop")()
    table = evaluate(model.fit(split), split, at=(10,))
    assert table.mean(stratum="cold-items")["NDCG@10"] == 0
    assert table.mean(stratum="warm-items")["NDCG@10"] > 0
    record = record_of(run_of(model, split))
    assert record.extra["cold_item_metrics"]["HR@10"] == 0
    assert record.extra["warm_item_metrics"]["HR@10"] > 0
