"""Experiment specs: strict, and a stable name for every cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from leporid.config import canonical_hash
from leporid.errors import ConfigError, UnknownNameError
from leporid.paper import reproduce
from leporid.paper.reproduce import GROUPS, TABLE_GROUPS, paper_spec, paper_specs, renumbered
from leporid.runs.spec import ExperimentSpec, read_experiment
from leporid.runs.store import Results

GRIDS = Path(reproduce.__file__).parent / "grids"


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
    original = paper_spec("losses", "ml-1m", seeds=(1, 2))
    again = ExperimentSpec.from_dict(original.to_dict())
    assert [c.spec_hash for c in again.cells()] == [c.spec_hash for c in original.cells()]


def test_every_group_of_the_paper_is_a_file_that_says_what_it_is() -> None:
    files = {path.stem: ExperimentSpec.from_toml(path) for path in GRIDS.glob("[!q]*.toml")}
    assert set(files) == set(GROUPS)
    for group, committed in files.items():
        assert committed == paper_spec(group, "ml-1m")
        assert committed.name == group


def test_the_grids_are_those_of_the_paper() -> None:
    """Hashes of the cells: a change of a grid orphans every record made from it."""
    groups = sorted({*GROUPS} - {"authors"})
    cells = [cell for group in groups for cell in paper_spec(group, "ml-1m").cells()]
    assert len(cells) == 69
    assert canonical_hash([cell.spec_hash for cell in cells]) == "5cb770344a5210d1"
    quick = [c for g in groups for c in paper_spec(g, "ml-100k", quick=True).cells()]
    assert len(quick) == 44
    assert canonical_hash([cell.spec_hash for cell in quick]) == "69ae2839cf78f77e"


def test_every_table_is_made_from_known_groups() -> None:
    assert {group for groups in TABLE_GROUPS.values() for group in groups} == set(GROUPS)


def test_a_table_runs_only_the_cells_it_shows() -> None:
    cells = [cell for spec in paper_specs(["table4"], "ml-1m") for cell in spec.cells()]
    trained = [(cell.model, cell.init) for cell in cells if cell.experiment == "initialisers"]
    others = [(model, "leporid") for model in ("ncf", "ngcf", "dgcf", "hgn", "dlr2")]
    assert sorted(trained) == sorted([*others, ("dlr2", "le")])
    # The same cells as Table 3 has, so that neither runs what the other has done.
    whole = {cell.spec_hash for cell in paper_spec("initialisers", "ml-1m").cells()}
    assert {c.spec_hash for c in cells if c.experiment == "initialisers"} < whole
    both = paper_specs(["table3", "table4"], "ml-1m")
    assert sum(len(spec.cells()) for spec in both if spec.name == "initialisers") == 40


def test_the_committed_experiment_is_the_one_the_records_come_from() -> None:
    root = Path(__file__).parents[2]
    cells = ExperimentSpec.from_toml(root / "experiments" / "models-ml-100k.toml").cells()
    assert len(cells) == 42
    assert all(Results(root / "results").get(cell.key) for cell in cells)


def test_the_authors_grid_is_four_starts_frozen_and_trained_by_five_seeds() -> None:
    cells = paper_spec("authors", "ml-1m-r3", seeds=(1, 2, 3, 4, 5)).cells()
    assert len(cells) == 40
    assert {cell.recipe for cell in cells} == {"authors"}
    kinds = {(cell.init, cell.settings["freeze_steps"]) for cell in cells}
    starts = ("random", "svd", "le", "leporid")
    assert kinds == {(start, steps) for start in starts for steps in (-1, 0)}


def test_anime_is_split_at_random_and_a_rating_belongs_to_the_request() -> None:
    plain, rated = (paper_spec("losses", "anime-5k", min_rating=r).cells()[0] for r in (None, 7.0))
    assert plain.protocol == "random"
    assert paper_spec("losses", "ml-1m-r3").cells()[0].protocol == "temporal"
    assert "min_rating" not in plain.request
    assert rated.request["min_rating"] == 7.0
    assert plain.spec_hash != rated.spec_hash


def test_numbers_of_earlier_versions_say_what_they_mean_now() -> None:
    with pytest.raises(ConfigError, match="data sets, table1 in earlier versions, are table2 now"):
        renumbered("table1")
    assert renumbered("table3") == (
        "table3 is the paper's Table 3, initialisers; algorithms, table3 in earlier versions, "
        "are table4 now"
    )
    assert renumbered("table7") is None
    assert renumbered("alpha") is None


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
