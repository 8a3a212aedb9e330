"""Callbacks that write into experiment trackers: MLflow, Weights & Biases."""

from __future__ import annotations

from typing import Any

from leporid.errors import import_extra
from leporid.training.callbacks import Callback

_MOST_PARAMS = 100
"""MLflow takes no more in one request."""


class MLflow(Callback):
    """One run per training, in `experiment` of the tracking server at `uri`.

    `uri` is any that MLflow knows: a server, `sqlite:///runs.db`, a folder; by default MLflow's own
    choice. Settings become parameters, rows of the history metrics.
    """

    def __init__(
        self, experiment: str = "leporid", *, uri: str | None = None, run: str | None = None
    ) -> None:
        tracking = import_extra("mlflow.tracking", "MLflow", "mlflow")
        self._client = tracking.MlflowClient(tracking_uri=uri)
        self._entities = import_extra("mlflow.entities", "MLflow", "mlflow")
        self.experiment, self._name, self.run_id = experiment, run, ""

    def start(self, about: dict[str, Any]) -> None:
        """A new run with the settings as parameters."""
        known = self._client.get_experiment_by_name(self.experiment)
        number = known.experiment_id if known else self._client.create_experiment(self.experiment)
        run = self._client.create_run(number, run_name=self._name or about["model"])
        self.run_id = run.info.run_id
        params = [self._entities.Param(key, str(value)) for key, value in _settings(about).items()]
        for first in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(self.run_id, params=params[first : first + _MOST_PARAMS])

    def log(self, row: dict[str, Any]) -> None:
        """A metric per column."""
        for name, value in row.items():
            if name != "step":
                self._client.log_metric(self.run_id, name, value, step=row["step"])

    def end(self, summary: dict[str, Any]) -> None:
        """The best validation, and whether the run finished."""
        if summary["best_metric"] is not None:
            for name in ("best_step", "best_metric"):
                self._client.log_metric(self.run_id, name, summary[name], step=summary["steps"])
        if summary["error"]:
            self._client.set_tag(self.run_id, "error", summary["error"])
        self._client.set_terminated(self.run_id, "FAILED" if summary["error"] else "FINISHED")


class WeightsAndBiases(Callback):
    """One run per training; `options` go to `wandb.init` (mode="offline", dir=..., name=...)."""

    def __init__(self, project: str = "leporid", **options: Any) -> None:
        self._wandb = import_extra("wandb", "Weights & Biases", "wandb")
        self._options = {"project": project, **options}
        self._run: Any = None

    def start(self, about: dict[str, Any]) -> None:
        """A new run with the settings as its configuration."""
        options = {"config": _settings(about), "reinit": "create_new", **self._options}
        self._run = self._wandb.init(**options)

    def log(self, row: dict[str, Any]) -> None:
        """A point per column."""
        values = {name: value for name, value in row.items() if name != "step"}
        self._run.log(values, step=row["step"])

    def end(self, summary: dict[str, Any]) -> None:
        """The summary, and whether the run finished."""
        self._run.summary.update(summary)
        self._run.finish(exit_code=1 if summary["error"] else 0)


def _settings(about: dict[str, Any]) -> dict[str, Any]:
    """The settings, and what else a run is about."""
    facts = {key: value for key, value in about.items() if key not in ("config", "step")}
    return {**about["config"], **facts}
