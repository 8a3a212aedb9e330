"""`Callback`: told about the steps and validations of a training, and able to end it."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leporid.errors import ConfigError
from leporid.foundation import JsonValue


class Callback:
    """Override what you need. All values are plain numbers and text."""

    every: int = 50
    """`log` is called at each multiple of this number of steps, and at validations."""

    def start(self, training: dict[str, JsonValue]) -> None:
        """Receive what is known before the first step.

        That is `model`, `config`, `seed`, `steps`, `step`, `best_step` and `best_metric` (of a
        resumed training), `baseline` (`name`, `metric` and `value` on validation of the best
        baseline, or None), and hashes of the `data` and of the initial weights (`start`).
        """

    def step(self, step: int) -> bool | None:
        """Hear of a step that is done, before its validation; return True to end there."""

    def log(self, row: dict[str, Any]) -> None:
        """Receive a row of `TrainingHistory`, every 50 steps and at validations."""

    def validation(self, row: dict[str, JsonValue]) -> bool | None:
        """Receive `step`, `metric`, `best_step` and `best_metric`; return True to end there."""

    def end(self, summary: dict[str, JsonValue]) -> None:
        """Receive `steps`, `best_step`, `best_metric`, `ended` and `error`, however it ends.

        `ended` is that of `TrainingHistory`; it is empty where an `error` broke the training off.
        """


class StopWhen(Callback):
    """End the training after the first step for which `rule(step)` is True."""

    def __init__(self, rule: Callable[[int], bool]) -> None:
        self.rule = rule

    def step(self, step: int) -> bool:
        return self.rule(step)


class JsonLines(Callback):
    """Write a line of JSON for machines: at the start, every so many steps, and at the end.

    Lines go to stderr or to a file, which a resumed training continues. Each has an `event`
    ("start", "log" or "end"); those of "log" have the row of the history, `best_metric`,
    `best_step`, and as `baseline` the value that the best baseline has on validation.
    """

    def __init__(self, file: str | Path | None = None, every: int = 50) -> None:
        if every < 1:
            raise ConfigError(f"lines are written every 1 or more steps, not {every}")
        self.file = None if file is None else Path(file)
        self.every = every
        self._best: dict[str, JsonValue] = {}
        self._baseline: JsonValue = None
        self._has_begun = False

    def start(self, training: dict[str, JsonValue]) -> None:
        if self.file is not None and not self._has_begun and not training["step"]:
            self.file.unlink(missing_ok=True)
        self._has_begun = True
        baseline = training["baseline"]
        self._baseline = baseline["value"] if isinstance(baseline, dict) else None
        self._note_best(training)
        self._write("start", training)

    def log(self, row: Mapping[str, JsonValue]) -> None:
        step = row["step"]
        assert isinstance(step, int)
        if step % self.every == 0 or "metric" in row:
            self._write("log", {**row, **self._best, "baseline": self._baseline})

    def validation(self, row: dict[str, JsonValue]) -> None:
        self._note_best(row)

    def end(self, summary: dict[str, JsonValue]) -> None:
        self._write("end", summary)

    def _note_best(self, values: Mapping[str, JsonValue]) -> None:
        self._best = {name: values[name] for name in ("best_metric", "best_step")}

    def _write(self, event: str, values: Mapping[str, JsonValue]) -> None:
        numbers = {name: _json_number(value) for name, value in values.items()}
        line = json.dumps({"event": event, **numbers}, ensure_ascii=False)
        if self.file is None:
            print(line, file=sys.stderr, flush=True)
            return
        with self.file.open("a", encoding="utf-8") as file:
            print(line, file=file)


def _json_number(value: JsonValue) -> JsonValue:
    """Return None in place of a number that JSON does not have, such as a loss of NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
