"""The rules of `general`, each log left out once: pairs of runs, sides, choices and costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reproduction.general_rules import Rule, leave_one_out, rules, rules_table

SIZES = {"toys": (9_000, 1_000), "beauty": (8_000, 1_000), "lastfm": (60_000, 1_000)}
"""Interactions and users: the first two have short histories. Each has 500 items."""


def run(log: str, penalty: float, value: float, seed: int = 1) -> dict[str, Any]:
    about = {"dataset": log, "model": "bpr", "init": "leporid", "seed": seed}
    return {**about, "settings": {"regularization": penalty}, "valid": {"NDCG@10": value}}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    parts = {
        str(i): {"dataset": log, "interactions": size[0], "users": size[1], "items": 500}
        for i, (log, size) in enumerate(SIZES.items())
    }
    (tmp_path / "training-parts.json").write_text(json.dumps(parts))
    runs = [run("toys", 0.01, 0.10), run("toys", 0.03, 0.12), run("toys", 0.1, 0.50)]
    runs += [run("beauty", 0.01, 0.10), run("beauty", 0.03, 0.09)]
    runs += [run("lastfm", 0.01, 0.10), run("lastfm", 0.03, 0.05), run("lastfm", 0.03, 0.5, 2)]
    tried = {"general-rules": runs, "dlr2-general": [], "pair-models": []}
    tried = {name: {"runs": own} for name, own in tried.items()}
    (tmp_path / "exploration.json").write_text(json.dumps(tried))
    return tmp_path


def test_logs_on_the_same_side_choose(results: Path) -> None:
    rows = {row.log: row for row in leave_one_out(results)}
    assert rows.keys() == SIZES.keys()
    # A penalty beyond the rule's and a run with another seed are no pairs.
    assert {row.pairs for row in rows.values()} == {1}
    toys, beauty, lastfm = (rows[log] for log in SIZES)
    assert toys.in_place
    assert not toys.chosen  # Beauty loses by the rule.
    assert toys.cost == pytest.approx(-0.2)
    assert beauty.chosen
    assert beauty.short_of_best == pytest.approx(-0.1)
    assert not lastfm.in_place
    # No other log has long histories: the two others, +20% and -10%, choose.
    assert (lastfm.others, lastfm.alike, lastfm.chosen) == (2, False, True)
    assert lastfm.cost == pytest.approx(-0.5)
    assert "| bpr, short histories | lastfm | default | -50.0% | 1 (1) |" in rules_table(results)


def test_every_rule_of_the_recipe_is_there() -> None:
    assert Rule("dlr2", "large without order") in rules()
    assert Rule("sasrec", "large").settings == {"dim": 128, "hidden": 128}  # and not `eval_every`
    assert all(rule.settings for rule in rules())


def test_the_records_answer_for_each_rule_on_two_logs_or_more() -> None:
    rows = leave_one_out(Path(__file__).parents[2] / "results")
    for rule in rules():
        assert len([row for row in rows if row.rule == rule and row.others]) >= 2, rule


def test_the_table_is_what_the_records_give() -> None:
    results = Path(__file__).parents[2] / "results"
    shown = (results / "README.md").read_text(encoding="utf-8")
    assert rules_table(results) in shown, "run `python -m reproduction general-rules`"
