"""Strata, intervals and exports of a `MetricTable`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import stats

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import MetricTable, evaluate, user_stratum
from leporid.evaluation.metrics import popularity_class
from tests.evaluation.helpers import make_split, random_split


def random_table(seed: int = 0) -> MetricTable:
    split = random_split(seed)
    rng = np.random.default_rng(seed)
    return evaluate(rng.normal(size=(split.n_users, split.n_items)).astype(np.float32), split)


def test_user_strata_by_hand() -> None:
    activity = np.array([5, 2, 9, 2, 1, 7, 2, 2, 4])  # order: 4 1 3 6 7 8 0 5 2
    assert np.flatnonzero(user_stratum("tail-users", activity)).tolist() == [1, 4]
    quarters = [np.flatnonzero(user_stratum(f"activity-q{i}", activity)) for i in (1, 2, 3, 4)]
    assert [q.tolist() for q in quarters] == [[1, 4], [3, 6], [7, 8], [0, 2, 5]]
    tenths = [user_stratum(f"activity-d{i}", activity) for i in range(1, 11)]
    np.testing.assert_array_equal(np.sum(tenths, axis=0), np.ones(9))
    assert np.flatnonzero(tenths[9]).tolist() == [2]


def test_item_classes_by_hand() -> None:
    # Nine items: two in the tail, three (6, 7, 8 in order) in the head.
    assert popularity_class(np.array([5, 2, 9, 2, 1, 7, 2, 2, 4])).tolist() == [
        *(2, 0, 2, 1, 0, 2, 1, 1, 1)
    ]


def test_a_quarter_of_the_items_rounded_up_is_the_head_and_rounded_down_the_tail() -> None:
    for n in range(1, 14):
        classes = popularity_class(np.arange(n)).tolist()
        tail, head = n // 4, -(-n // 4)
        assert classes == [0] * tail + [1] * (n - tail - head) + [2] * head


def test_an_item_with_one_training_interaction_is_not_cold() -> None:
    # Items 0, 1 and 2 have two, one and no training interactions.
    split = make_split([[0], [0], [1], []], [[], [], [], []], [[2], [1, 2], [0, 2], [1]], 3)
    scores = np.tile(np.array([1, 2, 3], dtype=np.float32), (4, 1))
    table = evaluate(scores, split, at=(1, 2))
    assert table.cold_relevant.tolist() == [1, 1, 1, 0]
    # Every list begins with item 2, the cold one. Three users are to find a warm item.
    assert table.per_user("HR@1", "cold-items").tolist() == [1, 1, 1]
    assert table.per_user("HR@1", "warm-items").tolist() == [0, 0, 0]
    assert table.per_user("HR@2", "warm-items").tolist() == [1, 1, 1]


def strata_table() -> MetricTable:
    """Four users of rising activity; popularity of the items falls with their index.

    Items 0 and 1 are the head, 2 to 5 the middle, 6 and 7 the tail.
    """
    train = [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3, 4, 5]]
    test = [[7, 2], [2], [6, 7], [7]]
    split = make_split(train, [[], [], [], []], test, n_items=8)
    scores = np.zeros((4, 8), dtype=np.float32)
    scores[0, [7, 1]] = [2, 1]
    scores[1, [3, 2]] = [2, 1]
    scores[2, [3, 4]] = [2, 1]
    scores[3, [6, 7]] = [2, 1]
    return evaluate(scores, split, at=(1, 2))


def test_cold_users_are_a_number_and_a_stratum() -> None:
    split = make_split([[0, 1], [], [2], []], [[], [1], [], []], [[3], [0], [], [2]], n_items=4)
    scores = np.tile(np.array([4, 3, 2, 1], dtype=np.float32), (4, 1))
    table = evaluate(scores, split, at=(1,))
    assert (len(table), table.skipped, table.cold) == (3, 1, 2)
    assert table.mean(stratum="cold-users")["HR@1"] == 0.5
    assert table.mean(stratum="warm-users")["HR@1"] == 0.0
    assert strata_table().cold == 0
    with pytest.raises(DataError, match="no evaluated user is in the stratum 'cold-users'"):
        strata_table().mean(stratum="cold-users")


def test_means_in_strata_by_hand() -> None:
    table = strata_table()
    assert table.mean()["HR@2"] == 3 / 4
    tail = table.mean(stratum="tail-users")
    assert tail["HR@1"] == 1.0
    assert tail["Precision@2"] == 0.5
    assert tail["Recall@2"] == 0.5
    assert tail["F1@2"] == 0.5
    assert tail["Coverage@2"] == 2 / 8
    assert table.mean(stratum="activity-q3")["HR@2"] == 0.0
    # Users 0, 2 and 3 have tail items to find: 7 of one, none of two, 7 of one at rank 2.
    items = table.mean(stratum="tail-items")
    assert items["HR@1"] == pytest.approx(1 / 3)
    assert items["HR@2"] == pytest.approx(2 / 3)
    assert items["Recall@2"] == pytest.approx((1 + 0 + 1) / 3)
    assert items["Precision@2"] == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert items["MRR@2"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert items["NDCG@2"] == pytest.approx((1 + 0 + 1 / np.log2(3)) / 3)
    assert "Coverage@2" not in items
    assert table.mean(stratum="mid-items")["HR@2"] == 0.5
    with pytest.raises(DataError, match="'head-items'"):
        table.mean(stratum="head-items")


def cold_table() -> MetricTable:
    """Users 1 and 3 have no training items; user 1 has a hit, user 4 nothing to find."""
    train, valid = [[0, 1], [], [2], [], [1]], [[2], [], [3], [1], [0]]
    split = make_split(train, valid, [[3], [4], [4], [5], []], n_items=6)
    scores = np.zeros((5, 6), dtype=np.float32)
    scores[:, 4] = 1.0
    return evaluate(scores, split, at=(1,))


def test_cold_users_are_counted_and_a_stratum() -> None:
    table = cold_table()
    assert (len(table), table.cold, table.skipped) == (4, 2, 1)
    assert "2 of them cold" in repr(table)
    assert table.mean(stratum="cold-users")["HR@1"] == 0.5
    assert table.per_user("HR@1", "cold-users").tolist() == [1.0, 0.0]
    assert table.to_arrow().schema.metadata[b"leporid.cold"] == b"2"
    warm = strata_table()
    assert warm.cold == 0
    assert not warm.has_users("cold-users")
    with pytest.raises(DataError, match="'cold-users'"):
        warm.mean(stratum="cold-users")


def test_strata_cover_all_users_once() -> None:
    table = random_table()
    for prefix, parts in (("activity-q", 4), ("activity-d", 10)):
        values = [table.per_user("NDCG@10", f"{prefix}{i}") for i in range(1, parts + 1)]
        assert sum(map(len, values)) == len(table)
        assert np.concatenate(values).sum() == pytest.approx(table.per_user("NDCG@10").sum())
    tail, first = table.mean(stratum="tail-users"), table.mean(stratum="activity-q1")
    assert tail == first


def test_unknown_names_suggest_the_closest() -> None:
    table = random_table()
    with pytest.raises(UnknownNameError, match="'NDCG@10'"):
        table.confidence("NDGC@10")
    with pytest.raises(UnknownNameError, match="'HR@1"):
        table.per_user("HR@15")
    with pytest.raises(UnknownNameError, match="HR@"):
        table.per_user("HR")
    with pytest.raises(UnknownNameError, match="'tail-users'"):
        table.mean(stratum="tail-user")
    with pytest.raises(ConfigError, match="UserF1@10"):
        table.per_user("F1@10")
    with pytest.raises(ConfigError, match="all lists together"):
        table.confidence("Gini@10")
    with pytest.raises(ConfigError, match="between 0 and 1"):
        table.confidence("HR@10", level=95)


def test_intervals_are_those_of_scipy() -> None:
    table = random_table(1)
    means = table.mean()
    for name, found in table.intervals().items():
        assert found.value == pytest.approx(means[name])
        if not name.startswith("F1@"):
            oracle = stats.ttest_1samp(table.per_user(name), 0.0).confidence_interval(0.95)
            assert found[1:] == pytest.approx((oracle.low, oracle.high))
    assert "Coverage@10" not in table.intervals()
    assert "Popularity@10" in table.intervals()
    assert "Popularity@10" not in table.intervals(stratum="tail-items")
    wide, narrow = table.confidence("F1@10"), table.confidence("F1@10", level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high
    tail = table.confidence("HR@10", stratum="tail-users")
    assert tail.value == pytest.approx(table.mean(stratum="tail-users")["HR@10"])


def test_f1_interval_is_what_the_bootstrap_finds() -> None:
    table = random_table(2)
    columns, rng = table.columns("F1@10"), np.random.default_rng(9)
    m = len(columns)
    p, r = columns[rng.integers(m, size=(4000, m))].mean(axis=1).T
    error = (2 * p * r / (p + r)).std(ddof=1)
    found = table.confidence("F1@10")
    # The bootstrap divides by m where the variance is estimated with m - 1.
    wanted = stats.t.ppf(0.975, m - 1) * error * np.sqrt(m / (m - 1))
    assert (found.high - found.low) / 2 == pytest.approx(wanted, rel=0.05)


def test_hits_alone_give_the_same_metrics_and_nothing_else(tmp_path: Path) -> None:
    table = random_table(3)
    again = MetricTable.load_hits(table.save_hits(tmp_path / "users.parquet"))
    assert again.same_users(table)
    assert not again.has_lists
    means = again.mean()
    for name, value in table.mean().items():
        if name.partition("@")[0] not in ("Coverage", "Popularity", "Gini"):
            assert means[name] == pytest.approx(value)
    with pytest.raises(UnknownNameError, match="Coverage@10"):
        again.per_user("Coverage@10")
    for refused in (lambda: again.mean(stratum="tail-users"), again.to_arrow, lambda: again.cold):
        with pytest.raises(DataError, match="table of hits"):
            refused()
    assert "hits only" in repr(again)


def test_hits_of_the_first_31_ranks_are_kept(tmp_path: Path) -> None:
    split = make_split([[0]] * 2, [[]] * 2, [[30], [33]], 40)
    scores = np.tile(-np.arange(40, dtype=np.float32), (2, 1))
    table = evaluate(scores, split, at=(35,))
    again = MetricTable.load_hits(table.save_hits(tmp_path / "users.parquet"))
    assert again.per_user("HR@31").tolist() == [1.0, 0.0]
    assert table.per_user("HR@35").tolist() == [1.0, 1.0]


def test_files_of_hits_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "users.parquet"
    with pytest.raises(DataError, match="no such file"):
        MetricTable.load_hits(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="not a parquet file"):
        MetricTable.load_hits(path)
    for columns, says in (
        ({"user": [0], "hits": [1]}, "columns of integers"),
        ({"user": [0], "hits": [1], "relevant": [0.5]}, "columns of integers"),
        ({"user": [1, 0], "hits": [1, 1], "relevant": [1, 1]}, "each user once"),
        ({"user": [0, 1], "hits": [1, 1], "relevant": [1, 0]}, "each user once"),
    ):
        pyarrow.parquet.write_table(pa.table(columns), path)
        with pytest.raises(DataError, match=says):
            MetricTable.load_hits(path)


def test_repr_shows_what_was_left_out() -> None:
    table = random_table()
    assert table.skipped > 0
    text = repr(table)
    assert f"{table.skipped} left out" in text
    assert f"HR@10 {table.mean()['HR@10']:.4f}" in text


def test_export_by_external_id(tmp_path: Path) -> None:
    table = random_table()
    read = pyarrow.parquet.read_table(table.to_parquet(tmp_path / "out" / "users.parquet"))
    assert read["user"].to_pylist() == table.users.externals(table.user).tolist()
    np.testing.assert_array_equal(read["HR@10"].to_numpy(), table.per_user("HR@10"))
    np.testing.assert_array_equal(read["test_items"].to_numpy(), table.relevant.sum(axis=1))
    np.testing.assert_array_equal(read["train_interactions"].to_numpy(), table.activity[table.user])
    assert read.schema.metadata[b"leporid.skipped"] == str(table.skipped).encode()
    text = pyarrow.csv.read_csv(table.to_csv(tmp_path / "users.csv"))
    assert text.column_names == read.column_names
    assert "UserF1@5" in text.column_names
    assert "F1@5" not in text.column_names
    np.testing.assert_allclose(text["NDCG@5"].to_numpy(), table.per_user("NDCG@5"))
