"""Trainings in experiment trackers: a real store of MLflow, real offline files of W&B."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leporid.data import Split
from leporid.errors import MissingExtraError
from leporid.training import Callback, MLflow, WeightsAndBiases
from tests.training.toy import Dot

SETTINGS = {"dim": 4, "batch_size": 12, "steps": 12, "eval_every": 5}


class Broken(Callback):
    """Fails at the third step."""

    def step(self, step: int) -> None:
        if step == 3:
            raise RuntimeError("no more")


@pytest.mark.slow
def test_mlflow_has_settings_curves_and_the_end(split: Split, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    tracker = MLflow("films", uri=uri, run="first")
    model = Dot(**SETTINGS).fit(split, callbacks=[tracker])
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "first"
    assert run.data.params["dim"] == "4"
    assert run.data.params["model"] == "dot"
    assert run.data.metrics["best_metric"] == model.history.best_metric
    losses = client.get_metric_history(tracker.run_id, "loss")
    assert [(m.step, m.value) for m in losses] == [(r["step"], r["loss"]) for r in
                                                   model.history.rows]  # fmt: skip
    with pytest.raises(RuntimeError, match="no more"):
        Dot(**SETTINGS).fit(split, callbacks=[tracker, Broken()])
    run = client.get_run(tracker.run_id)
    assert (run.info.status, run.data.tags["error"]) == ("FAILED", "no more")


@pytest.mark.slow
def test_wandb_writes_offline_files(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    tracker = WeightsAndBiases("films", mode="offline", dir=str(tmp_path))
    model = Dot(**SETTINGS).fit(split, callbacks=[tracker])
    wandb.teardown()  # waits until the files are complete
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    content = file.read_bytes()
    assert b"examples_per_second" in content
    assert str(model.history.rows[0]["loss"]).encode() in content


@pytest.mark.parametrize(("tracker", "extra"), [(MLflow, "mlflow"), (WeightsAndBiases, "wandb")])
def test_a_missing_package_is_named(
    tracker: type[Callback], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (extra, f"{extra}.tracking"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"leporid\[{extra}\]"):
        tracker()
