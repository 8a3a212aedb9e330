"""The verdicts follow from the records: readings, intervals, rules, and the page itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leporid.evaluation import Comparison as Result
from leporid.evaluation import MetricTable, compare, holm
from leporid.foundation import write_json
from leporid.runs import RunRecord
from reproduction.store import PackedResults
from reproduction.verdict import Claim, Comparison, evaluate_claims, verdict_page

ROOT = Path(__file__).resolve().parents[2]


def made_up(difference: float) -> Result:
    low, high = difference - 0.02, difference + 0.02
    p_value = 0.01 if low * high > 0 else 0.5
    return Result(
        metric="HR@10", name_a="a", name_b="b", mean_a=0.5 + difference, mean_b=0.5, n_users=9,
        difference=difference, low=low, high=high, p_value=p_value, n_seeds=(3, 3),
    )  # fmt: skip


def comparison(difference: float | None, dataset: str = "toy", **fields: Any) -> Comparison:
    found = None if difference is None else made_up(difference)
    return Comparison(dataset, "a - b", (3, 3), **{"tested": found, **fields})


def claim(*differences: float | None, verdict: str = "confirmed", expects: str = "above") -> Claim:
    parts = tuple(comparison(difference) for difference in differences)
    return Claim("t", "p", "s", verdict, "table3", parts, expects)


@pytest.mark.parametrize(
    ("differences", "expects", "verdict"),
    [
        ((0.1, 0.1), "above", "confirmed"),
        ((0.1, 0.0), "above", "confirmed in part"),
        ((0.1, -0.1), "above", "not confirmed"),
        ((0.1, 0.1, -0.1), "above", "confirmed in part"),
        ((0.0, 0.001), "above", "not confirmed"),
        ((0.015, 0.018), "above", "beyond our power"),
        ((0.1, None), "above", "confirmed"),
        ((None,), "above", "not run yet"),
        ((0.001, -0.001), "same", "confirmed"),
        ((0.1,), "same", "not confirmed"),
        ((0.015,), "same", "beyond our power"),
    ],
)
def test_the_rules(differences: tuple[float | None, ...], expects: str, verdict: str) -> None:
    judged = claim(*differences, expects=expects, verdict=verdict)
    assert judged.computed() == verdict
    assert judged.contradiction is None


def test_level_needs_the_effect_outside_the_interval() -> None:
    # 5% of 0.5 is 0.025; a printed gain of 10% is 0.05.
    assert comparison(0.004).reading == "level"
    assert comparison(0.006).reading == "cannot tell"
    assert comparison(0.006, printed=0.1).reading == "level"
    assert comparison(0.1).reading == "above"
    assert comparison(-0.1).reading == "below"
    assert comparison(0.1, counted=False).reading == "too few seeds"
    assert comparison(None).reading == "not run yet"
    parts = (comparison(1, dataset="a"), comparison(-1), comparison(1, counted=False))
    some = Claim("t", "p", "s", "confirmed", "c", parts)
    assert (some.computed(["a"]), some.computed(["toy"])) == ("confirmed", "not confirmed")


def write(root: Path, init: str, seed: int, hits: list[int], **fields: Any) -> None:
    rate = sum(hits) / len(hits)
    fields = {"experiment": "models", "recipe": None, "config": {}, **fields}
    record = RunRecord.make(
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
    words = dict.fromkeys(("title", "paper", "sentence", "command"), "x")
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
    assert absent.reading == "not run yet"


def test_tail_users_have_the_error_of_users_and_seeds(tmp_path: Path) -> None:
    runs = {
        ("leporid", 1): [1, 1, 1, 0, 1, 0],
        ("leporid", 2): [1, 1, 1, 1, 1, 0],
        ("random", 1): [0, 1, 0, 0, 1, 0],
    }
    for (init, seed), hits in runs.items():
        write(tmp_path, init, seed, hits)
    (tail,) = evaluate_claims(tmp_path, [entry(measure="tail users")])[0].comparisons
    assert not tail.counted
    assert tail.reading == "too few seeds"
    assert tail.tested is not None
    assert tail.tested.difference == pytest.approx((4.5 - 2) / 12)
    gap, seeds = np.array([1, 0, 1, 0.5, 0, 0]), np.std([4 / 6, 5 / 6], ddof=1)
    parts = 4 * gap.var(ddof=1) / 6, (seeds / 2) ** 2 / 2
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 10**6 + parts[1] ** 2)
    margin = math.sqrt(sum(parts)) * stats.t.ppf(0.975, freedom)
    assert tail.tested.high - tail.tested.difference == pytest.approx(margin)
    ratio = entry(measure="tail users' ratio against all users'")
    (found,) = evaluate_claims(tmp_path, [ratio])[0].comparisons
    assert found.tested is not None
    assert found.tested.difference == pytest.approx(0.0)


def test_the_printed_difference_stands_beside_ours() -> None:
    claims = {c.title: c for c in evaluate_claims(ROOT / "results")}
    first = claims["LEPORID is the best initialisation of DLR2"].comparisons[0]
    assert first.what == "initialisers: dlr2 leporid - dlr2 random"
    assert first.printed == pytest.approx((0.7026 - 0.4538) / 0.4538, abs=1e-9)
    revnet = claims["RevNet is about as good as ResNet"].comparisons[0]
    assert revnet.printed == pytest.approx((0.6965 - 0.7026) / 0.7026)


def test_seconds_are_those_of_the_file_without_the_peer(tmp_path: Path) -> None:
    write(tmp_path, "leporid", 1, [1, 0])
    rows = [{"step": "graph", "seconds": 2.0}, {"step": "by scipy", "seconds": 50.0}]
    write_json(tmp_path / "measurements.json", {"toy": {"time_cost": rows}})
    (found,) = evaluate_claims(tmp_path, [entry(measure="seconds")])
    assert found.comparisons[0].tested is not None
    assert found.comparisons[0].tested.difference == 5.0
    assert found.computed() == "confirmed"


def test_a_sentence_against_the_numbers_is_a_contradiction() -> None:
    said = claim(-0.1, verdict="confirmed").contradiction
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
