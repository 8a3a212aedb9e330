"""Classical models tuned with one budget: two records each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leporid.data import synthesize, temporal_split, write_log
from leporid.runs import RunRecord
from reproduction import __main__ as command
from reproduction.store import PackedResults
from reproduction.tuned_baselines import classical_models, tune_classical
from tests.experiments.records import record as old_record

DATA = synthesize(users=60, items=40, interactions=1500, seed=3)


def test_all_baselines_are_recorded_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(DATA, tmp_path / "toy.parquet")
    arguments = ["x", "tune-classical", "--dataset", "toy", "--source", str(log), "--core", "2"]
    arguments += ["--trials", "2", "--seeds", "7", "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*arguments, "--only", "toppop", "ease"])
    command.main()
    assert "NDCG@10 on test" in capsys.readouterr().out
    records = [RunRecord.read(path) for path in sorted(tmp_path.glob("toy/baselines/*.json"))]
    assert [record.model for record in records] == ["ease", "toppop"]
    assert len(list(tmp_path.glob("toy/baselines-untuned/*.json"))) == 2
    ease = records[0]
    assert ease.seed == 7
    assert ease.extra["tuning"]["trials"] == 2
    assert ease.valid_metrics["NDCG@10"] == pytest.approx(ease.extra["tuning"]["best_value"])
    assert [record.seen for record in records] == ["train and validation", "train only"]
    monkeypatch.setattr("sys.argv", ["x", "pack", "--results", str(tmp_path)])
    command.main()
    assert "4 records packed" in capsys.readouterr().out


def test_baselines_run_again_replace_what_was_there(tmp_path: Path) -> None:
    split, results = temporal_split(DATA), PackedResults(tmp_path)
    before = old_record("ease", None, 3, 0.5, experiment="baselines", dataset="toy")
    other = old_record("ease", None, 4, 0.5, experiment="baselines", dataset="toy")
    for old in (before, other):
        results.add(old)
    results.pack()
    options: dict[str, Any] = {"names": ["ease"], "trials": 1, "seed": 3}
    tune_classical(split, "toy", tmp_path, **options)
    assert len(results.records("toy", ["baselines"])) == 3
    [(_, tuned)] = tune_classical(split, "toy", tmp_path, replace=True, **options)
    keys = {record.key for record in results.records("toy", ["baselines"])}
    assert keys == {tuned.key, other.key}
    assert results.outcomes(tuned.key) is not None
    [(untuned,)] = tune_classical(split, "toy", tmp_path, **options | {"trials": 0})
    assert untuned.experiment == "baselines-untuned"
    assert {record.key for record in results.records("toy", ["baselines"])} == keys


def test_classical_models_are_those_without_vectors() -> None:
    assert classical_models() == [
        "toppop", "recent", "frequency", "userknn", "itemknn", "slim", "ease", "p3alpha",
        "rp3beta", "transitions", "ials", "gfcf", "turbocf",
    ]  # fmt: skip
