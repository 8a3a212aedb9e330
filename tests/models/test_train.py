"""`train` and `leporid train`."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.data import IdMap, Split
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError
from leporid.models import Recommender, train
from leporid.models.spec import DEFAULT_INIT
from tests.training.toy import Dot, make_split

QUICK = {"dim": 4, "steps": 2, "batch_size": 8, "max_history": 3}


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


def test_a_named_initialiser_fills_the_tables(split: Split) -> None:
    frozen = {"recipe": "paper", "freeze_steps": -1, "device": "cpu"}
    model = train("dlr2", split, init="svd", seed=5, **frozen, **QUICK)
    made = leporid.initializers.get("svd")(dim=4, seed=5).fit(split.train).standardized(1.0)
    np.testing.assert_allclose(model.net.items.weight.detach(), made.items.vectors, rtol=1e-5)


def test_vectors_are_taken_by_id(split: Split) -> None:
    made = leporid.initializers.get("svd")(dim=4, seed=5).fit(split.train)
    quick: dict[str, Any] = {
        "freeze_steps": -1,
        "device": "cpu",
        "standardize": False,
        "init_scale": 1.0,
        **QUICK,
    }
    order = np.arange(1, split.n_items)
    assert made.item_ids is not None
    items = replace(made.items, vectors=made.items.vectors[order])
    part = replace(made, items=items, item_ids=made.item_ids.take(order))
    with pytest.warns(LeporidWarning, match=f"1 of {split.n_items} items have no initial vector"):
        model: Any = train("dlr2", split, init=part, **quick)
    np.testing.assert_array_equal(model.net.items.weight.detach()[1:], items.vectors)
    names = [f"nobody {n}" for n in range(split.n_users)]
    with pytest.raises(DataError, match=f"none of the {split.n_users} users"):
        train("dlr2", split, init=replace(made, user_ids=IdMap.from_values(names, "user")), **quick)


def test_vectors_set_the_dimensions_unless_they_are_asked_for(split: Split) -> None:
    made = leporid.initializers.get("svd")(dim=6, seed=5).fit(split.train)
    quick = {key: value for key, value in QUICK.items() if key not in ("dim", "max_history")}
    for recipe in ("general", "paper"):
        model: Any = train("hgn", split, init=made, recipe=recipe, device="cpu", **quick)
        assert model.config.dim == model.net.items.weight.shape[1] == 6
    with pytest.raises(ConfigError, match="dim=8"):
        train("hgn", split, init=made, dim=8, **quick)


def test_the_seed_reaches_initialiser_and_training(split: Split) -> None:
    scores = [
        train("dlr2", split, init="random", seed=seed, device="cpu", **QUICK).score(
            np.arange(3, dtype=np.int32)
        )
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])


def test_init_settings_are_those_of_the_initialiser(split: Split) -> None:
    how: dict[str, Any] = {"recipe": "paper", "freeze_steps": -1, "device": "cpu", **QUICK}
    model: Any = train("dlr2", split, "leporid", seed=5, init_settings={"k": 3, "seed": 7}, **how)
    made = leporid.initializers.get("leporid")(dim=4, seed=7, k=3).fit(split.train)
    expected = made.standardized(1.0).items.vectors
    np.testing.assert_allclose(model.net.items.weight.detach(), expected, rtol=1e-5)
    assert model.fitting.init["parameters"]["k"] == 3
    with pytest.raises(ConfigError, match="name one as init"):
        train("dlr2", split, made, init_settings={"k": 3}, **how)
    with pytest.raises(ConfigError, match="no embedding tables to fill"):
        train("ease", split, init_settings={"k": 3})


def test_classical_models_take_no_initial_vectors(split: Split) -> None:
    assert DEFAULT_INIT == "leporid"
    for init in (DEFAULT_INIT, None, "none"):
        assert train("toppop", split, init=init).name == "toppop"
    assert train("toppop", split).name == "toppop"
    with pytest.raises(ConfigError, match="no embedding tables"):
        train("toppop", split, init="leporid")
    with pytest.raises(ConfigError, match="no recipes"):
        train("toppop", split, recipe="paper")


def test_recipes_are_named_settings(split: Split) -> None:
    model = train("dlr2", split, init=None, recipe="softmax", device="cpu", **QUICK)
    assert model.config.objective == "softmax"
    assert model.config.steps == 2
    with pytest.raises(UnknownNameError, match="did you mean 'softmax'"):
        train("dlr2", split, init=None, recipe="softmaks")


def test_a_class_of_your_own_is_trained_without_registering_it(split: Split) -> None:
    settings = {"dim": 4, "steps": 2, "batch_size": 8}
    assert isinstance(train(Dot, split, init="svd", device="cpu", **settings), Dot)
    with pytest.raises(ConfigError, match="dot has no recipes"):
        train(Dot, split, init=None, recipe="paper", **settings)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    data = leporid.synthesize(30, 20, 400, seed=2, min_activity=5)
    rows = [f"{u},{i},{t}" for u, i, t in zip(data.user, data.item, data.time, strict=True)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["visitor,film,when", *rows]) + "\n")
    return path


def test_the_command_writes_model_record_and_history(log: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ["--user", "visitor", "--item", "film", "--time", "when", "--device", "cpu"]
    options += ["--init", "random", "--recipe", "paper", "--steps", "3", "--seed", "9"]
    options += ["--set", "dim=4", "--set", "batch_size=8", "--set", "eval_every=2"]
    done = CliRunner().invoke(app, ["train", str(log), "-o", str(run), *options])
    assert done.exit_code == 0, done.output
    assert "HR@10" in done.output
    record = json.loads((run / "record.json").read_text())
    assert (record["dataset"], record["model"], record["init"]) == ("log", "dlr2", "random")
    assert (record["recipe"], record["seed"], record["config"]["dim"]) == ("paper", 9, 4)
    assert record["extra"]["training"]["steps"] == 3
    assert set(record["metrics"]) == set(record["valid_metrics"])
    model = Recommender.load(run / "model")
    split = leporid.temporal_split(leporid.load(log, user="visitor", item="film", time="when"))
    assert leporid.evaluate(model, split).mean()["HR@10"] == record["metrics"]["HR@10"]
    assert (run / "history.csv").is_file()
    again = CliRunner().invoke(
        app, ["train", str(log), "-o", str(run), *options, "--resume", "--json"]
    )
    assert json.loads(again.stdout)["metrics"] == record["metrics"]


def test_the_command_refuses_an_initialiser_for_a_classical_model(
    log: Path, tmp_path: Path
) -> None:
    done = CliRunner().invoke(
        app, ["train", str(log), "-o", str(tmp_path / "x"), "--model", "toppop", "--init", "le"]
    )
    assert isinstance(done.exception, ConfigError)


@pytest.mark.parametrize(
    ("name", "reads_order"), [("dlr2", True), ("sasrec", True), ("bpr", False)]
)
def test_a_model_of_sequences_says_that_it_sees_no_order(
    split: Split, name: str, reads_order: bool
) -> None:
    parts = [replace(part, time=None) for part in (split.train, split.valid, split.test)]
    settings = {key: QUICK[key] for key in ("dim", "steps", "batch_size")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeporidWarning)
        for untimed in (Split(*parts, "by hand"), split):
            train(name, untimed, init=None, device="cpu", **settings)
    said = [str(w.message) for w in caught if issubclass(w.category, LeporidWarning)]
    assert len(said) == int(reads_order)
    assert all(name in text and "reads no order" in text for text in said)
