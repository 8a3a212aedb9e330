"""The grids of the paper: the cells that the records come from, and no others."""

from __future__ import annotations

from pathlib import Path

from leporid.foundation import canonical_hash
from leporid.runs import read_experiment
from reproduction.specs import GRIDS, GROUPS, TABLE_GROUPS, paper_spec, paper_specs
from reproduction.store import PackedResults


def test_every_group_of_the_paper_is_a_file_that_says_what_it_is() -> None:
    for group in GROUPS:
        [committed] = read_experiment(GRIDS / f"{group}.toml")
        assert committed == paper_spec(group, "ml-1m")
        assert committed.name == group


def test_the_grids_are_those_of_the_paper() -> None:
    """Hashes of the cells: a change of a grid orphans every record made from it."""
    groups = sorted({*GROUPS} - {"authors"})
    cells = [cell for group in groups for cell in paper_spec(group, "ml-1m").cells()]
    assert len(cells) == 69
    assert canonical_hash([cell.spec_hash for cell in cells]) == "50512121ef97924b"
    quick = [c for g in groups for c in paper_spec(g, "ml-100k", quick=True).cells()]
    assert len(quick) == 44
    assert canonical_hash([cell.spec_hash for cell in quick]) == "25e98306b6d7e857"


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
    [spec] = read_experiment(GRIDS / "models-ml-100k.toml")
    cells = spec.cells()
    assert len(cells) == 42
    assert all(PackedResults(root / "results").get(cell.key) for cell in cells)


def test_the_authors_grid_is_four_initialisers_frozen_and_trained_by_five_seeds() -> None:
    cells = paper_spec("authors", "ml-1m-r3", seeds=(1, 2, 3, 4, 5)).cells()
    assert len(cells) == 40
    assert {cell.recipe for cell in cells} == {"authors"}
    kinds = {(cell.init, cell.settings["freeze_steps"]) for cell in cells}
    inits = ("random", "svd", "le", "leporid")
    assert kinds == {(init, steps) for init in inits for steps in (-1, 0)}


def test_anime_is_split_at_random_and_a_rating_belongs_to_the_request() -> None:
    plain, rated = (paper_spec("losses", "anime-5k", min_rating=r).cells()[0] for r in (None, 7.0))
    assert plain.protocol == "random"
    assert paper_spec("losses", "ml-1m-r3").cells()[0].protocol == "temporal"
    assert "min_rating" not in plain.request
    assert rated.request["min_rating"] == 7.0
    assert plain.spec_hash != rated.spec_hash
