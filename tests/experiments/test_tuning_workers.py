"""Studies that are killed at every step, and begun at the same moment: no trial is lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from leporid.foundation import canonical_hash
from leporid.runs import Journal, try_lock, tune
from tests.test_contract import make_split

TRIALS = 6
SPAWN = multiprocessing.get_context("spawn")


def _tune(path: Path) -> None:
    tune("ease", make_split(), trials=TRIALS, seed=2, storage=path)


def _die_at_step(path: Path, step: int, torn: bool) -> None:
    """Tune, and die at the `step`-th line, before it or in the middle of it."""
    write, count = Journal._write, 0

    def counted(self: Journal, path: Path, line: str) -> None:
        nonlocal count
        count += 1
        if count > step:
            if torn:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, path, line)

    Journal._write = counted  # type: ignore[method-assign]
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


@pytest.mark.parametrize(
    ("step", "torn"),
    [
        (3, True),
        *[
            pytest.param(step, torn, marks=pytest.mark.slow)
            for step in range(TRIALS)
            for torn in (False, True)
        ],
    ],
)
def test_a_study_killed_between_two_lines_loses_no_trial(
    step: int, torn: bool, tmp_path: Path
) -> None:
    path = tmp_path / "study.jsonl"
    assert _run(_die_at_step, path, step, torn) == -signal.SIGKILL
    check_complete(path)


@pytest.mark.slow
def test_processes_that_begin_together_on_a_new_file_share_it(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    children = [SPAWN.Process(target=_tune, args=(path,)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert sum('"event": "trial"' in line for line in lines) == TRIALS
    assert len(tune("ease", make_split(), trials=TRIALS, seed=2, storage=path).trials) == TRIALS


def test_a_trial_that_another_process_runs_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    first = tune("ease", make_split(), trials=1, seed=2, storage=path)
    locked = path.with_name("study.jsonl.locks") / f"{canonical_hash(first.study)}-1"
    with try_lock(locked) as mine:
        assert mine
        result = tune("ease", make_split(), trials=3, seed=2, storage=path)
    assert [trial["number"] for trial in result.trials] == [0, 2]
    result = tune("ease", make_split(), trials=3, seed=2, storage=path)
    assert [trial["number"] for trial in result.trials] == [0, 1, 2]
