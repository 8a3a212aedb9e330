"""The pages of `leporid train` and `leporid compare`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.data import write_log
from leporid.runs import RunRecord, hits_in_words, save_run
from tests.made_runs import run_of, train_to

SUMMARY = re.compile(r"<div class='summary'>(.*?)</div>", re.DOTALL)


def said(page: Path) -> list[str]:
    """The paragraphs above everything else."""
    [summary] = SUMMARY.findall(page.read_text(encoding="utf-8"))
    return re.findall("<p>(.*?)</p>", summary)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: with baselines, final, and without baselines."""
    folder = tmp_path_factory.mktemp("runs")
    split = leporid.temporal_split(leporid.synthesize(90, 60, 1800, seed=3))
    train_to(folder / "itemknn", "itemknn", split, k=7)
    train_to(folder / "final", "ease", split, final=True)
    train_to(folder / "toppop", "toppop", split, baselines=False)
    write_log(split.train, folder / "log.csv")
    return folder


def test_hits_in_words() -> None:
    words = hits_in_words(0.688, {"most popular items": 0.531})
    assert words == "69% of users have a hit in their top 10 (most popular items: 53%)."
    assert hits_in_words(0.5, {}, 5, " of a") == "50% of users have a hit in their top 5 of a."


def test_a_run_has_a_page_that_begins_in_words(runs: Path) -> None:
    record = RunRecord.read(runs / "itemknn" / "record.json")
    headline, hits, verdict, held = said(runs / "itemknn" / "report.html")
    popular = record.extra["baselines"]["models"]["toppop"]["metrics"]["HR@10"]
    own = record.metrics["HR@10"]
    assert hits == hits_in_words(own, {"most popular items": popular})
    best = max(
        (each["metrics"]["NDCG@10"], each["name"])
        for each in record.extra["baselines"]["models"].values()
    )[1]
    assert best in headline
    assert "itemknn" in headline.lower()
    assert verdict == f"On test {record.extra['baselines']['verdict']}."
    assert held.startswith("The folder holds the validated model")
    page = (runs / "itemknn" / "report.html").read_text(encoding="utf-8")
    bars = re.search("aria-label='Share of users with a hit in their top 10: ([^']*)'", page)
    assert bars is not None
    shares = [int(bar.split()[1].rstrip("%")) for bar in bars[1].split(", ")]
    assert shares == sorted(shares, reverse=True)
    assert f"itemknn {100 * own:.0f}" in bars[1]
    for row in ("<td class='words'>k</td><td class='words'>7</td>", "tail-users", "EASE"):
        assert row in page
    assert "Training" not in page, "nothing was trained in steps"
    assert "src=" not in page


def test_a_final_model_is_named_and_no_baselines_are_no_popular_items(runs: Path) -> None:
    assert said(runs / "final" / "report.html")[-1].startswith("The folder holds the final model")
    [hits, held] = said(runs / "toppop" / "report.html")
    assert "most popular" not in hits
    assert held.startswith("The folder holds the validated")


def test_a_network_shows_its_training(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    split = leporid.temporal_split(leporid.synthesize(90, 60, 1800, seed=3))
    folder = tmp_path / "bpr"
    train_to(folder, "bpr", split, "random", baselines=False, steps=6, eval_every=2, dim=8)
    page = (tmp_path / "bpr" / "report.html").read_text(encoding="utf-8")
    assert re.findall("<figcaption>([VL].*?)</figcaption>", page) == ["Validation NDCG@10", "Loss"]
    curve = re.findall("points='([^']*)'", page)[0].split()
    assert len(curve) == 3


def test_the_page_of_a_run_goes_with_it(runs: Path, tmp_path: Path) -> None:
    split = leporid.temporal_split(leporid.synthesize(90, 60, 1800, seed=3))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "report.html").write_text("of an earlier run")
    save_run(run_of(leporid.train("toppop", split, seed=1, progress=False), split), folder)
    assert "of an earlier run" not in (folder / "report.html").read_text(encoding="utf-8")


def test_a_comparison_has_a_page(runs: Path, tmp_path: Path) -> None:
    names = [str(runs / name) for name in ("itemknn", "toppop")]
    page = tmp_path / "compare.html"
    told = CliRunner().invoke(app, ["compare", *names, "--report", str(page)])
    assert told.exit_code == 0, told.output
    assert "compare.html" in told.output
    hits, *differences = said(page)
    values = [RunRecord.read(Path(name) / "record.json").metrics["HR@10"] for name in names]
    assert hits == hits_in_words(values[0], {names[1]: values[1]}, of=f" of {names[0]}")
    assert len(differences) == 2
    assert differences[0].startswith(f"{names[0]} ")
    text = page.read_text(encoding="utf-8")
    assert text.count("class='interval'") == 4
    assert "differences, paired by user" in text
