"""The tuned recipes are the settings that were run, and their records lie in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leporid
from leporid.data import IdMap, Interactions
from leporid.models import NeuralRecommender
from leporid.models.recipes import kinds_of
from reproduction.store import PackedResults
from tests.training.toy import make_split

RESULTS = PackedResults(Path(__file__).resolve().parents[2] / "results")
TUNED = ("bpr", "ncf", "ngcf", "dgcf", "hgn", "lightgcn", "sasrec")


@pytest.mark.parametrize("name", TUNED)
def test_a_tuned_recipe_is_what_its_records_ran(name: str) -> None:
    model = leporid.models.get(name)
    assert issubclass(model, NeuralRecommender)
    ours = model.from_recipe("tuned").config.to_dict()
    rehearsed = RESULTS.records("ml-1m-r3", ["rehearsed"])
    configs = [r.config for r in rehearsed if (r.model, r.init) == (name, "leporid")]
    assert len(configs) == 3
    for ran in configs:
        # Z-scoring is what these vectors get anyway; recording a step changes no result.
        skipped = {"standardize", "cuda_graph"}
        # A softmax over all items draws no negatives.
        skipped |= {"negatives"} if ran.get("loss") == "softmax" else set()
        for key in ran.keys() & ours.keys() - skipped:
            if key == "init_scale" and ran[key] is None:
                ran[key] = 0.3 if name == "lightgcn" else 0.1  # the fixed factors of that time
            number = isinstance(ran[key], float)
            assert ours[key] == (pytest.approx(ran[key], rel=1e-3) if number else ran[key]), key


@pytest.mark.parametrize("name", [*TUNED, "dlr2"])
def test_every_neural_model_has_its_papers_recipe(name: str) -> None:
    model = leporid.models.get(name)
    assert issubclass(model, NeuralRecommender)
    assert "paper" in model.recipes
    model.from_recipe("paper")


def log_of(users: int, each: int, ordered: bool = True) -> Interactions:
    user, item = np.divmod(np.arange(users * each), each)
    ids = IdMap.range(users, "user"), IdMap.range(each, "item")
    return Interactions.from_arrays(user, item, item if ordered else None, *ids)


LOGS = [
    (log_of(10, 24), ["short histories", "small"]),
    (log_of(10, 25), ["small"]),
    (log_of(1_999, 25), ["small"]),
    (log_of(2_000, 25), []),
    (log_of(10_000, 20), ["short histories", "large"]),
    (log_of(5_000, 40), ["large"]),
    (log_of(4_000, 50), ["large", "large with long histories in order"]),
    (log_of(4_000, 50, ordered=False), ["large", "large without order"]),
    (log_of(10, 30, ordered=False), ["small"]),
    (log_of(3_999, 50), []),
]


@pytest.mark.parametrize(("log", "kinds"), LOGS)
def test_kinds_of_logs_by_their_numbers(log: Interactions, kinds: list[str]) -> None:
    assert kinds_of(log) == kinds


@pytest.mark.parametrize("name", [*TUNED, "dlr2"])
def test_general_ends_by_patience_on_every_kind_of_log(name: str) -> None:
    model = leporid.models.get(name)
    assert model.general_by_kind.keys() <= {kind for _, kinds in LOGS for kind in kinds}
    for log in (log_of(10, 24), log_of(4_000, 50)):
        config: Any = model(**model.recipe_settings("general", log)).config
        assert config.schedule == "inverse-root"
        assert config.patience > 0
        assert config.eval_every > 0


def test_general_is_what_nobody_has_to_ask_for() -> None:
    split, quick = make_split(), {"dim": 4, "steps": 2, "progress": False, "device": "cpu"}
    chosen: Any = leporid.train("dlr2", split, init=None, **quick)
    assert chosen.config == leporid.train("dlr2", split, None, recipe="general", **quick).config
    plain: Any = leporid.train("dlr2", split, init=None, recipe=None, **quick)
    assert plain.config == leporid.models.get("dlr2")(dim=4, steps=2).config
    leporid.train("itemknn", split, progress=False)
