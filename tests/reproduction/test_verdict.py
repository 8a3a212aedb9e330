"""The verdicts follow from the records: words, intervals, rules, and the page itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from leporid.errors import DataError
from leporid.evaluation import Comparison as Result
from leporid.evaluation import MetricTable, compare, holm
from leporid.foundation import write_json
from leporid.runs import RunRecord
from reproduction.activity import packed
from reproduction.store import PackedResults
from reproduction.verdict import (
    Claim,
    Comparison,
    evaluate_claims,
    ratio_by_user,
    verdict_page,
)

ROOT = Path(__file__).resolve().parents[2]


def made_up(difference: float, half: float = 0.02) -> Result:
    low, high = difference - half, difference + half
    p_value = 0.01 if low * high > 0 else 0.5
    return Result(
        metric="HR@10", name_a="a", name_b="b", mean_a=0.5 + difference, mean_b=0.5, n_users=9,
        difference=difference, low=low, high=high, p_value=p_value, n_seeds=(3, 3),
    )  # fmt: skip


def comparison(found: Result | None, dataset: str = "toy", **fields: Any) -> Comparison:
    return Comparison(dataset, "x: a - b", "a against b", (3, 3), **{"tested": found, **fields})


def claim(*parts: Result | None, expects: str = "better", verdict: str = "") -> Claim:
    compared = tuple(map(comparison, parts))
    return Claim("id", "t", "p", "s", verdict, "table3", compared, expects)


BETTER, WORSE, WIDE, NARROW = made_up(0.1), made_up(-0.1), made_up(0.004), made_up(0.004, 0.005)


@pytest.mark.parametrize(
    ("parts", "expects", "verdict"),
    [
        ((BETTER, BETTER), "better", "confirmed"),
        ((BETTER, NARROW), "better", "confirmed in part"),
        ((BETTER, WORSE), "better", "not confirmed"),
        ((BETTER, BETTER, WORSE), "better", "confirmed in part"),
        ((NARROW, WIDE), "better", "not confirmed"),
        ((WIDE, WIDE), "better", "undecided"),
        ((BETTER, None), "better", "confirmed"),
        ((None,), "better", "not run yet"),
        ((NARROW,), "equivalent", "confirmed"),
        ((BETTER,), "equivalent", "not confirmed"),
        ((WIDE,), "equivalent", "undecided"),
        ((NARROW, BETTER), "not worse", "confirmed"),
        ((NARROW, WORSE), "not worse", "not confirmed"),
    ],
)
def test_the_rules(parts: tuple[Result | None, ...], expects: str, verdict: str) -> None:
    judged = claim(*parts, expects=expects, verdict=verdict)
    assert judged.computed() == verdict
    assert judged.contradiction is None


def test_a_printed_gain_outside_the_interval_is_not_confirmed() -> None:
    # The interval ends at .024 of .5: a printed gain of 10% lies outside, one of 4% does not.
    inside = comparison(WIDE, printed=0.04)
    outside = comparison(WIDE, printed=0.1)
    printed_loss = comparison(WIDE, printed=-0.1)
    assert [c.excludes_printed for c in (inside, outside, printed_loss)] == [False, True, True]
    assert [c.misses_printed for c in (inside, outside, printed_loss)] == [False, True, False]
    verdicts = [
        Claim("id", "t", "p", "s", "", "c", (one,)).computed()
        for one in (inside, outside, printed_loss)
    ]
    assert verdicts == ["undecided", "not confirmed", "undecided"]


def test_a_word_is_that_of_the_comparison_and_few_seeds_have_none() -> None:
    found = [comparison(one).word for one in (BETTER, WORSE, WIDE, NARROW, None)]
    assert found == ["better", "worse", "inconclusive", "equivalent", "not run yet"]
    assert comparison(BETTER, counted=False).word == "too few seeds"
    parts = (
        comparison(BETTER, dataset="ml-1m-r3"),
        comparison(WORSE),
        comparison(BETTER, counted=False),
    )
    some = Claim("id", "t", "p", "s", "confirmed", "c", parts)
    assert (some.computed(["ml-1m-r3"]), some.computed(["toy"])) == ("confirmed", "not confirmed")
    assert some.words == "1 better, 1 worse"
    assert some.main is parts[0]
    own = comparison(WORSE, dataset="ml-1m")
    assert Claim("id", "t", "p", "s", "", "c", (*parts, own)).main is own


def write(root: Path, init: str, seed: int, hits: list[int], **fields: Any) -> None:
    rate = sum(hits) / len(hits)
    fields = {"experiment": "models", "recipe": None, "config": {}, **fields}
    record = RunRecord(
        dataset="toy", model="bpr", init=init, seed=seed, valid_metrics={},
        metrics={"HR@10": rate, "F1@10": rate / 5},
        tail_metrics={"HR@10": rate / 2, "F1@10": rate / 10}, seconds=7.0, peak_memory_mb=1.0,
        device="cpu", spec_hash=f"{init}{seed}", **fields,
    )  # fmt: skip
    path = PackedResults(root).add(record)
    users = np.arange(len(hits), dtype=np.int32)
    outcomes = MetricTable.from_hits(users, np.array(hits, np.int32), np.ones(len(hits), np.int32))
    outcomes.save_hits(path.with_suffix(".users.parquet"))


def entry(**changes: Any) -> dict[str, Any]:
    first = {"experiment": "models", "model": "bpr", "init": "leporid"}
    compare = [{"data": ["toy"], "first": first, "second": {"init": "random"}, **changes}]
    words = dict.fromkeys(("id", "title", "paper", "sentence", "command"), "x")
    return {**words, "verdict": "confirmed", "compare": compare}


def test_the_interval_is_that_of_compare_and_p_values_are_adjusted(tmp_path: Path) -> None:
    draws = np.random.default_rng(3)
    runs: dict[str, dict[int, MetricTable]] = {}
    for init, rate in (("leporid", 0.6), ("random", 0.4), ("svd", 0.5)):
        for seed in (1, 2, 3):
            hits = (draws.random(150) < rate).astype(int).tolist()
            write(tmp_path, init, seed, hits)
            users, mask = np.arange(150, dtype=np.int32), np.array(hits, np.int32)
            table = MetricTable.from_hits(users, mask, np.ones(150, np.int32))
            runs.setdefault(init, {})[seed] = table
    (judged,) = evaluate_claims(tmp_path, [entry(second={"init": ["random", "svd", "le"]})])
    first, second, absent = judged.comparisons
    alone = compare(runs["leporid"], runs["random"], "HR@10")
    assert first.tested is not None
    assert second.tested is not None
    assert (first.tested.low, first.tested.high) == pytest.approx((alone.low, alone.high))
    both = holm([alone, compare(runs["leporid"], runs["svd"], "HR@10")])
    found = [first.tested.p_value, second.tested.p_value]
    assert found == pytest.approx([one.p_value for one in both])
    assert absent.word == "not run yet"


def test_tail_users_are_compared_by_their_own_hits(tmp_path: Path) -> None:
    draws = np.random.default_rng(5)
    runs: dict[str, dict[int, NDArray[np.int64]]] = {"leporid": {}, "random": {}}
    for init, rate in (("leporid", 0.7), ("random", 0.4)):
        for seed in (1, 2, 3):
            runs[init][seed] = (draws.random(120) < rate).astype(int)
            write(tmp_path, init, seed, runs[init][seed].tolist(), extra={"data_digest": "d"})
    with pytest.raises(DataError, match="reproduction activity"):
        evaluate_claims(tmp_path, [entry(measure="tail users")])
    quartile = draws.permutation(np.repeat([1, 2, 3, 4], 30)).astype(np.int32)
    kept = {"d": {"dataset": "toy", "quartiles": packed(quartile)}}
    write_json(tmp_path / "activity-quartiles.json", kept)
    (tail,) = evaluate_claims(tmp_path, [entry(measure="tail users")])[0].comparisons
    sides = [
        {seed: hits[quartile == 1].astype(float) for seed, hits in of.items()}
        for of in runs.values()
    ]
    expected = compare(sides[0], sides[1], "HR@10")
    assert tail.tested is not None
    assert (tail.tested.low, tail.tested.high) == pytest.approx((expected.low, expected.high))
    assert tail.tested.n_users == 30


def test_a_ratio_has_the_error_that_the_bootstrap_finds() -> None:
    draws = np.random.default_rng(6)
    a, b = ((draws.random((1, 900)) < rate).astype(float) for rate in (0.6, 0.4))
    members = np.arange(900) % 4 == 0
    values = ratio_by_user({1: a[0]}, {1: b[0]}, members)[1]
    assert values.mean() == pytest.approx(a[0, members].mean() / b[0, members].mean())
    found = compare(values, ratio_by_user({1: a[0]}, {1: b[0]}, np.full(900, True))[1], "m")
    rows = draws.integers(900, size=(4000, 900))
    tail = members[rows]
    tail_ratio = (a[0][rows] * tail).sum(1) / (b[0][rows] * tail).sum(1)
    error = np.std(tail_ratio - a[0][rows].sum(1) / b[0][rows].sum(1), ddof=1)
    assert found.detectable / stats.t.ppf(0.975, 899) == pytest.approx(error, rel=0.05)


def test_the_printed_difference_stands_beside_ours() -> None:
    claims = {c.id: c for c in evaluate_claims(ROOT / "results")}
    first = claims["dlr2"].main
    assert first is not None
    assert first.what == "initialisers: dlr2 leporid - dlr2 random"
    assert first.printed == pytest.approx((0.7026 - 0.4538) / 0.4538, abs=1e-9)
    revnet = claims["revnet"].main
    assert revnet is not None
    assert revnet.printed == pytest.approx((0.6965 - 0.7026) / 0.7026)


def test_a_sentence_against_the_numbers_is_a_contradiction() -> None:
    said = claim(WORSE, verdict="confirmed").contradiction
    assert said is not None
    assert "'not confirmed'" in said


def test_no_written_verdict_contradicts_the_committed_records() -> None:
    claims = evaluate_claims(ROOT / "results")
    assert [c.contradiction for c in claims if c.contradiction] == []
    assert len(claims) >= 18
    assert all(c.run for c in claims)


def test_the_page_is_what_the_records_give() -> None:
    page = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    assert page == verdict_page(ROOT / "results"), "run `python docs/make_pages.py`"
