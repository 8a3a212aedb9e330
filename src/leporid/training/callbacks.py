"""`Callback`: what others are told while a model trains, and how they can end it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leporid.training.checkpoint import TrainingState


class Callback:
    """Override what you need. Only the main process of several calls it; values are plain."""

    def start(self, about: dict[str, Any]) -> None:
        """Before the first step: `model`, `config`, `seed`, `steps`, `step` (0, or where a
        checkpoint goes on), and hashes of `data` and of the `start` of all weights."""

    def step(self, step: int) -> bool | None:
        """After every step, before its validation; True makes it the last one."""

    def log(self, row: dict[str, Any]) -> None:
        """Every 50 steps and at validations: a row of `TrainingHistory`."""

    def validation(self, row: dict[str, Any]) -> bool | None:
        """`step`, `metric`, `best_step` and `best_metric`; True ends the training here."""

    def end(self, summary: dict[str, Any]) -> None:
        """However it ends: `steps`, `best_step`, `best_metric`, and `error`, None if there was
        none."""


class StopWhen(Callback):
    """End the training after the first step of which `rule` says True."""

    def __init__(self, rule: Callable[[int], bool]) -> None:
        self.rule = rule

    def step(self, step: int) -> bool:
        """What the rule says."""
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
        words = None if kind is None else str(error) or kind.__name__
        for callback in self.each:
            callback.end({"steps": self.state.step, **self._best(), "error": words})

    def step(self) -> bool:
        """Whether one of them wants this step to be the last; all are asked."""
        return any(list(map(methodcaller("step", self.state.step), self.each)))

    def validation(self, metric: float) -> bool:
        """Whether one of them wants to end here; all are asked."""
        row = {"step": self.state.step, "metric": metric, **self._best()}
        return any(list(map(methodcaller("validation", row), self.each)))

    def log(self, row: dict[str, Any]) -> None:
        """A row of the history was written."""
        for callback in self.each:
            callback.log(dict(row))

    def _best(self) -> dict[str, Any]:
        return {key: self.state.progress[key] for key in ("best_step", "best_metric")}
