"""`Callback`: told about the steps and validations of a training, and able to end it."""

from collections.abc import Callable
from typing import Any

from leporid.foundation import JsonValue


class Callback:
    """Override what you need. All values are plain numbers and text."""

    def start(self, training: dict[str, JsonValue]) -> None:
        """Receive `model`, `config`, `seed`, `steps`, `step` and hashes before the first step.

        The hashes are those of the data and (`start`) of the initial weights.
        """

    def step(self, step: int) -> bool | None:
        """Hear of a step that is done, before its validation; return True to end there."""

    def log(self, row: dict[str, Any]) -> None:
        """Receive a row of `TrainingHistory`, every 50 steps and at validations."""

    def validation(self, row: dict[str, JsonValue]) -> bool | None:
        """Receive `step`, `metric`, `best_step` and `best_metric`; return True to end there."""

    def end(self, summary: dict[str, JsonValue]) -> None:
        """Receive `steps`, `best_step`, `best_metric` and `error` (or None), however it ends."""


class StopWhen(Callback):
    """End the training after the first step for which `rule(step)` is True."""

    def __init__(self, rule: Callable[[int], bool]) -> None:
        self.rule = rule

    def step(self, step: int) -> bool:
        return self.rule(step)
