"""`Callback`: what others are told while a model trains; `MLflow` and `WeightsAndBiases`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leporid.errors import import_extra

if TYPE_CHECKING:
    from leporid.training.checkpoint import TrainingState

_MAX_PARAMS = 100  # MLflow takes no more in one request


class Callback:
    """Override what you need. Only the main process of several calls it; values are plain."""

    def start(self, about: dict[str, Any]) -> None:
        """Before the first step: `model`, `config`, `seed`, `steps`, `step` and hashes of the data
        and (`start`) of the initial weights."""

    def step(self, step: int) -> bool | None:
        """After every step, before its validation; True makes it the last one."""

    def log(self, row: dict[str, Any]) -> None:
        """Every 50 steps and at validations: a row of `TrainingHistory`."""

    def validation(self, row: dict[str, Any]) -> bool | None:
        """`step`, `metric`, `best_step` and `best_metric`; True ends the training here."""

    def end(self, summary: dict[str, Any]) -> None:
        """However it ends: `steps`, `best_step`, `best_metric`, and `error` or None."""


class StopWhen(Callback):
    """End the training after the first step for which `rule(step)` is True."""

    def __init__(self, rule: Callable[[int], bool]) -> None:
        self.rule = rule

    def step(self, step: int) -> bool:
        return self.rule(step)


@dataclass
class Callbacks:
    """Several callbacks as one, which are told of the end however it comes."""

    each: Sequence[Callback]
    state: TrainingState
    identity: dict[str, Any]
    steps: int

    def __enter__(self) -> Callbacks:
        for callback in self.each:
            callback.start({**self.identity, "steps": self.steps, "step": self.state.step})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        message = None if kind is None else str(error) or kind.__name__
        for callback in self.each:
            callback.end({"steps": self.state.step, **self._best(), "error": message})

    def step(self) -> bool:
        answers = [callback.step(self.state.step) for callback in self.each]
        return any(answers)

    def validation(self, metric: float) -> bool:
        row = {"step": self.state.step, "metric": metric, **self._best()}
        answers = [callback.validation(row) for callback in self.each]
        return any(answers)

    def log(self, row: dict[str, Any]) -> None:
        for callback in self.each:
            callback.log(dict(row))

    def _best(self) -> dict[str, Any]:
        return {key: self.state.progress[key] for key in ("best_step", "best_metric")}


class MLflow(Callback):
    """One run per training, in `experiment` of the server, database or folder at `uri`.

    Settings become parameters, rows of the history metrics.
    """

    def __init__(
        self, experiment: str = "leporid", *, uri: str | None = None, run: str | None = None
    ) -> None:
        tracking = import_extra("mlflow.tracking", "MLflow", "mlflow")
        self._client = tracking.MlflowClient(tracking_uri=uri)
        self._entities = import_extra("mlflow.entities", "MLflow", "mlflow")
        self.experiment, self._name, self.run_id = experiment, run, ""

    def start(self, about: dict[str, Any]) -> None:
        known = self._client.get_experiment_by_name(self.experiment)
        number = known.experiment_id if known else self._client.create_experiment(self.experiment)
        run = self._client.create_run(number, run_name=self._name or about["model"])
        self.run_id = run.info.run_id
        params = [self._entities.Param(key, str(value)) for key, value in _settings(about).items()]
        for first in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(self.run_id, params=params[first : first + _MAX_PARAMS])

    def log(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if name != "step":
                self._client.log_metric(self.run_id, name, value, step=row["step"])

    def end(self, summary: dict[str, Any]) -> None:
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
        options = {"config": _settings(about), "reinit": "create_new", **self._options}
        self._run = self._wandb.init(**options)

    def log(self, row: dict[str, Any]) -> None:
        values = {name: value for name, value in row.items() if name != "step"}
        self._run.log(values, step=row["step"])

    def end(self, summary: dict[str, Any]) -> None:
        self._run.summary.update(summary)
        self._run.finish(exit_code=1 if summary["error"] else 0)


def _settings(about: dict[str, Any]) -> dict[str, Any]:
    facts = {key: value for key, value in about.items() if key not in ("config", "step")}
    return {**about["config"], **facts}
