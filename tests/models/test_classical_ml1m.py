"""The figures the design gives for MovieLens-1M (ratings of 3 and above, 20-core)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid import models
from leporid.data import Split


@pytest.fixture(scope="module")
def ml1m(real_data: Path) -> Split:
    return leporid.temporal_split(leporid.load(real_data / "ml-1m-r3.parquet").core(20))


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "settings", "hit_rate", "f1"),
    [
        ("toppop", {}, 0.447, 0.056),
        ("userknn", {"k": 400, "window": None, "shrink": 0.0}, 0.513, 0.071),
        (
            "itemknn",
            {"k": 400, "window": None, "shrink": 0.0, "similarity": "jaccard"},
            0.518,
            0.076,
        ),
        ("ease", {"l2": 1000.0, "window": None}, 0.528, 0.076),
    ],
)
def test_untuned_baselines_reach_the_figures_of_the_design_from_training_rows(
    ml1m: Split, name: str, settings: dict[str, Any], hit_rate: float, f1: float
) -> None:
    model = models.get(name)(**settings).fit(ml1m)
    train = ml1m.train.sequences()
    found = leporid.evaluate(lambda users, _: model.score(users, train), ml1m, at=(10,)).mean()
    assert round(found["HR@10"], 3) == pytest.approx(
        hit_rate, abs=1e-9 if name == "toppop" else 2e-3
    )
    assert round(found["F1@10"], 3) == pytest.approx(f1, abs=1e-9 if name == "toppop" else 1e-3)


@pytest.mark.slow
@pytest.mark.realdata
def test_ease_gains_from_what_is_known_and_from_a_window(ml1m: Split) -> None:
    model = models.get("ease")(l2=1000.0, window=None).fit(ml1m)
    known = leporid.evaluate(model, ml1m, at=(10,)).mean()
    assert known["HR@10"] == pytest.approx(0.602, abs=2e-3)
    model.config = model.config.replace(window=5)
    recent = leporid.evaluate(model, ml1m, at=(10,)).mean()
    assert recent["HR@10"] == pytest.approx(0.727, abs=2e-3)
    assert recent["F1@10"] == pytest.approx(0.129, abs=1e-3)
