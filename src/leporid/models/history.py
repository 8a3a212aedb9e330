"""`TrainingHistory`: what a training recorded over its steps."""

import csv
import signal
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
    metric: str = ""
    """What validation maximised."""
    last_step: int = 0
    """The last step that was done."""
    ended: str = ""
    """Why it ended there: "steps" (all are done), "patience" (too many validations without a better
    one), "callback", or the signal by which somebody stopped it: "SIGINT" (Ctrl-C), "SIGTERM"."""

    @property
    def interrupted_by(self) -> signal.Signals | None:
        """The signal by which somebody stopped the training; None if nobody did."""
        return signal.Signals[self.ended] if self.ended.startswith("SIG") else None

    def describe(self) -> str:
        """Return why the training ended, and its best validation: "stopped early at step ..."."""
        words = {
            "steps": "did all steps",
            "patience": "stopped early",
            "callback": "stopped by a callback",
        }.get(self.ended, f"interrupted by {self.ended}")
        done = f"{words}, at step {self.last_step:,} of {self.steps:,}"
        if self.best_metric is None:
            return f"{done}; nothing was validated"
        return f"{done}; best {self.metric} {self.best_metric:.4f} at step {self.best_step:,}"

    def to_csv(self, path: str | Path) -> None:
        """Write one line per row."""
        with (
            atomic_path(path) as draft,
            open(draft, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, _COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(self.rows)
