"""A trained model beside the simple ones."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

import leporid
from leporid.data import Split
from leporid.errors import ConfigError
from leporid.evaluation import compare, evaluate
from leporid.foundation import ProgressLike
from leporid.models import FitContext, ModelSpec, baseline_specs
from leporid.models.closed_form.ease import EASE
from leporid.models.closed_form.itemknn import ItemKNN
from leporid.models.closed_form.toppop import TopPop
from leporid.models.closed_form.transitions import Transitions
from leporid.runs import Baseline, BaselineCheck, RunSpec, against_baselines, execute


@pytest.fixture(scope="module")
def split() -> Split:
    data = leporid.synthesize(users=80, items=50, interactions=1800, seed=3)
    return leporid.temporal_split(data)


def test_differences_are_those_of_a_paired_comparison(split: Split) -> None:
    table = evaluate(TopPop().fit(split), split)
    check = against_baselines(table, split)
    models = (TopPop(), ItemKNN(), Transitions(), EASE())
    assert [row.name for row in check.baselines] == [type(model).__name__ for model in models]
    for row, model in zip(check.baselines, models, strict=True):
        other = evaluate(model.fit(split), split)
        assert (row.settings, row.metrics) == (model.config.to_dict(), other.mean())
        assert row.validation == evaluate(model, split, part="valid").mean()
        same = compare(table, other, "NDCG@10", name_a="the model", name_b=row.name)
        assert row.comparison == same
    assert check.best.metrics["NDCG@10"] == max(row.metrics["NDCG@10"] for row in check.baselines)
    told = json.loads(json.dumps(check.to_dict()))
    assert told["models"]["ease"]["comparison"] == check.baselines[3].comparison.to_dict()


class Told(ProgressLike):
    """What was reported, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self, description: str, total: int | None = None) -> None:
        self.lines.append(description)

    def say(self, line: str) -> None:
        self.lines.append(line)


def values_of(line: str) -> list[float]:
    """The metrics of a line."""
    return [float(word) for word in re.findall(r"\d\.\d{4}", line)]


def test_baselines_are_validated_before_the_model_begins(split: Split) -> None:
    told = Told()
    model = ModelSpec.resolve("userknn", split.train, seed=0)
    spec = RunSpec(model, dataset="toy").with_baselines(split)
    run = execute(spec, split, FitContext(progress=told))
    names = ["TopPop", "ItemKNN", "Transitions", "EASE"]
    assert [line.split()[0] for line in told.lines] == ["baselines:", *names, "userknn:"]
    assert run.check is not None
    values = {row.name: row.validation["NDCG@10"] for row in run.check.baselines}
    best = max(values, key=values.__getitem__)
    assert f"than {best} ({values[best]:.4f})" in told.lines[-1]
    assert values_of(told.lines[-1])[0] == round(run.validation["NDCG@10"], 4)
    for line, row in zip(told.lines[1:-1], run.check.baselines, strict=True):
        means = row.validation
        assert values_of(line) == [round(means[name], 4) for name in ("NDCG@10", "HR@10")]


def test_baselines_of_a_training_are_those_of_a_run_and_can_be_left_out(split: Split) -> None:
    settings = {"dim": 4, "steps": 2, "eval_every": 0, "device": "cpu"}
    told = Told()
    leporid.train("bpr", split, None, progress=told, **settings)
    assert [line.split()[0] for line in told.lines[1:5]] == [
        "TopPop",
        "ItemKNN",
        "Transitions",
        "EASE",
    ]
    validation = evaluate(EASE().fit(split), split, part="valid").mean()
    assert values_of(told.lines[4]) == [round(validation[name], 4) for name in ("NDCG@10", "HR@10")]
    for arguments in ({"baselines": False}, {"model": "ease"}):
        told = Told()
        closed_form = "model" in arguments
        asked = {} if closed_form else {**settings, **arguments}
        leporid.train(arguments.get("model", "bpr"), split, None, progress=told, **asked)
        assert not any("EASE" in line for line in told.lines)


def test_without_a_validation_part_baselines_have_only_a_test(split: Split) -> None:
    nothing = split.valid.select(np.zeros(len(split.valid), bool))
    unvalidated = Split(split.train, nothing, split.test, split.protocol)
    told = Told()
    table = evaluate(TopPop().fit(unvalidated), unvalidated)
    check = against_baselines(table, unvalidated, progress=told)
    assert all(row.validation == {} and row.metrics for row in check.baselines)
    assert not any(values_of(line) for line in told.lines)


def test_no_model_is_compared_with_itself(split: Split) -> None:
    others = ["toppop", "itemknn", "transitions"]
    usual = ["toppop", "itemknn", "transitions", "ease"]
    for model, names in ((EASE(), others), (EASE(l2=1.0), usual)):
        model.fit(split)
        check = against_baselines(evaluate(model, split), split, fitted=model)
        assert [row.model for row in check.baselines] == names


def test_transitions_are_a_baseline_of_data_with_an_order(split: Split) -> None:
    shuffled = leporid.random_split(leporid.synthesize(users=80, items=50, interactions=1800))
    for data, is_baseline in ((split, True), (shuffled, False)):
        check = against_baselines(evaluate(TopPop().fit(data), data), data)
        assert ("transitions" in [row.model for row in check.baselines]) is is_baseline


def test_ease_is_left_out_where_its_matrix_is_large(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[baseline_specs.__module__]
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
        model=name.lower(),
        name=name,
        settings={},
        metrics={},
        validation={},
        seconds=0.1,
        comparison=comparison,
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
