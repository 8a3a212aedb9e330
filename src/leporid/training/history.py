"""What happened during training: one row per log point, and the log that writes them."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leporid.artifacts import atomic_path
from leporid.errors import MissingPackageError
from leporid.progress import ProgressLike
from leporid.training.checkpoint import TrainingState
from leporid.training.config import TrainingConfig, learning_rate
from leporid.training.device import Group

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

    def to_tensorboard(self, folder: str | Path) -> None:
        """Write the rows as TensorBoard events; needs the package `tensorboard`."""
        with tensorboard_writer()(str(folder)) as writer:
            for row in self.rows:
                for name in row.keys() - {"step", "seconds"}:
                    writer.add_scalar(name, row[name], row["step"])


def tensorboard_writer() -> Any:
    """The class that writes events; an error that says what to install where it is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingPackageError("TensorBoard events", "tensorboard") from None
    return SummaryWriter


class Log:
    """Loss since the last row, speed, and what the progress bar shows."""

    def __init__(
        self,
        state: TrainingState,
        config: TrainingConfig,
        progress: ProgressLike,
        title: str,
        group: Group,
    ) -> None:
        self._state, self._config, self._progress = state, config, progress
        self._rows: list[dict[str, Any]] = state.progress["rows"]
        row = self._rows[-1]["seconds"] if self._rows else 0.0
        # What a checkpoint between two rows has kept of the row to come.
        kept = state.progress.get("pending", {"losses": [], "examples": 0, "seconds": row})
        self._before = kept["seconds"]
        self._begin = time.perf_counter()
        self._mark = self._begin - (self._before - row)
        self._losses = [*(torch.tensor(kept["losses"], device=group.device) * group.is_main)]
        self._examples, self._shown = kept["examples"], state.step
        progress.start(title, config.last_step)
        progress.advance(state.step)

    def add(self, loss: Tensor, examples: int) -> None:
        """One step is done; nothing waits for the device here."""
        self._losses.append(loss)
        self._examples += examples

    def keep(self, group: Group) -> None:
        """Note in the state what the next row has so far; all processes must ask."""
        self._state.progress["pending"] = {
            "losses": group.sum(torch.stack(self._losses)).tolist() if self._losses else [],
            "examples": self._examples,
            "seconds": self._before + time.perf_counter() - self._begin,
        }

    def write(self, group: Group, metric: float | None) -> dict[str, Any]:
        now = time.perf_counter()
        row: dict[str, Any] = {
            "step": self._state.step,
            "loss": group.sum(torch.stack(self._losses).mean()).item(),
            "lr": learning_rate(self._config, self._state.step - 1),
            "examples_per_second": self._examples / max(now - self._mark, 1e-9),
            "seconds": self._before + now - self._begin,
        }
        self._rows.append(row if metric is None else {**row, "metric": metric})
        shown = {"loss": row["loss"], "examples/s": round(row["examples_per_second"])}
        if (best := self._state.progress["best_metric"]) is not None:
            shown[f"best {self._config.metric}"] = best
        self._progress.advance(self._state.step - self._shown, **shown)
        self._losses, self._examples, self._mark = [], 0, now
        self._shown = self._state.step
        return self._rows[-1]

    def history(self) -> TrainingHistory:
        done = self._state.progress
        step = done["best_step"] if done["best_metric"] is not None else self._state.step
        return TrainingHistory(self._rows, step, done["best_metric"], self._config.steps)
