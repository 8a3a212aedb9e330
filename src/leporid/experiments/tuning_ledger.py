"""The budget of a study that may be killed, resumed, and shared by several processes.

Optuna numbers trials but does not say which ones died with their process. `Ledger` keeps that
account in the study itself: an abandoned trial does not count, and its settings are tried again.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import FileLock

from leporid.errors import ConfigError, DataError, import_extra
from leporid.experiments.tuning_workers import BeatingWorkers, LockedWorkers, Workers

_ABANDONED = "abandoned-"
_POLL_SECONDS = 1.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Ledger:
    """Which trials of a study count towards its budget."""

    def __init__(
        self, study: Any, workers: Workers, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._study, self._workers, self._sleep = study, workers, sleep

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
        """A new trial and its place in the budget (from 0), or None where nothing is left.

        Waits where the rest of the budget is with workers that may be dead.
        """
        while True:
            with self._workers.turn():
                undecided = self._clear_dead()
                if len(self.counted()) < budget:
                    return self._ask(budget)
            if not undecided:
                return None
            self._sleep(_POLL_SECONDS)

    def _ask(self, budget: int) -> tuple[Any, int] | None:
        trial = self._study.ask()
        trial.set_user_attr("worker", self._workers.token)
        place = sum(other.number < trial.number for other in self.counted())
        if place >= budget:  # another process took the last place meanwhile
            self.abandon(trial.number, retry=False)
            return None
        return trial, place

    def abandon(self, number: int, retry: bool = True) -> None:
        """Give up a trial that was begun; unless `retry` is off, its settings come up again.

        A kill between any two of these steps leaves the trial running, so that the next worker
        does them all again.
        """
        trials = self._study.trials
        fixed = trials[number].params or trials[number].system_attrs.get("fixed_params")
        if retry and fixed and not any(t.user_attrs.get("retry") == number for t in trials):
            self._study.enqueue_trial(fixed, user_attrs={"retry": number})
        self._study.set_user_attr(f"{_ABANDONED}{number}", True)
        with contextlib.suppress(ValueError):  # another process has cleared it away already
            self._study.tell(number, state=import_optuna().trial.TrialState.FAIL)

    def _clear_dead(self) -> bool:
        """Abandon the trials of dead workers; whether some may be dead or not."""
        undecided = False
        for trial in self._study.trials:
            if trial.state.name == "RUNNING":
                # Killed between asking for the trial and putting a name to it: no such worker.
                worker = trial.user_attrs.get("worker", f"unnamed-{trial.number}")
                alive = self._workers.is_alive(worker)
                undecided |= alive is None
                if alive is False:
                    self.abandon(trial.number)
        return undecided


def open_study(
    storage: str | Path | None,
    name: str,
    question: Mapping[str, str],
    first: Mapping[str, Any],
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Any, Workers]:
    """The study of that name, new or resumed; it must have asked the same question before.

    A new one tries the settings `first` first.
    """
    if storage is None or "://" in str(storage):
        study = _create(storage, name)
        workers = Workers() if storage is None else BeatingWorkers(study, clock)
        _ask_question(study, question, first)
        return study, workers
    path = Path(storage)
    try:
        workers = LockedWorkers(path.with_name(f"{path.name}.workers"))
        # Two that start at once would both make the tables, and the first trial.
        with workers.turn():
            study = _create(_file(path), name)
            _ask_question(study, question, first)
    except OSError as error:
        raise DataError(f"could not write {path}: {error.strerror or error}") from error
    return study, workers


def _refusals() -> tuple[type[Exception], ...]:
    """What a file, the database or Optuna raises where nothing can be written."""
    database = import_module("sqlalchemy.exc").SQLAlchemyError
    return OSError, database, import_optuna().exceptions.StorageInternalError


@contextlib.contextmanager
def storage_errors(storage: str | Path | None) -> Iterator[None]:
    """What a storage refuses (a full disk, say), as a sentence."""
    try:
        yield
    except _refusals() as error:
        if isinstance(error, OSError) and error.errno not in _FULL:
            raise
        reason: BaseException = error
        while reason.__cause__ is not None:
            reason = reason.__cause__
        raise DataError(
            f"could not write the study {storage}: {getattr(reason, 'strerror', None) or reason}; "
            f"make room there and run the same command: finished trials are kept"
        ) from error


def _create(storage: Any, name: str) -> Any:
    return import_optuna().create_study(
        storage=storage, study_name=name, direction="maximize", load_if_exists=True
    )


def _ask_question(study: Any, question: Mapping[str, str], first: Mapping[str, Any]) -> None:
    for key, value in question.items():
        before = study.user_attrs.get(key)
        if before is None:
            study.set_user_attr(key, value)
        elif before != value:
            raise ConfigError(
                f"the study {study.study_name!r} was made for {key} {before!r}, not {value!r}: "
                f"choose another study name or another storage file"
            )
    if not study.trials:
        study.enqueue_trial(dict(first))


def import_optuna() -> Any:
    """Optuna, or the sentence that says how to get it."""
    return import_extra("optuna", "tuning", "tune")


def _file(path: Path) -> Any:
    storages = import_optuna().storages
    if path.suffix in {".db", ".sqlite", ".sqlite3"}:
        patient = {"connect_args": {"timeout": 60}}
        return storages.RDBStorage(f"sqlite:///{path}", engine_kwargs=patient)
    # It dies with its holder; Optuna's own lock makes the others wait 30 s.
    lock = FileLock(path.with_name(f"{path.name}.workers") / "journal.lock")
    return storages.JournalStorage(storages.journal.JournalFileBackend(str(path), lock))
