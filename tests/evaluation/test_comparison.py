"""`compare` against scipy, the bootstrap and simulated data; Holm against a worked example."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import (
    Comparison,
    MetricTable,
    compare,
    compare_all,
    compare_groups,
    evaluate,
    holm,
)
from tests.evaluation.helpers import random_split

Values = NDArray[np.float64]


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


def made(p_value: float, difference: float = 0.1) -> Comparison:
    return Comparison(
        metric="NDCG@10", name_a="dlr2", name_b="ease", mean_a=0.3 + difference, mean_b=0.3,
        difference=difference, low=difference - 0.05, high=difference + 0.05, p_value=p_value,
        n_users=40, n_seeds=(3, 1),
    )  # fmt: skip


@pytest.mark.parametrize("metric", ["NDCG@10", "HR@5", "Popularity@10"])
def test_one_run_each_is_the_paired_t_test(metric: str) -> None:
    a, b = tables("ab").values()
    found = compare(a, b, metric, name_a="a", name_b="b")
    x, y = a.per_user(metric), b.per_user(metric)
    oracle = stats.ttest_rel(x, y)
    interval = oracle.confidence_interval(0.95)
    assert found.p_value == pytest.approx(oracle.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.mean_a, found.mean_b) == pytest.approx((x.mean(), y.mean()))
    assert found.difference == pytest.approx(x.mean() - y.mean())
    assert (found.n_users, found.n_seeds) == (len(x), (1, 1))
    by_arrays = compare(x, y, metric, name_a="a", name_b="b")
    assert by_arrays.to_dict() == found.to_dict()


def test_many_seeds_and_a_large_seed_effect_are_the_t_test_over_seeds() -> None:
    rng = np.random.default_rng(1)
    effect = rng.normal(0, 5, size=(2, 4))
    x, y = (rng.normal(0, 1e-3, size=(4, 500)) + row[:, None] for row in effect)
    a, b = dict(enumerate(x)), dict(enumerate(y))
    paired = compare(a, b, "m")
    oracle = stats.ttest_rel(x.mean(axis=1), y.mean(axis=1))
    assert paired.p_value == pytest.approx(oracle.pvalue, rel=1e-4)
    assert paired.high == pytest.approx(oracle.confidence_interval().high, rel=1e-4)
    other_seeds = {seed + 10: run for seed, run in b.items()}
    unpaired = compare(a, other_seeds, "m")
    oracle = stats.ttest_ind(x.mean(axis=1), y.mean(axis=1), equal_var=False)
    assert unpaired.p_value == pytest.approx(oracle.pvalue, rel=1e-4)
    assert unpaired.low == pytest.approx(oracle.confidence_interval().low, rel=1e-4)
    assert unpaired.n_seeds == (4, 4)


def test_runs_with_equal_means_leave_the_interval_over_users() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=40)
    noise -= noise.mean()
    middle, other = rng.normal(size=(2, 40))
    a = {0: middle + noise, 1: middle - noise}
    b = {0: other, 1: other}
    oracle = stats.ttest_rel(middle, other)
    assert compare(a, b, "m").p_value == pytest.approx(oracle.pvalue)
    assert compare(a, b, "m").high == pytest.approx(oracle.confidence_interval().high)


def test_pairs_of_seeds_do_not_depend_on_their_order() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 3, 30))
    a, b = dict(enumerate(x)), dict(enumerate(y))
    assert compare(a, b, "m") == compare(dict(reversed(a.items())), b, "m")
    there, back = compare(a, b, "m"), compare(b, a, "m")
    assert (there.low, there.difference) == pytest.approx((-back.high, -back.difference))


def coverage(
    seeds: tuple[int, int], user_sd: float, seed_sd: float, *, paired: bool, trials: int = 2000
) -> float:
    """Share of intervals that hold the true difference, 0, of 120 users with noise of 0.4."""
    rng, inside, m = np.random.default_rng(7), 0, 120
    for _ in range(trials):
        common = rng.normal(size=m)
        sides = []
        for n, sd in zip(seeds, (user_sd, 0.0), strict=True):
            runs = common + rng.normal(0, sd or 1e-9, m) + rng.normal(0, 0.4, (n, m))
            sides.append(runs + (rng.normal(0, seed_sd, (n, 1)) if n > 1 else 0.0))
        a, b = dict(enumerate(sides[0])), dict(enumerate(sides[1], start=0 if paired else 100))
        found = compare(a, b, "m")
        inside += found.low <= 0 <= found.high
    return inside / trials


@pytest.mark.parametrize(
    ("seeds", "user_sd", "seed_sd", "paired"),
    [
        ((1, 1), 0.5, 0.0, True),
        ((3, 3), 0.3, 0.03, True),
        ((3, 3), 0.3, 0.3, True),
        ((5, 5), 0.5, 0.0, True),
        ((5, 5), 0.5, 0.1, True),
        ((4, 4), 0.5, 0.1, False),
        ((5, 3), 0.3, 1.0, False),
        ((5, 1), 0.3, 0.3, False),
    ],
)
def test_intervals_cover_as_often_as_they_say(
    seeds: tuple[int, int], user_sd: float, seed_sd: float, paired: bool
) -> None:
    assert 0.93 <= coverage(seeds, user_sd, seed_sd, paired=paired) <= 0.97


def test_f1_by_the_delta_method_is_what_the_bootstrap_finds() -> None:
    rng = np.random.default_rng(3)
    m = 400
    hits_a, hits_b = rng.binomial(10, 0.12, m), rng.binomial(10, 0.1, m)
    relevant = rng.integers(1, 30, m)
    a, b = (np.column_stack([h / 10, np.minimum(h / relevant, 1)]) for h in (hits_a, hits_b))
    found = compare(a, b, "F1@10")
    rows = rng.integers(m, size=(4000, m))

    def f1(columns: Values) -> Values:
        p, r = columns[rows].mean(axis=1).T
        return np.asarray(2 * p * r / (p + r))

    error = float(np.std(f1(a) - f1(b), ddof=1))
    half = (found.high - found.low) / 2
    assert half == pytest.approx(stats.t.ppf(0.975, m - 1) * error, rel=0.04)
    p, r = a.mean(axis=0)
    assert found.mean_a == pytest.approx(2 * p * r / (p + r))


def test_f1_of_tables_is_that_of_their_means() -> None:
    a, b = tables("ab").values()
    found = compare(a, b, "F1@10")
    means = a.mean()["F1@10"], b.mean()["F1@10"]
    assert (found.mean_a, found.mean_b) == pytest.approx(means)
    nothing = compare(np.zeros((9, 2)), np.zeros((9, 2)), "F1@10")
    assert (nothing.mean_a, nothing.p_value) == (0.0, 1.0)


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, made monotone: .02 .03 .06 .06.
    family = holm(map(made, [0.01, 0.04, 0.03, 0.005]))
    assert [c.p_value for c in family] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert [c.outcome for c in family] == ["better", "inconclusive", "inconclusive", "better"]
    assert [c.p_value for c in holm(map(made, [0.7, 0.9]))] == [1.0, 1.0]
    assert holm([]) == []


def test_all_pairs_are_one_family() -> None:
    runs = tables()
    found = compare_all(runs, ["NDCG@10", "HR@5"])
    order = [(metric, *pair) for metric in ("NDCG@10", "HR@5") for pair in ("ab", "ac", "bc")]
    assert [(c.metric, c.name_a, c.name_b) for c in found] == order
    single = [compare(runs[a], runs[b], m, name_a=a, name_b=b) for m, a, b in order]
    assert found == holm(single)
    assert min(c.p_value for c in found) == pytest.approx(6 * min(c.p_value for c in single))
    against = compare_all(runs, "HR@10", against="b", stratum="tail-users")
    assert [(c.name_a, c.name_b) for c in against] == [("a", "b"), ("c", "b")]
    tail = runs["a"].mean(stratum="tail-users")["HR@10"]
    assert against[0].mean_a == pytest.approx(tail)


def test_the_outcome_is_that_of_the_interval() -> None:
    rng = np.random.default_rng(5)
    base, seen = rng.normal(size=60), set()
    for shift in np.linspace(-0.6, 0.6, 41):
        found = compare(base + shift + rng.normal(0, 1, 60), base, "m")
        # The mean of `base` is about 0, so nothing is within 2% of it.
        expected = "better" if found.low > 0 else "worse" if found.high < 0 else "inconclusive"
        assert found.outcome == expected
        seen.add(expected)
    assert seen == {"better", "inconclusive", "worse"}


def test_nothing_varies() -> None:
    values = np.arange(5.0)
    same = compare(values, values, "m")
    assert (same.difference, same.low, same.high, same.p_value) == (0.0, 0.0, 0.0, 1.0)
    shifted = compare(values, values + 1, "m")
    assert (shifted.low, shifted.high, shifted.outcome) == (-1.0, -1.0, "worse")
    assert same.outcome == "equivalent"


def test_one_user_decides_nothing() -> None:
    for value in (0.0, 1.0):
        alone = compare(np.ones(1), np.full(1, value), "m")
        assert (alone.outcome, alone.p_value, alone.detectable) == ("inconclusive", 1.0, np.inf)
        told = json.loads(json.dumps(alone.to_dict(), allow_nan=False))
        assert (told["low"], told["high"], told["detectable"]) == (None, None, None)
        assert "too few users" in alone.describe()


@pytest.mark.parametrize("margin", [0.004, 0.0199, 0.0201, 0.3])
def test_equivalence_is_two_one_sided_tests_against_two_per_cent(margin: float) -> None:
    rng = np.random.default_rng(11)
    base = rng.uniform(0.9, 1.1, 50)
    base /= base.mean()
    noise = rng.normal(size=50)
    noise -= noise.mean()
    # An interval from -margin + .001 to margin + .001 around a difference of .001.
    half = stats.t.ppf(0.975, 49) * noise.std(ddof=1) / np.sqrt(50)
    found = compare(base + 0.001 + noise * (margin / half), base, "m")
    assert found.detectable == pytest.approx(margin)
    gap = 0.001 + noise * (margin / half)
    too_low = stats.ttest_1samp(gap, -0.02, alternative="greater").pvalue
    too_high = stats.ttest_1samp(gap, 0.02, alternative="less").pvalue
    both_rejected = max(too_low, too_high) < 0.025
    assert found.outcome == ("equivalent" if both_rejected else "inconclusive")
    assert both_rejected == (margin + 0.001 < 0.02)


def test_a_small_difference_beyond_chance_is_better_and_not_equivalent() -> None:
    rng = np.random.default_rng(12)
    base = rng.uniform(0.9, 1.1, 400)
    found = compare(base + 0.005 + rng.normal(0, 0.001, 400), base, "m")
    assert found.high < 0.02
    assert found.outcome == "better"
    # Holm takes the significance; the interval stays, and it lies within 2%.
    assert replace(found, p_value=0.2).outcome == "equivalent"


def test_in_words_and_as_json() -> None:
    better = made(0.001)
    assert better.describe() == "dlr2 beats ease in NDCG@10: +0.1000 [+0.0500, +0.1500]"
    assert "dlr2 against ease in NDCG@10 is inconclusive: " in made(0.2).describe()
    equal = replace(made(0.2), low=-0.001, high=0.001)
    assert equal.describe().startswith("dlr2 ties with ease in NDCG@10: ")
    worse = replace(better, difference=-0.1)
    assert worse.outcome == "worse"
    assert worse.describe().startswith("dlr2 loses to ease in NDCG@10: ")
    assert better.percent == pytest.approx(100 / 3)
    told = json.loads(json.dumps(better.to_dict()))
    assert (told["outcome"], told["low"], told["n_seeds"]) == ("better", 0.05, [3, 1])
    assert told["detectable"] == pytest.approx(0.05)


def test_refuses() -> None:
    runs = tables("ab")
    with pytest.raises(DataError, match="'a' and 'other'"):
        compare_all({"a": runs["a"], "other": tables("a", seed=1)["a"]}, "HR@10")
    with pytest.raises(DataError, match="same users"):
        compare(np.ones(3), np.ones(4), "m")
    with pytest.raises(ConfigError, match="at least two"):
        compare_all({"a": runs["a"]}, "HR@10")
    with pytest.raises(ConfigError, match="at least one run"):
        compare({}, runs["a"], "HR@10")
    with pytest.raises(UnknownNameError, match="'NDCG@10'"):
        compare_all(runs, "NDGC@10")
    with pytest.raises(UnknownNameError, match="unknown run"):
        compare_all(runs, "HR@10", against="z")
    with pytest.raises(ConfigError, match="all lists together"):
        compare_all(runs, "Coverage@10")
    with pytest.raises(ConfigError, match="strata"):
        compare(np.ones(3), np.ones(3), "m", stratum="tail-users")


def test_groups_of_different_users_are_compared_by_welch() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.5, 1, 40), rng.normal(0, 3, 25)
    found = compare_groups(a, b, "hits", name_a="new", name_b="old")
    variances = np.var(a, ddof=1) / 40, np.var(b, ddof=1) / 25
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 39 + variances[1] ** 2 / 24)
    margin = stats.t.ppf(0.975, freedom) * np.sqrt(sum(variances))
    difference = a.mean() - b.mean()
    assert [found.low, found.high] == pytest.approx([difference - margin, difference + margin])
    p_value = 2 * stats.t.sf(abs(difference) / np.sqrt(sum(variances)), freedom)
    assert found.p_value == pytest.approx(p_value)
    assert found.n_users == 65
    assert (found.low > 0 or found.high < 0) == (found.outcome != "inconclusive")


def test_one_user_or_no_variance_says_nothing_of_groups() -> None:
    for a, b in (([1.0], [0.0, 1.0]), ([1.0, 1.0], [0.0, 0.0])):
        found = compare_groups(np.array(a), np.array(b), "hits")
        assert found.outcome == "inconclusive"
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["low"] is None
