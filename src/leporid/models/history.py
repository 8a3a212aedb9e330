"""`TrainingHistory`: what a training recorded over its steps."""

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leporid.foundation import atomic_path

_COLUMNS = ("step", "loss", "lr", "examples_per_second", "seconds", "metric")


@dataclass
class TrainingHistory:
    """Loss, learning rate, speed and validation metric over the steps."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """Rows with `step`, `loss` (mean since the row before), `lr`, `examples_per_second`,
    `seconds` and, after a validation, `metric`."""
    best_step: int = 0
    """The step whose weights were kept."""
    best_metric: float | None = None
    """Validation metric of those weights; None if nothing was validated."""
    steps: int = 0
    """Steps that the learning rate was spread over."""

    def to_csv(self, path: str | Path) -> None:
        """Write one line per row."""
        with (
            atomic_path(path) as draft,
            open(draft, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, _COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(self.rows)
