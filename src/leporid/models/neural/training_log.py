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
from leporid.models.neural.outlook import Outlook
from leporid.models.neural.settings import TrainingConfig, learning_rate

_LOG_EVERY = 50
"""Steps between two rows of the history; each row waits for the device."""
_RECENT_ROWS = 21
"""Rows of the history whose steps tell how long the next ones take."""


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
        self._baseline = None if config.eval_users else context.baseline
        self.ended = ""
        """Why the training ended, for `TrainingHistory`; empty while it goes on."""
        self._bar.start(f"training {identity.model}", config.last_step)
        self._bar.advance(state.step)

    def __enter__(self) -> Self:
        training = asdict(self._identity) | {
            "steps": self._config.last_step,
            "step": self._state.step,
            **self._best(),
            "baseline": None if self._baseline is None else asdict(self._baseline),
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
            "ended": self.ended,
            "error": message,
        }
        for callback in self._callbacks:
            callback.end(summary)
        if error is None:
            history = self.history()
            self._bar.say(f"{self._identity.model} {history.describe()}")
            if history.interrupted_by is not None:
                self._bar.say(
                    "finishing with these weights; a second Ctrl-C stops at once"
                )

    def step(self, loss: Tensor, examples: int) -> bool:
        """Note a step without waiting for the device; return whether a callback ends the run."""
        self._losses.append(loss)
        self._examples += examples
        answers = [callback.step(self._state.step) for callback in self._callbacks]
        return any(answers)

    def is_due(self) -> bool:
        """Tell whether somebody wants a row of the history after this step."""
        every = {_LOG_EVERY, *(callback.every for callback in self._callbacks)}
        return any(self._state.step % steps == 0 for steps in every)

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
        """Move the progress bar, with what is known of the training and its end."""
        note = self.outlook(row).sentence()
        self._bar.advance(self._state.step - self._steps_shown, note=note)
        self._steps_shown = self._state.step

    def outlook(self, row: HistoryRow) -> Outlook:
        """Return where the training stands at a row of the history."""
        config = self._config
        best_metric = self._state.progress.best_metric
        before_first_validation = row["step"] < config.eval_every
        validates = before_first_validation or best_metric is not None
        return Outlook(
            step=row["step"],
            last_step=config.last_step,
            loss=row["loss"],
            seconds_per_step=self._seconds_per_step(),
            first_validation=min(config.eval_every, config.last_step),
            best_metric=best_metric,
            best_step=self._state.progress.best_step,
            soonest_end=self._soonest_end(row["step"]) if validates else None,
            baseline=self._baseline,
            added_later="closed-form part" if config.has_closed_form_part else "",
        )

    def _soonest_end(self, step: int) -> int | None:
        """Return the step at which patience ends the training if nothing improves."""
        config = self._config
        if not config.patience:
            return None
        # The first validation is always an improvement.
        before_first_validation = step < config.eval_every
        validations = config.patience - self._state.progress.no_improvement
        validations += step // config.eval_every + before_first_validation
        return min(validations * config.eval_every, config.last_step)

    def _seconds_per_step(self) -> float:
        """Return the seconds per step over the latest rows."""
        row = self._rows[-1]
        if len(self._rows) == 1:
            return row["seconds"] / row["step"]
        before = self._rows[-_RECENT_ROWS:][0]
        return (row["seconds"] - before["seconds"]) / (row["step"] - before["step"])

    def history(self) -> TrainingHistory:
        """Return the history of the whole training."""
        progress = self._state.progress
        validated = progress.best_metric is not None
        return TrainingHistory(
            rows=[dict(row) for row in self._rows],
            best_step=progress.best_step if validated else self._state.step,
            best_metric=progress.best_metric,
            steps=self._config.steps,
            metric=self._config.metric,
            last_step=self._state.step,
            ended=self.ended,
        )

    def _best(self) -> dict[str, JsonValue]:
        progress = self._state.progress
        return {
            "best_step": progress.best_step,
            "best_metric": progress.best_metric,
        }
