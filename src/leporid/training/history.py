"""What happened during training: one row a log point."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leporid.artifacts import atomic_path
from leporid.errors import MissingExtraError

__all__ = ["TrainingHistory"]

_COLUMNS = ("step", "loss", "lr", "examples_per_second", "seconds", "metric")


@dataclass
class TrainingHistory:
    """Loss, learning rate, speed and validation metric over the steps."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """`step`, `loss` (mean since the row before), `lr`, `examples_per_second`, `seconds`, and
    `metric` where the step was validated."""
    best_step: int = 0
    """The step whose weights were kept."""
    best_metric: float | None = None
    """Validation metric of those weights; None where nothing was validated."""

    def to_csv(self, path: str | Path) -> None:
        """Write the rows as CSV, atomically."""
        with (
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, _COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(self.rows)

    def to_tensorboard(self, folder: str | Path) -> None:
        """Write the rows as TensorBoard events; needs the package `tensorboard`."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("TensorBoard history", "tensorboard") from None
        with SummaryWriter(str(folder)) as writer:
            for row in self.rows:
                for name in ("loss", "lr", "examples_per_second", "metric"):
                    if name in row:
                        writer.add_scalar(name, row[name], row["step"])
