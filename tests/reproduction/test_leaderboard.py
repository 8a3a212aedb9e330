"""The leaderboard from records made by hand: rows, ranks, differences, sentences, the page."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from leporid.evaluation import MetricTable
from leporid.models import registry as catalogue
from leporid.runs import RunRecord, read_experiment
from reproduction.leaderboard import (
    AS_IT_COMES,
    FAMILIES,
    best_of_families,
    leaderboard_page,
    rankings,
    read_leaderboard,
    short_table,
)
from reproduction.ranks import Ranking, critical_difference, mean_ranks
from reproduction.store import PackedResults

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
USERS = 400
GRID = """
name = "board"
dataset = ""
models = ["dlr2", "sasrec", "bpr"]
inits = ["leporid", "random"]
inits_of = { dlr2 = ["leporid", "random", "svd"] }
seeds = [1, 2]
[recipes]
dlr2 = "general"
[[logs]]
dataset = "thin"
source = "thin.parquet"
core = 1
[[logs]]
dataset = "thick"
core = 5
protocol = "random"
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "board.toml"
    path.write_text(GRID, encoding="utf-8")
    return path


def write(root: Path, hr: float, **about: Any) -> None:
    """A record whose first `hr` of the users have a hit."""
    metrics = {"HR@10": hr, "F1@10": hr / 5, "NDCG@10": hr / 2}
    train = {"users": USERS, "items": 50, "interactions": 1000, "density": 0.05}
    extra = {"data_digest": about.pop("digest", "same"), "train": train}
    extra["seen"] = about.pop("seen", "train only")
    trials = {"tuning": {"trials": 20}} if about["experiment"] == "baselines" else {}
    record = RunRecord(
        config={"dim": 8},
        metrics=metrics,
        valid_metrics={"NDCG@10": about.pop("valid", hr)},
        tail_metrics={"HR@10": hr / 4},
        seconds=12.0,
        peak_memory_mb=1.0,
        device="cpu",
        extra={**extra, **trials},
        **about,
    )
    users = np.arange(USERS, dtype=np.int32)
    hits = (users < round(hr * USERS)).astype(np.int32)
    PackedResults(root).add(record, MetricTable.from_hits(users, hits, np.ones(USERS, np.int32)))


def fill(root: Path, grid: Path, log: str, values: dict[tuple[str, str | None], float]) -> None:
    """Records of all seeds of some rows of a log; an init of None is a baseline."""
    spec = next(spec for spec in read_experiment(grid) if spec.dataset == log)
    for cell in spec.cells():
        if (cell.model, cell.init) in values:
            names = ("dataset", "experiment", "model", "init", "recipe", "seed", "spec_hash")
            about = {name: getattr(cell, name) for name in names}
            hr = values[cell.model, cell.init] + 0.005 * (cell.seed - 1.5)
            write(root, hr, **about)
    for (model, init), hr in values.items():
        if init is None:
            about = {"dataset": log, "experiment": "baselines", "model": model, "init": None}
            write(root, hr, recipe=None, seed=0, **about)


FIRST: dict[tuple[str, str | None], float] = {
    ("dlr2", "leporid"): 0.60,
    ("dlr2", "random"): 0.40,
    ("dlr2", "svd"): 0.60,
    ("sasrec", "leporid"): 0.50,
    ("sasrec", "random"): 0.45,
    ("ease", None): 0.52,
    ("toppop", None): 0.20,
}


def test_ranks_are_means_over_logs_and_ties_share() -> None:
    values = np.array([[0.3, 0.1, 0.3, 0.2], [0.5, 0.9, 0.1, 0.4], [0.2, 0.2, 0.2, 0.3]])
    by_hand = [
        np.mean([1 + sum(row > row[i]) + (sum(row == row[i]) - 1) / 2 for row in values])
        for i in range(4)
    ]
    np.testing.assert_allclose(mean_ranks(values), by_hand)
    np.testing.assert_allclose(mean_ranks(values), np.mean([rankdata(-r) for r in values], axis=0))


