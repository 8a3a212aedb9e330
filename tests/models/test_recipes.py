"""The tuned recipes are the settings that were run, and their records lie in the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

import leporid
from leporid.models.shared.neural import NeuralRecommender
from leporid.runs.store import Results

RESULTS = Results(Path(__file__).resolve().parents[2] / "results")
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
                ran[key] = model.default_init_scale
            number = isinstance(ran[key], float)
            assert ours[key] == (pytest.approx(ran[key], rel=1e-3) if number else ran[key]), key


@pytest.mark.parametrize("name", [*TUNED, "dlr2"])
def test_every_neural_model_has_its_papers_recipe(name: str) -> None:
    model = leporid.models.get(name)
    assert issubclass(model, NeuralRecommender)
    assert "paper" in model.recipes
    model.from_recipe("paper")
