"""Experiment specs: strict, and a stable name for every cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from leporid.errors import ConfigError, UnknownNameError
from leporid.runs import ExperimentSpec, read_experiment


def spec(**changes: object) -> ExperimentSpec:
    values = {"name": "x", "dataset": "toy", "models": ["toppop"], "seeds": [1, 2]}
    return ExperimentSpec.from_dict({**values, **changes})


def test_classical_models_are_run_once_per_seed_whatever_the_initialisers() -> None:
    cells = spec(inits=["random", "le", "leporid"]).cells()
    assert [(cell.model, cell.init, cell.seed) for cell in cells] == [
        ("toppop", None, 1),
        ("toppop", None, 2),
    ]


def test_grid_is_models_times_initialisers_times_seeds_plus_variants() -> None:
    grid = spec(
        models=["toppop", "dlr2"],
        inits=["random", "leporid"],
        settings={"dlr2": {"steps": 7}},
        recipes={"dlr2": "paper"},
        variants=[{"name": "only-g", "model": "dlr2", "settings": {"loss": "generative"}}],
    )
    cells = grid.cells()
    assert len(cells) == 2 * (1 + 2) + 2
    assert cells[-1].variant == "only-g"
    assert cells[-1].settings == {"steps": 7, "loss": "generative"}
    assert len({cell.spec_hash for cell in cells}) == len(cells)


def test_where_the_data_lies_does_not_change_the_hash_but_settings_do() -> None:
    here = spec(source="a.parquet").cells()[0]
    there = spec(source="b/c.parquet").cells()[0]
    other = spec(source="a.parquet", core=5).cells()[0]
    assert here.spec_hash == there.spec_hash != other.spec_hash


def test_unknown_key_is_refused_with_the_closest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'models'"):
        ExperimentSpec.from_dict({"name": "x", "dataset": "y", "modls": ["toppop"]})


def test_unknown_model_initialiser_and_variant_key_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="toppop"):
        spec(models=["topop"])
    with pytest.raises(UnknownNameError, match="leporid"):
        spec(inits=["leporrid"])
    with pytest.raises(ConfigError, match="settings"):
        spec(variants=[{"name": "a", "model": "dlr2", "setings": {}}])


def test_an_experiment_without_models_or_seeds_is_refused() -> None:
    with pytest.raises(ConfigError, match="neither models nor variants"):
        spec(models=[])
    with pytest.raises(ConfigError, match="no seeds"):
        spec(seeds=[])


def test_spec_survives_a_round_trip() -> None:
    original = spec(recipes={"dlr2": "paper"}, variants=[{"name": "a", "model": "dlr2"}])
    again = ExperimentSpec.from_dict(original.to_dict())
    assert [c.spec_hash for c in again.cells()] == [c.spec_hash for c in original.cells()]


def test_one_file_runs_the_same_grid_on_several_logs(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        'name = "g"\ncore = 3\nmodels = ["bpr", "dlr2", "toppop"]\ninits = ["random"]\n'
        'inits_of = { dlr2 = ["svd", "le"] }\n'
        '[[logs]]\ndataset = "a"\nsource = "a.csv"\n[[logs]]\ndataset = "ml-100k"\ncore = 1\n'
    )
    first, second = read_experiment(file, tmp_path)
    assert (first.source, second.source) == (str(tmp_path / "a.csv"), None)
    assert (first.core, second.core) == (3, 1)
    starts = [("bpr", "random"), ("dlr2", "svd"), ("dlr2", "le"), ("toppop", None)]
    assert [(cell.model, cell.init) for cell in first.cells()] == starts
    # Where the files lie is no part of what was asked for.
    elsewhere = read_experiment(file, "/elsewhere")[0].cells()
    assert [c.spec_hash for c in elsewhere] == [c.spec_hash for c in first.cells()]


def test_names_in_inits_of_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="nonsense"):
        ExperimentSpec(name="x", dataset="y", models=("bpr",), inits_of={"bpr": ["nonsense"]})
