"""Levers of sequence models with the last item held out: which runs count, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.tables import leave_last_out_table
from leporid.evaluation import MetricTable
from leporid.foundation import canonical_hash
from leporid.runs import RunRecord
from reproduction.leave_last_out import BASE, OLDER, read_levers
from reproduction.store import PackedResults

USERS, TWO_LAYERS = 300, "the same with two layers"


def write(root: Path, hits: int, seeds: int = 3, model: str = "sasrec", **cell: Any) -> None:
    """Runs whose first users have a hit at rank 1; `cell` is what was asked."""
    init = cell.pop("init", "leporid")
    for seed in range(1, seeds + 1):
        own = hits + seed - 2
        asked = {"settings": cell.get("settings", {}), "variant": cell.get("variant")}
        record = RunRecord(
            dataset="toy", experiment="leave-last-out", model=model, init=init, recipe="general",
            seed=seed, config={}, valid_metrics={"NDCG@10": own / USERS}, tail_metrics={},
            metrics={"NDCG@10": own / USERS, "HR@10": own / USERS}, seconds=1.0, device="cpu",
            peak_memory_mb=1.0, spec_hash=canonical_hash([model, init, asked, seed], 12),
            extra={"cell": asked},
        )  # fmt: skip
        users = np.arange(USERS, dtype=np.int32)
        listed = (users < own).astype(np.int32)
        PackedResults(root).add(
            record, MetricTable.from_hits(users, listed, np.ones(USERS, np.int32))
        )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(tmp_path, 100, variant="as it comes")
    write(tmp_path, 90, seeds=1, init="random", variant="random embeddings")
    write(tmp_path, 50)
    write(tmp_path, 180, settings={"layers": 2}, variant="two layers")
    write(tmp_path, 20, settings={"dropout": 0.6})
    write(tmp_path, 101, model="dlr2", settings={"metric": "NDCG@10"})
    write(tmp_path, 290, settings={"loss": "gone"})
    return tmp_path


def test_a_lever_is_one_change_and_no_other(results: Path) -> None:
    levers = {lever.name: lever for lever in read_levers(results, ["toy"])["toy"]}
    assert list(levers) == [BASE, "random embeddings", "DLR2 as it comes", OLDER, TWO_LAYERS]
    assert [len(lever.records) for lever in levers.values()] == [3, 1, 3, 3, 3]
    assert levers[TWO_LAYERS].mean("HR@10") == pytest.approx(180 / USERS)


def test_levers_with_as_many_seeds_are_compared_with_the_first(results: Path) -> None:
    levers = {lever.name: lever.gain for lever in read_levers(results, ["toy"])["toy"]}
    outcomes = {name: gain and gain.outcome for name, gain in levers.items()}
    assert outcomes == {
        BASE: None,
        "random embeddings": None,
        "DLR2 as it comes": "inconclusive",
        OLDER: "worse",
        TWO_LAYERS: "better",
    }


def test_the_table_has_a_row_for_each_and_what_others_print(results: Path) -> None:
    text = leave_last_out_table({"beauty": read_levers(results, ["toy"])["toy"]})
    assert f"| {TWO_LAYERS} | 3 | 0.6000 | 0.6000 | 0.6000 | +80.0% [" in text
    assert "] better |" in text
    assert "| printed: BSARec | - | - | 0.1008 | 0.0611 | - |" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1