def test_the_critical_difference_is_that_of_the_printed_table() -> None:
    """Demšar 2006, Table 5a: q at 5% for 2 to 10 classifiers; CD of his example is 1.25."""
    printed = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    for rows, q in enumerate(printed, start=2):
        found = critical_difference(rows, 10) / np.sqrt(rows * (rows + 1) / 60)
        assert found == pytest.approx(q, abs=1.5e-3), rows
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_groups_are_the_longest_runs_within_the_critical_difference() -> None:
    ranks = np.array([1.0, 1.5, 2.6, 4.0, 4.1, 4.2])
    found = Ranking("t", ["a"], list("abcdef"), ranks, ranks, 1.2, None)
    assert found.groups() == [(0, 1), (1, 2), (3, 5)]


def test_rows_hold_their_seeds_and_say_what_is_missing(tmp_path: Path, grid: Path) -> None:
    fill(tmp_path, grid, "thin", FIRST)
    thin, thick = read_leaderboard(grid, tmp_path)
    row = thin.row("dlr2", "leporid")
    assert row is not None
    assert (row.seeds, row.tuning, row.history) == ("2", "recipe `general`", "train only")
    assert row.mean("HR@10") == pytest.approx(0.6)
    assert row.shown("HR@10") == "0.6000 ± 0.0035"
    ease = thin.row("ease", None)
    assert ease is not None
    assert (ease.tuning, ease.shown("HR@10")) == ("20 trials", "0.5200")
    assert thin.train["density"] == 0.05
    assert "bpr from leporid, random" in thin.missing
    assert "itemknn" in thin.missing
    assert not thick.run
    run, tune = thick.commands(grid)
    assert run == "python -m reproduction run --source reproduction/grids/board.toml --data FOLDER"
    assert tune.startswith(
        "python -m reproduction tune-classical --dataset thick --core 5 --protocol r"
    )
    assert "ease" not in thin.commands(grid)[1]
    assert "FOLDER/thin.parquet" in thin.commands(grid)[1]


def test_a_row_with_some_of_its_seeds_is_shown_and_missing(tmp_path: Path, grid: Path) -> None:
    fill(tmp_path, grid, "thin", FIRST)
    (path,) = (tmp_path / "thin" / "board").glob("sasrec-random-2-*.json")
    path.unlink()
    thin, _ = read_leaderboard(grid, tmp_path)
    row = thin.row("sasrec", "random")
    assert row is not None
    assert row.seeds == "1 of 2"
    assert "sasrec from random (1 of 2 seeds)" in thin.missing


def test_records_of_other_settings_or_data_are_counted_and_left_out(
    tmp_path: Path, grid: Path
) -> None:
    fill(tmp_path, grid, "thin", FIRST)
    about = {"dataset": "thin", "recipe": None, "seed": 1}
    write(tmp_path, 0.9, model="bpr", init="random", experiment="board", spec_hash="old", **about)
    about |= {"digest": "other", "experiment": "baselines"}
    write(tmp_path, 0.9, model="itemknn", init=None, **about)
    thin, _ = read_leaderboard(grid, tmp_path)
    assert thin.left_out == 2
    assert thin.row("bpr", "random") is None
    assert thin.row("itemknn", None) is None
    assert "2 records are left out" in leaderboard_page(grid, tmp_path)


def test_ranked_are_the_rows_of_every_log_that_has_records(tmp_path: Path, grid: Path) -> None:
    fill(tmp_path, grid, "thin", {**FIRST, ("slim", None): 0.9})
    assert rankings(read_leaderboard(grid, tmp_path)) == []
    second = {**FIRST, ("dlr2", "random"): 0.62, ("itemknn", None): 0.9}
    fill(tmp_path, grid, "thick", second)
    every, models, inits = rankings(read_leaderboard(grid, tmp_path))
    assert not {"itemknn", "slim"} & {*every.names}
    assert models.names == ["dlr2 from leporid", "ease", "sasrec from leporid", "toppop"]
    np.testing.assert_allclose(models.ranks, [1, 2, 3, 4])
    assert inits.title == "Initialisers of dlr2"
    assert dict(zip(inits.names, inits.ranks, strict=True))["dlr2 from random"] == 2
    assert models.difference == pytest.approx(critical_difference(4, 2))


