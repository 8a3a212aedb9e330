"""Studies that are killed at every step, and started at the same moment: no trial is lost."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from leporid.experiments import tune, workers
from leporid.experiments.tuning_ledger import Ledger, open_study
from leporid.experiments.tuning_workers import BeatingWorkers, LockedWorkers
from tests.test_contract import make_split

TRIALS = 6
SPAWN = multiprocessing.get_context("spawn")


def _tune(path: Path) -> None:
    tune("ease", make_split(), trials=TRIALS, seed=2, storage=path)


def _die_at_step(path: Path, step: int) -> None:
    """Tune, and die before the storage is written for the `step`-th time."""
    from optuna.storages import JournalStorage
    from optuna.storages._rdb.storage import RDBStorage

    count = 0
    for kind in (JournalStorage, RDBStorage):
        for name in ("create_new_trial", "set_trial_state_values", "set_trial_user_attr"):
            write = getattr(kind, name)

            def counted(*given: Any, write: Any = write, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count > step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return write(*given, **options)

            setattr(kind, name, counted)
    _tune(path)


def _run(target: Any, *arguments: Any) -> int | None:
    child = SPAWN.Process(target=target, args=arguments)
    child.start()
    child.join()
    return child.exitcode


def check_complete(path: Path) -> None:
    """The whole budget is done, each settings once, as in a study that nobody killed."""
    result = tune("ease", make_split(), trials=TRIALS, seed=2, storage=path)
    whole = tune("ease", make_split(), trials=TRIALS, seed=2)
    assert [t["settings"] for t in result.trials] == [t["settings"] for t in whole.trials]
    assert not list(path.with_name(f"{path.name}.workers").glob("worker-*"))


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("study.journal", 2),  # asked, not yet named
        pytest.param("study.db", 2, marks=pytest.mark.slow),
        pytest.param("study.journal", 4, marks=pytest.mark.slow),
        pytest.param("study.db", 9, marks=pytest.mark.slow),
    ],
)
def test_a_study_killed_between_two_steps_loses_no_trial(
    name: str, step: int, tmp_path: Path
) -> None:
    assert _run(_die_at_step, tmp_path / name, step) == -signal.SIGKILL
    check_complete(tmp_path / name)


@pytest.mark.slow
def test_twenty_killed_studies_lose_no_trial(tmp_path: Path) -> None:
    draw = random.Random(0)
    for number in range(20):
        path = tmp_path / f"{number}.{('journal', 'db')[number % 2]}"
        for _ in range(2):
            _run(_die_at_step, path, draw.randrange(1, 25))
        check_complete(path)


@pytest.mark.slow
def test_processes_that_start_together_on_a_new_sqlite_file_share_it(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    children = [SPAWN.Process(target=_tune, args=(path,)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len(tune("ease", make_split(), trials=TRIALS, seed=2, storage=path).trials) == TRIALS


def test_threads_that_start_together_on_a_new_sqlite_file_share_it(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    together = threading.Barrier(3)

    def start() -> None:
        try:
            together.wait()
            open_study(tmp_path / "study.db", "s", {"model": "ease"}, {"l2": 1.0})[1].close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    study, here = open_study(tmp_path / "study.db", "s", {"model": "ease"}, {"l2": 1.0})
    assert len(study.trials) == 1
    here.close()


def test_a_busy_worker_with_the_same_host_and_process_id_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    study, first = open_study(path, "s", {}, {"l2": 1.0})
    assert Ledger(study, first).begin(2) is not None
    again, second = open_study(path, "s", {}, {})
    assert Ledger(again, second).begin(2) is not None
    assert Ledger(again, second).begin(2) is None, "both places are being worked on"
    first.close()  # as the operating system does for a process that dies
    retried = Ledger(again, second).begin(2)
    assert retried is not None
    assert again.trials[retried[0].number].system_attrs["fixed_params"] == {"l2": 1.0}
    second.close()


def test_a_worker_on_a_database_server_is_alive_as_long_as_it_counts(tmp_path: Path) -> None:
    now = 0.0

    def clock() -> float:
        return now

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if not busy._end.is_set():
            busy._beat(int(now))

    url = f"sqlite:///{tmp_path / 'server.db'}"
    study, busy = open_study(url, "s", {}, {"l2": 1.0}, clock)
    assert isinstance(busy, BeatingWorkers)
    assert Ledger(study, busy, sleep).begin(2) is not None
    study.ask()  # by somebody who dies before it has a name
    again, second = open_study(url, "s", {}, {}, clock)
    begun = Ledger(again, second, sleep).begin(2)
    assert begun is not None, "the nameless trial is given up after the lease"
    assert begun[1] == 1
    assert now >= workers._LEASE_SECONDS
    busy.close()
    assert Ledger(again, second, sleep).begin(2) is None, "the other worker has just counted"
    now += workers._LEASE_SECONDS
    retried = Ledger(again, second, sleep).begin(2)
    assert retried is not None
    assert again.trials[retried[0].number].system_attrs["fixed_params"] == {"l2": 1.0}
    second.close()


def test_locks_of_the_dead_are_removed(tmp_path: Path) -> None:
    one, other = LockedWorkers(tmp_path), LockedWorkers(tmp_path)
    assert other.is_alive(one.token)
    one._own.release()
    assert other.is_alive(one.token) is False
    assert not one._path(one.token).exists()
    LockedWorkers(tmp_path)._own.release()  # one that died before anybody knew it
    other.close()
    assert not list(tmp_path.glob("worker-*"))
