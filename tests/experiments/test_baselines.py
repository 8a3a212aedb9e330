"""A trained model beside the simple ones."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import leporid
from leporid.data import Split
from leporid.errors import ConfigError
from leporid.evaluation import compare, evaluate
from leporid.models.closed_form.ease import EASE
from leporid.models.closed_form.itemknn import ItemKNN
from leporid.models.closed_form.toppop import TopPop
from leporid.models.closed_form.transitions import Transitions
from leporid.runs import Baseline, BaselineCheck, against_baselines


@pytest.fixture(scope="module")
def split() -> Split:
    data = leporid.synthesize(users=80, items=50, interactions=1800, seed=3)
    return leporid.temporal_split(data)


def test_differences_are_those_of_a_paired_comparison(split: Split) -> None:
    table = evaluate(TopPop().fit(split), split)
    check = against_baselines(table, split)
    models = (TopPop(), ItemKNN(), EASE(), Transitions())
    assert [row.name for row in check.baselines] == [type(model).__name__ for model in models]
    for row, model in zip(check.baselines, models, strict=True):
        other = evaluate(model.fit(split), split)
        assert (row.settings, row.metrics) == (model.config.to_dict(), other.mean())
        same = compare(table, other, "NDCG@10", name_a="the model", name_b=row.name)
        assert row.comparison == same
    assert check.best.metrics["NDCG@10"] == max(row.metrics["NDCG@10"] for row in check.baselines)
    told = json.loads(json.dumps(check.to_dict()))
    assert told["models"]["ease"]["comparison"] == check.baselines[2].comparison.to_dict()


def test_no_model_is_compared_with_itself(split: Split) -> None:
    others = ["toppop", "itemknn", "transitions"]
    usual = ["toppop", "itemknn", "ease", "transitions"]
    for model, names in ((EASE(), others), (EASE(l2=1.0), usual)):
        model.fit(split)
        check = against_baselines(evaluate(model, split), split, fitted=model)
        assert [row.model for row in check.baselines] == names


def test_transitions_are_a_baseline_of_data_with_an_order(split: Split) -> None:
    shuffled = leporid.random_split(leporid.synthesize(users=80, items=50, interactions=1800))
    for data, names in ((split, ["transitions"]), (shuffled, [])):
        check = against_baselines(evaluate(TopPop().fit(data), data), data)
        assert [row.model for row in check.baselines[3:]] == names


def test_ease_is_left_out_where_its_matrix_is_large(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[Baseline.__module__]
    monkeypatch.setattr(module, "MAX_EASE_ITEMS", split.n_items - 1)
    check = against_baselines(evaluate(TopPop().fit(split), split), split)
    assert [row.model for row in check.baselines] == ["toppop", "itemknn", "transitions"]
    assert check.left_out.startswith("EASE is left out: ")
    assert check.to_dict()["left_out"] == check.left_out


def test_too_short_lists_are_refused(split: Split) -> None:
    with pytest.raises(ConfigError, match="NDCG@10"):
        against_baselines(evaluate(TopPop().fit(split), split, at=(5,)), split)


def baseline(name: str, rate: float, shift: float) -> Baseline:
    """A baseline of NDCG `rate`; the model beats it by `shift`."""
    noise = np.tile([-0.01, 0.01], 50)
    comparison = compare(
        rate + shift + noise, np.full(100, rate), "NDCG@10", name_a="dlr2", name_b=name
    )
    return Baseline(
        model=name.lower(), name=name, settings={}, metrics={}, seconds=0.1, comparison=comparison
    )


def test_the_verdict_in_words() -> None:
    low = baseline("TopPop", 0.2, 0.379)

    def verdict(shift: float) -> str:
        return BaselineCheck((low, baseline("ItemKNN", 0.6, shift))).verdict()

    assert verdict(-0.039) == (
        "dlr2 loses to ItemKNN in NDCG@10: -0.0390 [-0.0410, -0.0370]; do not deploy it"
    )
    assert verdict(0.039) == "dlr2 beats ItemKNN in NDCG@10: +0.0390 [+0.0370, +0.0410]"
    assert verdict(0.001) == "dlr2 ties with ItemKNN in NDCG@10: +0.0010 [-0.0010, +0.0030]"