def test_the_comparisons_turn_when_the_numbers_turn(tmp_path: Path, grid: Path) -> None:
    fill(tmp_path / "a", grid, "thin", FIRST)
    page = leaderboard_page(grid, tmp_path / "a")
    assert re.search(r"\| thin \| dlr2 \| random \| \+0.2000 \[.*\| better \|", page)
    assert re.search(r"\| thin \| sasrec from leporid \| .* \+0.1000 \[.*\| better \|", page)
    assert re.search(r"\| thin \| dlr2 \| svd \| .*\| equivalent \|", page)
    turned = {**FIRST, ("dlr2", "leporid"): 0.40, ("dlr2", "random"): 0.60}
    fill(tmp_path / "b", grid, "thin", turned)
    page = leaderboard_page(grid, tmp_path / "b")
    assert re.search(r"\| thin \| dlr2 \| random \| -0.2000 \[.*\| worse \|", page)
    assert re.search(r"\| thin \| dlr2 \| svd \| .*\| worse \|", page)
    assert "| LEPORID against random | 2 | 1 | 1 | 0 | 0 |" in page
    row = r"\| thin \| sasrec from leporid \| 0.4000 \| 0.5000 \| -0.1000 \[.*\| -20.0 \| worse \|"
    assert re.search(row, page)


def test_the_short_form_chooses_on_validation(tmp_path: Path, grid: Path) -> None:
    fill(tmp_path, grid, "thin", FIRST)
    about = {"dataset": "thin", "experiment": "baselines", "init": None, "recipe": None, "seed": 0}
    known = "train and validation"
    write(tmp_path, 0.48, valid=0.99, model="itemknn", seen=known, **about)
    logs = read_leaderboard(grid, tmp_path)
    thin, thick = best_of_families(logs)
    assert thin["best"]["neighbours, linear"]["row"] == "itemknn"
    assert set(thick["best"].values()) == {None}
    table = short_table(logs)
    assert "| thin | 400 x 50, 5% | 0.1000 / 0.2000 toppop † | 0.2400 / 0.4800 itemknn |" in table
    assert "**0.3000 / 0.6000** dlr2 from " in table
    assert "| thick | - | not run yet |" in table


def test_every_model_has_a_family() -> None:
    listed = [model for models in FAMILIES.values() for model in models]
    assert len(listed) == len(set(listed))
    # A blend has no settings of its own to compare; three models have no records there yet.
    alone = {model for model in listed if AS_IT_COMES not in model}
    known = {*alone, "blend", "frequency", "recent", "transitions"}
    assert known == set(catalogue._registry._paths)


def test_the_pictures_are_drawn_where_the_page_shows_them(tmp_path: Path, grid: Path) -> None:
    pytest.importorskip("matplotlib")
    made = runpy.run_path(str(ROOT / "docs" / "make_pictures.py"))["leaderboard_pictures"]

    def shown() -> set[str]:
        page = leaderboard_page(grid, tmp_path)
        names = ("leaderboard-ranks", "leaderboard-gains")
        return {name for name in names if f"images/{name}.png" in page}

    assert shown() == set(made(read_leaderboard(grid, tmp_path), tmp_path)) == set()
    for log in ("thin", "thick"):
        fill(tmp_path, grid, log, FIRST)
    figures = made(read_leaderboard(grid, tmp_path), tmp_path)
    assert shown() == set(figures) == {"leaderboard-ranks", "leaderboard-gains"}
    labels = [text.get_text() for text in figures["leaderboard-gains"].axes[0].get_xticklabels()]
    assert labels == ["thin\n5%", "thick\n5%"]
    for name, figure in figures.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5000


def test_values_that_differ_by_the_order_of_a_sum_are_ties() -> None:
    values = np.array([[0.1 + 0.2, 0.3, 0.2]])
    assert mean_ranks(values).tolist() == [1.5, 1.5, 3.0]
