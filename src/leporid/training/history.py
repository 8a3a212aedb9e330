"""What happened during training, and who is told: rows, the progress bar and callbacks."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leporid.artifacts import atomic_path
from leporid.progress import ProgressLike
from leporid.training.checkpoint import TrainingState
from leporid.training.config import Group, TrainingConfig, learning_rate

_COLUMNS = ("step", "loss", "lr", "examples_per_second", "seconds", "metric")


@dataclass
class TrainingHistory:
    """Loss, learning rate, speed and validation metric over the steps."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """`step`, `loss` (mean since the last), `lr`, `examples_per_second`, `seconds`, `metric`."""
    best_step: int = 0
    """The step whose weights were kept."""
    best_metric: float | None = None
    """Validation metric of those weights; None where nothing was validated."""
    steps: int = 0
    """Steps the learning rate was spread over."""

    def to_csv(self, path: str | Path) -> None:
        with atomic_path(path) as draft, open(draft, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(self.rows)


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


class Log:
    """Rows of the history, and what the progress bar shows and callbacks are told."""

    def __init__(
        self,
        state: TrainingState,
        config: TrainingConfig,
        progress: ProgressLike,
        group: Group,
        callbacks: Sequence[Callback],
        identity: dict[str, Any],
    ) -> None:
        self._state, self._config, self._progress = state, config, progress
        self._group, self._identity = group, identity
        self._callbacks = callbacks if group.is_main else ()
        self._rows: list[dict[str, Any]] = state.progress["rows"]
        row = self._rows[-1]["seconds"] if self._rows else 0.0
        # What a checkpoint between two rows has kept of the row to come.
        kept = state.progress.get("pending", {"losses": [], "examples": 0, "seconds": row})
        self._before = kept["seconds"]
        self._begin = time.perf_counter()
        self._mark = self._begin - (self._before - row)
        self._losses = [*(torch.tensor(kept["losses"], device=group.device) * group.is_main)]
        self._examples, self._shown = kept["examples"], state.step
        progress.start(f"training {identity['model']}", config.last_step)
        progress.advance(state.step)

    def __enter__(self) -> Log:
        about = {**self._identity, "steps": self._config.last_step, "step": self._state.step}
        for callback in self._callbacks:
            callback.start(about)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        message = None if kind is None else str(error) or kind.__name__
        for callback in self._callbacks:
            callback.end({"steps": self._state.step, **self._best(), "error": message})

    def step(self, loss: Tensor, examples: int) -> bool:
        """One step is done, without waiting for the device; whether a callback ends the run."""
        self._losses.append(loss)
        self._examples += examples
        answers = [callback.step(self._state.step) for callback in self._callbacks]
        return any(answers)

    def validation(self, metric: float) -> bool:
        """Whether a callback ends the run."""
        row = {"step": self._state.step, "metric": metric, **self._best()}
        answers = [callback.validation(row) for callback in self._callbacks]
        return any(answers)

    def keep(self) -> None:
        """Note in the state what the next row has so far; all processes must ask."""
        self._state.progress["pending"] = {
            "losses": self._group.sum(torch.stack(self._losses)).tolist() if self._losses else [],
            "examples": self._examples,
            "seconds": self._before + time.perf_counter() - self._begin,
        }

    def write(self, metric: float | None) -> None:
        """A row of what happened since the last; all processes must ask."""
        now = time.perf_counter()
        row: dict[str, Any] = {
            "step": self._state.step,
            "loss": self._group.sum(torch.stack(self._losses).mean()).item(),
            "lr": learning_rate(self._config, self._state.step - 1),
            "examples_per_second": self._examples / max(now - self._mark, 1e-9),
            "seconds": self._before + now - self._begin,
        }
        shown = {"loss": row["loss"], "examples/s": round(row["examples_per_second"])}
        if (best := self._state.progress["best_metric"]) is not None:
            shown[f"best {self._config.metric}"] = best
        self._progress.advance(self._state.step - self._shown, **shown)
        self._losses, self._examples, self._mark = [], 0, now
        self._shown = self._state.step
        self._rows.append(row if metric is None else {**row, "metric": metric})
        for callback in self._callbacks:
            callback.log(dict(self._rows[-1]))

    def history(self) -> TrainingHistory:
        best = self._best()
        if best["best_metric"] is None:
            best["best_step"] = self._state.step
        best["best_step"] = self._group.from_main(best["best_step"])
        return TrainingHistory(self._rows, **best, steps=self._config.steps)

    def _best(self) -> dict[str, Any]:
        return {key: self._state.progress[key] for key in ("best_step", "best_metric")}
