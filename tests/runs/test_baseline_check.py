"""A trained model beside the simple ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

import leporid
from leporid.data.split import Split
from leporid.errors import ConfigError
from leporid.evaluation.evaluator import evaluate
from leporid.evaluation.significance import compare
from leporid.models.ease import EASE
from leporid.models.itemknn import ItemKNN
from leporid.models.toppop import TopPop
from leporid.runs import baseline_check
from leporid.runs.baseline_check import Baseline, BaselineCheck, against_baselines


@pytest.fixture(scope="module")
def split() -> Split:
    data = leporid.synthesize(users=80, items=50, interactions=1800, seed=3)
    return leporid.temporal_split(data)


def test_differences_are_those_of_a_paired_comparison(split: Split) -> None:
    table = evaluate(TopPop().fit(split), split)
    check = against_baselines(table, split)
    assert [row.name for row in check.baselines] == ["TopPop", "ItemKNN", "EASE"]
    for row, model in zip(check.baselines, (TopPop(), ItemKNN(), EASE()), strict=True):
        other = evaluate(model.fit(split), split)
        assert (row.settings, row.metrics) == (model.config.to_dict(), other.mean())
        same = compare({"first": table, "second": other}, "HR@10").comparisons[0]
        assert row.difference == pytest.approx(same.difference)
        assert (row.low, row.high) == pytest.approx((same.low, same.high))
    assert check.best.metrics["HR@10"] == max(row.metrics["HR@10"] for row in check.baselines)


def test_no_model_is_compared_with_itself(split: Split) -> None:
    for model, names in ((EASE(), ["toppop", "itemknn"]), (EASE(l2=1.0), None)):
        model.fit(split)
        check = against_baselines(evaluate(model, split), split, fitted=model)
        assert [row.model for row in check.baselines] == (names or ["toppop", "itemknn", "ease"])


def test_ease_is_left_out_where_its_matrix_is_large(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline_check, "MAX_EASE_ITEMS", split.n_items - 1)
    check = against_baselines(evaluate(TopPop().fit(split), split), split)
    assert [row.model for row in check.baselines] == ["toppop", "itemknn"]
    assert check.left_out.startswith("EASE is left out: ")
    assert check.to_dict()["left_out"] == check.left_out


def test_too_short_lists_are_refused(split: Split) -> None:
    with pytest.raises(ConfigError, match="HR@10"):
        against_baselines(evaluate(TopPop().fit(split), split, at=(5,)), split)


def test_the_verdict_in_words() -> None:
    low = Baseline(
        model="toppop",
        name="TopPop",
        settings={},
        metrics={"HR@10": 0.2},
        seconds=0.1,
        metric="HR@10",
        difference=0.379,
        low=0.35,
        high=0.4,
    )
    best = replace(low, model="itemknn", name="ItemKNN", metrics={"HR@10": 0.618})

    def verdict(difference: float, low_end: float, high_end: float) -> str:
        changed = replace(best, difference=difference, low=low_end, high=high_end)
        return BaselineCheck((low, changed)).verdict()

    below = "HR@10 is below ItemKNN by .039 [.020, .060]: don't deploy this"
    assert verdict(-0.039, -0.06, -0.02) == below
    assert verdict(0.039, 0.02, 0.06) == "HR@10 is above ItemKNN by .039 [.020, .060]"
    assert verdict(-0.003, -0.02, 0.01) == "HR@10 is level with ItemKNN: -.003 [-.020, .010]"
