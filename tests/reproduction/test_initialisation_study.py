"""The study of initialisations: its cells, the order they are run in, its model and its tables."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import leporid
from leporid.models import train
from reproduction.study_cells import STUDY, StudyCell, cells, shuffled
from reproduction.study_runner import _Queue
from reproduction.study_tables import Study, _t_test, steps_to, tables
from reproduction.two_tower import TwoTower

ROOT = Path(__file__).resolve().parents[2]


def cell(log: str, init: str = "random", seconds: float = 1.0) -> StudyCell:
    return StudyCell(
        log=log, model="bpr", recipe="general", variant="", init=init, seed=1,
        expected_seconds=seconds,
    )  # fmt: skip


def test_every_cell_is_there_once_and_has_five_seeds() -> None:
    every = list(cells())
    assert len({one.key for one in every}) == len(every)
    groups: dict[tuple[str, str], set[int]] = {}
    for one in every:
        groups.setdefault((one.kind, one.init), set()).add(one.seed)
    assert set(map(frozenset, groups.values())) == {frozenset({1, 2, 3, 4, 5})}
    assert {one.init for one in every[:6]} == set(STUDY["inits"])
    assert {one.seed for one in every[:6]} == {1}


def test_a_cell_waits_for_its_vectors_and_for_time_enough() -> None:
    todo = [cell("a", "le"), cell("b", seconds=1e6), cell("c")]
    queue = _Queue(list(todo), end=time.monotonic() + 1000)
    assert queue.next() == ("a", "le")
    assert queue.next() == todo[2]  # the vectors of the first are not ready, the second is too long
    assert queue.next() is None
    queue.finished(("a", "le"), 1.0, failed=False)
    assert queue.next() == todo[0]
    queue.finished(todo[0], 2.0, failed=False)
    assert queue.longest == {todo[0].kind: 2.0}
    assert queue.todo == [todo[1]]


def test_shuffled_rows_are_the_same_rows_and_zeros_stay() -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    vectors[[4, 9]] = 0
    found = shuffled(vectors, np.random.default_rng(1))
    assert not found[[4, 9]].any()
    assert not np.array_equal(found, vectors)
    assert sorted(map(tuple, found)) == sorted(map(tuple, vectors))


def test_steps_are_counted_to_99_per_cent_of_the_random_run() -> None:
    def run(*curve: tuple[int, float]) -> Any:
        return SimpleNamespace(extra={"curve": [[step, metric, 0.0] for step, metric in curve]})

    base = run((100, 0.5), (200, 0.99), (300, 1.0))
    assert steps_to(run((100, 0.995), (200, 1.2)), base) == (100, 200)
    assert steps_to(run((100, 0.2)), base) == (None, 200)
    found = _t_test([np.log(0.5), np.log(0.6), np.log(0.4)], "a")
    assert found.outcome == "worse"
    assert _t_test([np.log(0.5)], "a").outcome == "inconclusive"
    assert _t_test([0.0, 0.0], "a").outcome == "inconclusive"
    assert _t_test([-0.5, -0.5], "a").outcome == "worse"


def test_two_towers_learn_with_frozen_vectors() -> None:
    split = leporid.temporal_split(leporid.synthesize(120, 60, 3000, seed=4))
    vectors = leporid.initializers.get("svd")(dim=8).fit(split.train)
    asked: dict[str, Any] = {"device": "cpu", "progress": False, "dim": 8, "seed": 1}
    model: Any = train(TwoTower, split, vectors, steps=60, eval_every=20, **asked)
    assert model.training_summary()["drift"] == [0.0, 0.0]
    net, users = model.net, torch.arange(5)
    with torch.no_grad():
        expected = net.user_map(net.users(users)) @ net.item_map(net.items.weight).T
    np.testing.assert_allclose(model.score(users.numpy()), expected.numpy(), rtol=1e-5, atol=1e-6)
    losses = [row["loss"] for row in model.history.rows]
    assert losses[-1] < losses[0]


def test_comparisons_need_all_five_seeds() -> None:
    study = Study(ROOT / "results")
    assert all(len(group.runs) == 5 for group in study.groups.values())
    assert study.left_out
    name = next(iter(study.left_out))
    log, _, rest = name.partition(": ")
    kind, _, init = rest.partition(" from ")
    assert study.compare(log, kind, init, "random") is None


def test_the_quartiles_are_those_that_the_runs_had() -> None:
    study = Study(ROOT / "results")
    group = study.groups["lastfm", "sasrec general", "leporid"]
    for run in group.runs.values():
        outcomes = study.results.outcomes(run.key)
        assert outcomes is not None
        mean = outcomes.per_user("NDCG@10").mean()
        assert mean == pytest.approx(run.metrics["NDCG@10"], abs=1e-9)
        for number in (1, 4):
            found = study._values(run, "NDCG@10", number).mean()
            expected = run.extra["quartiles"][f"activity-q{number}"]["NDCG@10"]
            assert found == pytest.approx(expected, abs=1e-9)


def test_the_page_shows_the_tables_of_the_records() -> None:
    page = (ROOT / "docs" / "initialisation.md").read_text(encoding="utf-8")
    for name, table in tables(ROOT / "results").items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        shown = page.partition(begin)[2].partition(end)[0].strip()
        assert shown == table, f"{name}: run `python docs/make_pages.py`"
