"""The folder of results: files of their own or packed, whoever reads sees the same."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from leporid.errors import DataError
from leporid.evaluation import MetricTable
from leporid.foundation import canonical_hash
from leporid.runs import RunRecord
from reproduction.store import PackedResults
from tests.experiments.records import record

EXPERIMENT = ("ml-1m-r3", ["initialisers"])
FIRST = "ml-1m-r3/initialisers.users.parquet"
SECOND, THIRD = FIRST.replace(".", "+2.", 1), FIRST.replace(".", "+3.", 1)


def outcomes(seed: int, users: int = 9) -> MetricTable:
    rng = np.random.default_rng(seed)
    columns = (np.arange(users), rng.integers(0, 1024, users), rng.integers(1, 9, users))
    return MetricTable.from_hits(*(column.astype(np.int32) for column in columns))


def fill(root: Path, seeds: range = range(3)) -> list[RunRecord]:
    """Runs of several seeds; the first keeps no outcomes, the others differ in their users."""
    runs = [record("dlr2", "leporid", seed, 0.1 + 0.2 * seed) for seed in seeds]
    for run in runs:
        PackedResults(root).add(run, outcomes(run.seed, 9 + run.seed) if run.seed else None)
    return runs


def state(root: Path) -> list[tuple[RunRecord, dict[str, list[int]] | None]]:
    results = PackedResults(root)
    return [
        (run, found and {name: own.tolist() for name, own in found.hit_columns().items()})
        for run in results.records(*EXPERIMENT)
        for found in [results.outcomes(run.key)]
    ]


def files(root: Path) -> dict[str, bytes]:
    """The content of every file by its path, without locks."""
    paths = [path for path in root.rglob("*") if path.is_file() and path.name != ".pack.lock"]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def test_packing_leaves_two_files_and_changes_no_answer(tmp_path: Path) -> None:
    runs = fill(tmp_path)
    before = state(tmp_path)
    assert [run for run, _ in before] == runs
    assert [users is None for _, users in before] == [True, False, False]
    assert PackedResults(tmp_path).pack() == 3
    assert state(tmp_path) == before
    assert files(tmp_path).keys() == {"ml-1m-r3.jsonl", FIRST}
    lines = (tmp_path / "ml-1m-r3.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [run.to_dict() for run in runs]
    assert PackedResults(tmp_path).get(runs[1].key) == runs[1]
    assert PackedResults(tmp_path).get(runs[1].key + "0") is None


def test_later_runs_join_and_a_repeated_one_replaces(tmp_path: Path) -> None:
    first, second, third = fill(tmp_path)
    PackedResults(tmp_path).pack()
    packed = (tmp_path / "ml-1m-r3.jsonl").read_bytes()
    (fourth,) = fill(tmp_path, range(3, 4))
    again = RunRecord.from_dict({**second.to_dict(), "seconds": 77.0})
    PackedResults(tmp_path).add(again, outcomes(50))
    expected = [first, again, third, fourth]
    assert [run for run, _ in state(tmp_path)] == expected
    before = state(tmp_path)
    assert PackedResults(tmp_path).pack() == 2
    assert state(tmp_path) == before
    assert PackedResults(tmp_path).pack() == 0
    assert (tmp_path / "ml-1m-r3.jsonl").read_bytes() != packed


def test_a_file_of_outcomes_never_changes_and_goes_once_superseded(tmp_path: Path) -> None:
    results = PackedResults(tmp_path)
    first, second, third = fill(tmp_path)
    results.pack()
    written = files(tmp_path)
    assert results.pack() == 0
    assert files(tmp_path) == written

    results.add(second, outcomes(50))
    before = state(tmp_path)
    results.pack()
    assert state(tmp_path) == before
    assert files(tmp_path).keys() == {"ml-1m-r3.jsonl", FIRST, SECOND}
    assert files(tmp_path)[FIRST] == written[FIRST]

    results.add(third, outcomes(51))
    results.add(second, outcomes(52))
    before = state(tmp_path)
    results.pack()
    assert state(tmp_path) == before
    assert files(tmp_path).keys() == {"ml-1m-r3.jsonl", THIRD}, "no run reads the others"
    assert first in [run for run, _ in before]


def test_the_same_outcomes_are_not_written_again(tmp_path: Path) -> None:
    fill(tmp_path)
    PackedResults(tmp_path).pack()
    written = files(tmp_path)
    fill(tmp_path)
    assert PackedResults(tmp_path).pack() == 3
    assert files(tmp_path) == written


def test_a_run_repeated_without_outcomes_has_none(tmp_path: Path) -> None:
    _, second, _ = fill(tmp_path)
    results = PackedResults(tmp_path)
    results.pack()
    results.add(second)
    results.path(second.key, ".users.parquet").unlink(missing_ok=True)
    results.pack()
    assert results.get(second.key) == second
    assert results.outcomes(second.key) is None
    assert [users is None for _, users in state(tmp_path)] == [True, True, False]


def test_outcomes_packed_for_a_whole_data_set_are_still_read(tmp_path: Path) -> None:
    runs = fill(tmp_path)
    results = PackedResults(tmp_path)
    results.pack()
    before = state(tmp_path)
    # Before each experiment had its file, all of a data set lay in one with the same columns.
    (tmp_path / FIRST).rename(tmp_path / "ml-1m-r3.users.parquet")
    assert state(tmp_path) == before
    together = files(tmp_path)["ml-1m-r3.users.parquet"]
    results.add(runs[1], outcomes(50))
    before = state(tmp_path)
    results.pack()
    assert state(tmp_path) == before
    assert files(tmp_path).keys() == {"ml-1m-r3.jsonl", "ml-1m-r3.users.parquet", FIRST}
    assert files(tmp_path)["ml-1m-r3.users.parquet"] == together
    results.add(runs[2], outcomes(51))
    results.pack()
    assert files(tmp_path).keys() == {"ml-1m-r3.jsonl", FIRST, SECOND}


def test_a_removed_run_has_no_outcomes_and_its_file_goes_with_the_last(tmp_path: Path) -> None:
    _, second, third = fill(tmp_path)
    results = PackedResults(tmp_path)
    results.pack()
    written = files(tmp_path)[FIRST]
    results.remove([second.key])
    results.pack()
    assert results.outcomes(second.key) is None
    assert results.outcomes(third.key) is not None
    assert files(tmp_path)[FIRST] == written
    results.remove([third.key])
    (fourth,) = fill(tmp_path, range(3, 4))
    results.pack()
    assert results.outcomes(fourth.key) is not None
    assert files(tmp_path).keys() == {"ml-1m-r3.jsonl", SECOND}, "a name of its own"


def test_experiments_do_not_share_a_file(tmp_path: Path) -> None:
    (run,) = fill(tmp_path, range(1, 2))
    other = RunRecord.from_dict({**run.to_dict(), "experiment": "initialisers-2"})
    PackedResults(tmp_path).add(other, outcomes(7))
    PackedResults(tmp_path).pack()
    assert {FIRST, "ml-1m-r3/initialisers-2.users.parquet"} < files(tmp_path).keys()
    found = PackedResults(tmp_path).outcomes(other.key)
    assert found is not None
    np.testing.assert_array_equal(found.hits, outcomes(7).hits)


def test_failures_and_locks_stay_where_they_are(tmp_path: Path) -> None:
    (run,) = fill(tmp_path, range(1, 2))
    beside = [
        PackedResults(tmp_path).path(run.key).with_suffix(suffix)
        for suffix in (".error.json", ".lock")
    ]
    for path in beside:
        path.write_text("{}")
    (tmp_path / "ml-1m-r3" / "notes.json").write_text("[]")
    assert PackedResults(tmp_path).pack() == 1
    assert all(path.is_file() for path in beside)
    assert (tmp_path / "ml-1m-r3" / "notes.json").is_file()


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    (run,) = fill(tmp_path, range(1, 2))
    PackedResults(tmp_path).path(run.key).write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        PackedResults(tmp_path).records(*EXPERIMENT)


def _write(root: Path, seed: int) -> None:
    for number in range(10):
        fill(root, range(seed + number, seed + number + 1))
        PackedResults(root).pack()


def test_processes_that_write_and_pack_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path, seed)) for seed in (100, 200)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    PackedResults(tmp_path).pack()
    seeds = [run.seed for run, users in state(tmp_path) if users]
    assert seeds == [*range(100, 110), *range(200, 210)]


def test_hits_of_records_give_the_metrics_of_the_records() -> None:
    # Files of 0.7.0, written by another program: the means beside them are the oracle.
    results = PackedResults(Path(__file__).parents[2] / "results")
    for run in results.records("ml-100k", ["baselines"]):
        table = results.outcomes(run.key)
        assert table is not None
        means = table.mean()
        for name in ("NDCG@10", "HR@10", "F1@10", "MAP@5", "MRR@10"):
            assert means[name] == pytest.approx(run.metrics[name])


def test_packing_keeps_the_keys_that_old_outcomes_are_filed_under(tmp_path: Path) -> None:
    """The line of a record whose settings had other names stays as it is."""
    cell = {"model": "dlr2", "init": "leporid", "settings": {"passes": 3.0}}
    filed = record("dlr2", "leporid", 1, 0.1)
    old = RunRecord.from_dict(
        {**filed.to_dict(), "extra": {"cell": cell}, "spec_hash": canonical_hash(cell, 12)}
    )
    results = PackedResults(tmp_path)
    results.add(old, outcomes(1))
    results.pack()
    (run,) = results.records(*EXPERIMENT)
    assert run.key != old.key
    assert run.extra["cell"]["settings"] == {"epochs": 3.0}
    fill(tmp_path, range(2, 4))
    results.pack()
    for each in results.records(*EXPERIMENT):
        assert results.outcomes(each.key) is not None
