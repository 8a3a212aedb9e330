"""Models trained before a date: ranks on both splits, DLR2 against each, the table of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.tables import global_time_table, global_time_text
from leporid.errors import DataError
from leporid.evaluation import MetricTable
from leporid.runs import RunRecord
from reproduction.global_time import LOGS, read_global_time
from reproduction.store import PackedResults

USERS = 400


def write(root: Path, model: str, hits: int, experiment: str = "global-time", **more: Any) -> None:
    """Runs of three seeds whose first users have a hit; those of DLR2 differ a little."""
    for seed in (1, 2, 3):
        own = hits + (seed - 2 if model == "dlr2" else 0)
        record = RunRecord(
            dataset=more.get("log", "toy"), experiment=experiment, model=model,
            init=more.get("init"), recipe=None, seed=seed, config={}, valid_metrics={},
            metrics={"NDCG@10": own / USERS}, tail_metrics={}, seconds=1.0, peak_memory_mb=1.0,
            device="cpu", spec_hash=f"{experiment}{seed}{more.get('init')}",
            extra={"data_digest": more.get("digest", experiment == "global-time"), "cold_users": 7},
        )  # fmt: skip
        users = np.arange(USERS, dtype=np.int32)
        outcomes = MetricTable.from_hits(
            users, (users < own).astype(np.int32), np.ones(USERS, np.int32)
        )
        PackedResults(root).add(record, outcomes)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for model, hits in {"dlr2": 200, "sasrec": 100, "ease": 199, "toppop": 188}.items():
        neural = model in ("dlr2", "sasrec")
        write(tmp_path, model, hits, init="leporid" if neural else None)
    write(tmp_path, "dlr2", 10, "leaderboard", init="leporid")
    write(tmp_path, "sasrec", 150, "leaderboard", init="leporid")
    write(tmp_path, "sasrec", 399, "leaderboard", init="random")
    write(tmp_path, "ease", 120, "defaults")
    write(tmp_path, "toppop", 20, "defaults")
    write(tmp_path, "dlr2", 140, "default", init="leporid")
    return tmp_path


def test_ranks_before_a_date_stand_beside_those_of_the_temporal_split(results: Path) -> None:
    [log] = read_global_time(results, ["toy"])
    # DLR2 under the temporal split is that of `default`, SASRec that from LEPORID embeddings.
    places = [(p.model, p.rank, p.temporal_rank, p.moved) for p in log.places]
    assert places == [
        ("dlr2", 1, 2, 1),
        ("ease", 2, 3, 1),
        ("toppop", 3, 4, 1),
        ("sasrec", 4, 1, -3),
    ]
    assert (log.users, log.cold_users) == (USERS, 7)
    assert log.tau == pytest.approx(0.0)  # Three pairs of models keep their order, three do not.


def test_dlr2_is_compared_with_each_model_in_one_family(results: Path) -> None:
    for model, hits in {"dlr2": 200, "ease": 199}.items():
        init = "leporid" if model == "dlr2" else None
        write(results, model, hits, log="other", init=init)
        write(results, model, hits, "default" if init else "defaults", log="other", init=init)
    logs = read_global_time(results, ["toy", "other"])
    [alone] = read_global_time(results, ["toy"])
    outcomes = {p.model: p.gain.outcome for p in logs[0].places if p.gain}
    assert outcomes == {"ease": "equivalent", "toppop": "better", "sasrec": "better"}
    # The second smallest p of four is multiplied by three, of three by two.
    both, own = (log.place("toppop").gain for log in (logs[0], alone))
    assert both
    assert own
    assert 0 < own.p_value < 0.05
    assert both.p_value == pytest.approx(own.p_value * 3 / 2)


def test_runs_on_other_data_or_missing_ones_are_refused(results: Path) -> None:
    write(results, "bpr", 50)
    with pytest.raises(DataError, match="no runs under the temporal split of"):
        read_global_time(results, ["toy"])
    write(results, "bpr", 50, "defaults", digest="other")
    with pytest.raises(DataError, match="different splits"):
        read_global_time(results, ["toy"])


def test_the_table_and_its_sentences(results: Path) -> None:
    logs = read_global_time(results, ["toy"])
    assert "| sasrec | 0.2500 | 4 | 1 | better |" in global_time_table(logs)
    assert "| dlr2 | 0.5000 | 1 | 2 | - |" in global_time_table(logs)
    text = " ".join(global_time_text(logs).split())
    assert "rank 1: better than 2, equivalent to 1 (ease: p =" in text
    assert "sasrec from 1 to 4" in text


def test_the_sentence_above_the_table_holds() -> None:
    """docs/results.md: DLR2 is first on both logs, and not significantly."""
    for log in read_global_time(Path(__file__).parents[2] / "results"):
        first, second = log.places[:2]
        assert first.model == "dlr2"
        assert second.gain
        assert second.gain.outcome == "inconclusive", log.name
    assert len(LOGS) == 2
