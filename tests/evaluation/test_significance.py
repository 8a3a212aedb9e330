"""Paired tests against scipy called by hand, Holm against a worked example."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation.evaluator import evaluate
from leporid.evaluation.metric_table import MetricTable
from leporid.evaluation.significance import (
    compare,
    correct,
    holm,
    one_against_many,
    paired_interval,
    paired_test,
)
from tests.evaluation.helpers import random_split


def tables(names: str = "abc", seed: int = 0) -> dict[str, MetricTable]:
    """'a' knows the test items best, 'b' a little, the others nothing."""
    split = random_split(seed, n_users=80)
    rng = np.random.default_rng(seed)
    truth = split.test.csr().toarray()
    noise = {name: rng.normal(size=truth.shape) for name in names}
    help_by = {"a": 2.0, "b": 0.5}
    return {
        name: evaluate((noise[name] + help_by.get(name, 0) * truth).astype(np.float32), split)
        for name in names
    }


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, made monotone: .02 .03 .06 .06.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([0.7, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []


def test_values_of_users_are_tested_as_scipy_does() -> None:
    rng = np.random.default_rng(3)
    one, near, far = rng.normal(size=(3, 60)) + np.array([[0.0], [0.3], [1.5]])
    test = paired_test(one, far)
    assert test.difference == pytest.approx(one.mean() - far.mean())
    assert test.t_p == test.t_holm == pytest.approx(stats.ttest_rel(one, far).pvalue)
    assert test.wilcoxon_p == test.wilcoxon_holm == stats.wilcoxon(one - far).pvalue
    both = one_against_many(one, [near, far])
    assert [t.wilcoxon_p for t in both] == [stats.wilcoxon(one - x).pvalue for x in (near, far)]
    assert [t.wilcoxon_holm for t in both] == holm([t.wilcoxon_p for t in both]).tolist()
    assert both[1].t_holm == pytest.approx(2 * test.t_p)
    assert one_against_many(one, []) == []


def test_a_shift_leaves_nothing_to_doubt_and_equality_nothing_to_find() -> None:
    values = np.arange(5.0)
    shifted, same = correct([paired_test(values + 1, values), paired_test(values, values)])
    assert (shifted.difference, shifted.t_p) == (1.0, 0.0)
    assert (same.t_holm, same.wilcoxon_holm) == (1.0, 1.0)


def test_the_interval_of_a_difference_resamples_users_together() -> None:
    rng = np.random.default_rng(4)
    a = rng.random((50, 2))
    low, high = paired_interval(a, a + 0.1, resamples=200, level=0.9)
    rows = np.random.default_rng(0)
    drawn = []
    for _ in range(200):
        chosen = a[rows.integers(50, size=50)].mean(axis=0)
        f1 = [2 * p * r / (p + r) for p, r in (chosen, chosen + 0.1)]
        drawn.append(f1[0] - f1[1])
    assert (low, high) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])))
    assert paired_interval(a[:, :1], a[:, :1] + 0.1, resamples=20) == pytest.approx((-0.1, -0.1))


def test_equals_scipy_pair_by_pair() -> None:
    runs = tables()
    found = compare(runs, ["NDCG@10", "HR@5"], resamples=50)
    assert [(c.metric, c.first, c.second) for c in found.comparisons] == [
        (metric, *pair) for metric in ("NDCG@10", "HR@5") for pair in ("ab", "ac", "bc")
    ]
    expected_t, expected_w = [], []
    for c in found.comparisons:
        x, y = runs[c.first].per_user(c.metric), runs[c.second].per_user(c.metric)
        expected_t.append(stats.ttest_rel(x, y).pvalue)
        expected_w.append(stats.wilcoxon(x, y).pvalue)
        assert c.difference == pytest.approx(x.mean() - y.mean())
        assert c.low <= c.difference <= c.high
    np.testing.assert_allclose([c.t_p for c in found.comparisons], expected_t)
    np.testing.assert_allclose([c.wilcoxon_p for c in found.comparisons], expected_w)
    np.testing.assert_allclose([c.t_holm for c in found.comparisons], holm(expected_t))
    np.testing.assert_allclose([c.wilcoxon_holm for c in found.comparisons], holm(expected_w))
    assert found.of("NDCG@10", "a", "c").t_holm < 0.01


def test_f1_difference_is_of_the_means_and_tested_per_user() -> None:
    runs = tables("ab")
    found = compare(runs, "F1@10", resamples=100).of("F1@10", "a", "b")
    a, b = runs["a"].mean()["F1@10"], runs["b"].mean()["F1@10"]
    assert (found.first_mean, found.second_mean) == pytest.approx((a, b))
    assert found.difference == pytest.approx(a - b)
    x, y = runs["a"].per_user("UserF1@10"), runs["b"].per_user("UserF1@10")
    assert found.t_p == pytest.approx(stats.ttest_rel(x, y).pvalue)
    assert found.low <= found.difference <= found.high


def test_against_one_and_within_a_stratum() -> None:
    runs = tables("abcd")
    found = compare(runs, "HR@10", against="c", resamples=20)
    assert [(c.first, c.second) for c in found.comparisons] == [("a", "c"), ("b", "c"), ("d", "c")]
    tail = compare(runs, "HR@10", against="c", stratum="tail-users", resamples=20)
    expected = runs["a"].mean(stratum="tail-users")["HR@10"]
    assert tail.of("HR@10", "a", "c").first_mean == pytest.approx(expected)
    assert tail.rows()[0]["metric"] == "HR@10"


def test_no_difference_is_not_significant() -> None:
    run = tables("a")["a"]
    found = compare({"one": run, "same": run}, "NDCG@10", resamples=20).comparisons[0]
    assert (found.difference, found.t_p, found.wilcoxon_p) == (0.0, 1.0, 1.0)
    assert (found.low, found.high) == (0.0, 0.0)


def test_refuses() -> None:
    runs = tables("ab")
    with pytest.raises(DataError, match="'a' and 'other'"):
        compare({"a": runs["a"], "other": tables("a", seed=1)["a"]}, "HR@10")
    with pytest.raises(ConfigError, match="two tables"):
        compare({"a": runs["a"]}, "HR@10")
    with pytest.raises(UnknownNameError, match="'NDCG@10'"):
        compare(runs, "NDGC@10")
    with pytest.raises(UnknownNameError, match="unknown run"):
        compare(runs, "HR@10", against="z")
    with pytest.raises(ConfigError, match="all lists together"):
        compare(runs, "Coverage@10")
    with pytest.raises(UnknownNameError, match="comparison"):
        compare(runs, "HR@10", resamples=5).of("HR@10", "b", "a")
