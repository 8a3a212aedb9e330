"""The budget of a study that may be killed, resumed, and shared by several processes.

Optuna numbers trials but does not say which ones died with their process. `Ledger` keeps that
account in the study itself: an abandoned trial does not count, and its settings are tried again.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from leporid.errors import ConfigError, DataError, MissingExtraError

_ABANDONED = "abandoned-"


class Ledger:
    """Which trials of a study count towards its budget."""

    def __init__(self, study: Any) -> None:
        self._study = study

    def counted(self) -> list[Any]:
        """Trials finished or being worked on, by anyone, in the order they were begun."""
        lost = self._study.user_attrs
        return [
            trial
            for trial in self._study.trials
            if trial.state.name != "WAITING" and f"{_ABANDONED}{trial.number}" not in lost
        ]

    def finished(self) -> list[Any]:
        """The counted trials that are over, failed ones too."""
        return [trial for trial in self.counted() if trial.state.is_finished()]

    def best(self) -> Any:
        """The best trial (the earliest of equals), or None."""
        done = [trial for trial in self.finished() if trial.value is not None]
        return max(done, key=lambda trial: (trial.value, -trial.number), default=None)

    def begin(self, budget: int) -> tuple[Any, int] | None:
        """A new trial and its place in the budget (from 0), or None where nothing is left."""
        if len(self.counted()) >= budget:
            return None
        trial = self._study.ask()
        trial.set_user_attr("process", _process())
        place = sum(other.number < trial.number for other in self.counted())
        if place >= budget:  # another process took the last place meanwhile
            self.abandon(trial.number, retry=False)
            return None
        return trial, place

    def abandon(self, number: int, retry: bool = True) -> None:
        """Give up a trial that was begun; unless `retry` is off, its settings come up again."""
        import optuna

        self._study.set_user_attr(f"{_ABANDONED}{number}", True)
        try:
            self._study.tell(number, state=optuna.trial.TrialState.FAIL)
        except ValueError:  # another process has cleared it away already
            return
        trial = self._study.trials[number]
        fixed = trial.params or trial.system_attrs.get("fixed_params")
        if retry and fixed:
            self._study.enqueue_trial(fixed)

    def clear_dead(self) -> None:
        """Abandon the trials of processes of this host that no longer exist."""
        host, _, _ = _process().partition(":")
        for trial in self.counted():
            where, _, pid = str(trial.user_attrs.get("process", "")).partition(":")
            if not trial.state.is_finished() and where == host and not psutil.pid_exists(int(pid)):
                self.abandon(trial.number)


def open_study(storage: str | Path | None, name: str, question: Mapping[str, str]) -> Any:
    """The study of that name, new or resumed; it must have asked the same question before."""
    kept = _storage(storage)
    study = import_optuna().create_study(
        storage=kept, study_name=name, direction="maximize", load_if_exists=True
    )
    for key, value in question.items():
        before = study.user_attrs.get(key)
        if before is None:
            study.set_user_attr(key, value)
        elif before != value:
            raise ConfigError(
                f"the study {name!r} was made for {key} {before!r}, not {value!r}: "
                f"choose another study name or another storage file"
            )
    return study


def import_optuna() -> Any:
    """Optuna, or the sentence that says how to get it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("tuning", "tune") from None
    return optuna


def _storage(storage: str | Path | None) -> Any:
    if storage is None or "://" in str(storage):
        return storage
    path, storages = Path(storage), import_optuna().storages
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in {".db", ".sqlite", ".sqlite3"}:
            return f"sqlite:///{path}"
        return storages.JournalStorage(storages.journal.JournalFileBackend(str(path)))
    except OSError as error:
        raise DataError(f"could not write {path}: {error.strerror or error}") from error


def _process() -> str:
    return f"{platform.node().replace(':', '_')}:{os.getpid()}"
