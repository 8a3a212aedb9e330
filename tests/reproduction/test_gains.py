"""Gains of one initialiser over another, from files made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leporid.evaluation import MetricTable, compare
from leporid.runs import Results, RunRecord
from reproduction.gains import initialisation_gains
from tests.experiments.records import record

USERS = np.arange(40, dtype=np.int32)


def write(root: Path, init: str, seed: int, hits: np.ndarray) -> RunRecord:
    hr = float(np.mean(hits % 1024 > 0))
    run = record("dlr2", init, seed, hr, seen="train and validation")
    relevant = np.full(40, 3, dtype=np.int32)
    Results(root).add(run, MetricTable.from_hits(USERS, hits.astype(np.int32), relevant))
    return run


def test_gain_is_the_mean_paired_difference_over_users_and_seeds(tmp_path: Path) -> None:
    half, most = USERS < 20, USERS < 30
    runs = [
        write(tmp_path, "leporid", 1, most * 4),
        write(tmp_path, "leporid", 2, half * 1),
        write(tmp_path, "random", 1, half * 512),
    ]
    (row,) = initialisation_gains(runs, tmp_path)
    assert row["leporid HR@10"] == pytest.approx((0.75 + 0.5) / 2)
    assert row["random HR@10"] == pytest.approx(0.5)
    assert row["gain"] == pytest.approx(0.125)
    # The interval is that of `compare`, here of more than 1.96 standard errors of two seeds.
    values = {1: most.astype(float), 2: half.astype(float)}
    found = compare(values, half.astype(float), "HR@10")
    assert (row["low"], row["high"]) == pytest.approx((found.low, found.high))
    assert row["low"] < 0.125 - 0.245 < 0.125 + 0.245 < row["high"]
    assert row["leporid seeds"] == "0.5000 to 0.7500"
    assert row["has seen"] == "train and validation"


def test_a_hit_below_the_cut_off_does_not_count(tmp_path: Path) -> None:
    runs = [
        write(tmp_path, "leporid", 1, np.full(40, 1 << 10)),
        write(tmp_path, "random", 1, np.full(40, 1 << 9)),
    ]
    (row,) = initialisation_gains(runs, tmp_path)
    assert row["gain"] == -1.0


def test_one_side_alone_makes_no_row(tmp_path: Path) -> None:
    assert initialisation_gains([write(tmp_path, "leporid", 1, USERS)], tmp_path) == []
