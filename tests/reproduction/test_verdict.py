"""The verdicts follow from the records: readings, intervals, rules, and the page itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leporid.artifacts import write_json
from leporid.evaluation import MetricTable
from leporid.experiments import RunRecord
from leporid.initializers.leporid import LEPORIDConfig
from reproduction.store import PackedResults
from reproduction.verdict import (
    Claim,
    Comparison,
    evaluate_claims,
    repeats,
    run_to_run,
    verdict_page,
)

ROOT = Path(__file__).resolve().parents[2]


def comparison(difference: float | None, error: float = 0.01, dataset: str = "toy") -> Comparison:
    values = None if difference is None else (0.5 + difference, 0.5)
    return Comparison(dataset, "a - b", (3, 3), values, difference, error)


def claim(*differences: float | None, every: bool = False, verdict: str = "holds") -> Claim:
    parts = tuple(comparison(difference) for difference in differences)
    return Claim("t", "p", "s", verdict, every, "table3", parts)


@pytest.mark.parametrize(
    ("differences", "every", "verdict"),
    [
        ((0.1, 0.1), True, "holds"),
        ((0.1, 0.0), True, "holds in part"),
        ((0.1, -0.1), True, "does not hold"),
        ((0.1, -0.1), False, "holds in part"),
        ((0.0, 0.001), False, "does not hold"),
        ((0.1, None), False, "holds"),
        ((None,), True, "not run yet"),
    ],
)
def test_the_rules(differences: tuple[float | None, ...], every: bool, verdict: str) -> None:
    judged = claim(*differences, every=every, verdict=verdict)
    assert judged.computed() == verdict
    assert judged.contradiction is None


def test_a_reading_needs_the_whole_interval_on_one_side() -> None:
    readings = [comparison(d).reading for d in (0.0197, 0.0195, -0.0195, -0.0197, None)]
    assert readings == ["above", "level", "level", "below", "not run yet"]
    some = Claim("t", "p", "s", "holds", True, "c", (comparison(1, dataset="a"), comparison(-1)))
    assert (some.computed(["a"]), some.computed(["toy"])) == ("holds", "does not hold")


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
    return {**words, "verdict": "holds", "rule": "every", "compare": compare}


def test_the_interval_covers_users_and_seeds(tmp_path: Path) -> None:
    runs = {
        ("leporid", 1): [1, 1, 1, 0, 1, 0],
        ("leporid", 2): [1, 1, 1, 1, 1, 0],
        ("random", 1): [0, 1, 0, 0, 1, 0],
    }
    for (init, seed), hits in runs.items():
        write(tmp_path, init, seed, hits)
    (judged,) = evaluate_claims(tmp_path, [entry()])
    (found,) = judged.comparisons
    assert found.seeds == (2, 1)
    assert found.difference == pytest.approx(4.5 / 6 - 2 / 6)
    assert found.also == pytest.approx((4.5 - 2) / 30)
    gap = np.array([1, 0, 1, 0.5, 0, 0])
    seeds = np.std([4 / 6, 5 / 6], ddof=1)
    # The one random run takes the deviation of the model's other cells.
    wanted = math.sqrt(gap.var(ddof=1) / 6 + seeds**2 / 2 + seeds**2)
    assert found.error == pytest.approx(wanted)

    (tail,) = evaluate_claims(tmp_path, [entry(measure="tail users")])[0].comparisons
    assert tail.difference == pytest.approx((4.5 - 2) / 12)
    assert tail.error == pytest.approx(
        math.sqrt(4 * gap.var(ddof=1) / 6 + (seeds / 2) ** 2 / 2 + (seeds / 2) ** 2)
    )
    ratio = entry(measure="tail users' ratio against all users'")
    assert evaluate_claims(tmp_path, [ratio])[0].comparisons[0].difference == pytest.approx(0.0)
    absent = entry(second={"init": "svd"})
    assert evaluate_claims(tmp_path, [absent])[0].computed() == "not run yet"
    # A list is one comparison each.
    (both,) = evaluate_claims(tmp_path, [entry(second={"init": ["random", "svd"]})])
    assert [one.reading for one in both.comparisons] == [found.reading, "not run yet"]


def test_the_same_request_in_two_groups_is_a_repeat(tmp_path: Path) -> None:
    def run(experiment: str, hits: list[int], lr: float = 0.1, **init: Any) -> None:
        fields = {"experiment": experiment, "config": {"lr": lr}, "recipe": None}
        cell = {"cell": {"init_settings": init}}
        write(tmp_path, "leporid", 1, hits, extra=cell, **fields)

    run("initialisers", [1, 1, 0, 0])
    run("alpha", [1, 0, 0, 0], alpha=LEPORIDConfig().alpha)
    run("losses", [1, 1, 1, 1], lr=0.2)
    run("neighbours", [1, 1, 1, 1], k=7)
    (found,) = repeats(tmp_path, "toy")
    assert (found.model, found.seed) == ("bpr", 1)
    assert found.values == {"initialisers": 0.5, "alpha": 0.25}
    assert run_to_run([found]) == pytest.approx(np.std([0.5, 0.25], ddof=1))
    assert run_to_run([]) == 0.0


def test_seconds_are_those_of_the_file_without_the_peer(tmp_path: Path) -> None:
    write(tmp_path, "leporid", 1, [1, 0])
    rows = [{"step": "graph", "seconds": 2.0}, {"step": "by scipy", "seconds": 50.0}]
    write_json(tmp_path / "measurements.json", {"toy": {"time_cost": rows}})
    (found,) = evaluate_claims(tmp_path, [entry(measure="seconds")])
    assert found.comparisons[0].values == (7.0, 2.0)
    assert found.computed() == "holds"


def test_a_sentence_against_the_numbers_is_a_contradiction() -> None:
    said = claim(-0.1, verdict="holds").contradiction
    assert said is not None
    assert "'does not hold'" in said


def test_no_written_verdict_contradicts_the_committed_records() -> None:
    claims = evaluate_claims(ROOT / "results")
    assert [c.contradiction for c in claims if c.contradiction] == []
    assert len(claims) >= 14
    assert all(c.run for c in claims)


def test_the_page_is_what_the_records_give() -> None:
    page = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    assert page == verdict_page(ROOT / "results"), "run `python docs/make_pages.py`"
