"""`TrainingLog`: rows of the history, and what the progress bar and callbacks are told."""

import time
from dataclasses import asdict
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from leporid.foundation import JsonValue
from leporid.models.context import FitContext
from leporid.models.history import TrainingHistory
from leporid.models.neural.checkpoints import (
    HistoryRow,
    PendingRow,
    TrainingIdentity,
    TrainingState,
)
from leporid.models.neural.settings import TrainingConfig, learning_rate


class TrainingLog:
    """Collects what happens in the steps, and reports it at log points."""

    def __init__(
        self,
        state: TrainingState,
        config: TrainingConfig,
        context: FitContext,
        device: torch.device,
        identity: TrainingIdentity,
    ) -> None:
        self._state = state
        self._config = config
        self._identity = identity
        self._bar = context.progress
        self._callbacks = context.callbacks
        self._rows = state.progress.rows
        row_seconds = self._rows[-1]["seconds"] if self._rows else 0.0
        pending = state.progress.pending
        if pending is None:
            pending = PendingRow(losses=[], examples=0, seconds=row_seconds)
        self._losses = [*torch.tensor(pending["losses"], device=device)]
        self._examples = pending["examples"]
        self._seconds_before = pending["seconds"]
        self._begin = time.perf_counter()
        self._row_begin = self._begin - (self._seconds_before - row_seconds)
        self._steps_shown = state.step
        self._bar.start(f"training {identity.model}", config.last_step)
        self._bar.advance(state.step)

    def __enter__(self) -> Self:
        training = asdict(self._identity) | {
            "steps": self._config.last_step,
            "step": self._state.step,
        }
        for callback in self._callbacks:
            callback.start(training)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        message = None if kind is None else str(error) or kind.__name__
        summary = {
            "steps": self._state.step,
            **self._best(),
            "error": message,
        }
        for callback in self._callbacks:
            callback.end(summary)

    def step(self, loss: Tensor, examples: int) -> bool:
        """Note a step without waiting for the device; return whether a callback ends the run."""
        self._losses.append(loss)
        self._examples += examples
        answers = [callback.step(self._state.step) for callback in self._callbacks]
        return any(answers)

    def validation(self, metric: float) -> bool:
        """Report a validation; return whether a callback ends the run."""
        row = {
            "step": self._state.step,
            "metric": metric,
            **self._best(),
        }
        answers = [callback.validation(row) for callback in self._callbacks]
        return any(answers)

    def keep(self) -> None:
        """Note in the state what the next row has so far."""
        self._state.progress.pending = PendingRow(
            losses=torch.stack(self._losses).tolist() if self._losses else [],
            examples=self._examples,
            seconds=self._seconds_before + time.perf_counter() - self._begin,
        )

    def write(self, metric: float | None) -> None:
        """Add a row with what happened since the last one."""
        now = time.perf_counter()
        row = HistoryRow(
            step=self._state.step,
            loss=torch.stack(self._losses).mean().item(),
            lr=learning_rate(self._config, self._state.step - 1),
            examples_per_second=self._examples / max(now - self._row_begin, 1e-9),
            seconds=self._seconds_before + now - self._begin,
        )
        if metric is not None:
            row["metric"] = metric
        self._rows.append(row)
        self._show(row)
        self._losses = []
        self._examples = 0
        self._row_begin = now
        for callback in self._callbacks:
            callback.log(dict(row))

    def _show(self, row: HistoryRow) -> None:
        """Move the progress bar, with the loss and where early stopping may end the run."""
        config = self._config
        progress = self._state.progress
        shown = {
            "loss": row["loss"],
            "examples/s": round(row["examples_per_second"]),
        }
        if progress.best_metric is not None:
            shown[f"best {config.metric}"] = progress.best_metric
        before_first_validation = row["step"] < config.eval_every
        validates = before_first_validation or progress.best_metric is not None
        if config.patience and validates:
            # The first validation is always an improvement.
            validations = config.patience - progress.no_improvement
            validations += row["step"] // config.eval_every + before_first_validation
            soonest_end = validations * config.eval_every
            shown["can_end_at"] = min(soonest_end, config.last_step)
        self._bar.advance(self._state.step - self._steps_shown, **shown)
        self._steps_shown = self._state.step

    def history(self) -> TrainingHistory:
        """Return the history of the whole training."""
        progress = self._state.progress
        validated = progress.best_metric is not None
        return TrainingHistory(
            rows=[dict(row) for row in self._rows],
            best_step=progress.best_step if validated else self._state.step,
            best_metric=progress.best_metric,
            steps=self._config.steps,
        )

    def _best(self) -> dict[str, JsonValue]:
        progress = self._state.progress
        return {
            "best_step": progress.best_step,
            "best_metric": progress.best_metric,
        }
