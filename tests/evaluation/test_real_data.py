"""The protocol on MovieLens-1M: the figure the design fixes for the most popular items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leporid


@pytest.mark.slow
@pytest.mark.realdata
def test_most_popular_items_on_movielens(real_data: Path) -> None:
    split = leporid.temporal_split(leporid.load(real_data / "ml-1m-r3.parquet").core(20))
    popularity = np.bincount(split.train.item, minlength=split.n_items).astype(np.float32)
    table = leporid.evaluate(lambda users, _: np.tile(popularity, (len(users), 1)), split)
    assert table.skipped == 0
    assert round(table.mean()["HR@10"], 3) == 0.447
    assert round(table.mean()["F1@10"], 3) == 0.056
    low, high = table.confidence("HR@10")[1:]
    assert low < 0.447 < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.447 * 0.553 / len(table)), rel=0.15)


@pytest.mark.realdata
def test_cold_users_of_a_sparse_log_are_counted(real_data: Path) -> None:
    """Whoever has one item has it in the test part."""
    split = leporid.temporal_split(leporid.load(real_data / "movietweetings-100k.parquet"))
    table = leporid.evaluate(leporid.models.get("toppop")().fit(split), split, at=(10,))
    assert (len(table), table.cold, table.skipped) == (16_554, 7_457, 0)
    assert 0 < table.mean(stratum="cold-users")["HR@10"] < table.mean()["HR@10"]
