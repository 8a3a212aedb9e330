"""What one change does to sequence models, and rules for the gain of the linear part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reproduction.sequence_tables import (
    BEST,
    GAIN_RULES,
    NONE,
    RECORDS,
    changes_table,
    chosen_without,
    distance,
    gain_rules_table,
    read_runs,
)

RESULTS = Path(__file__).parents[2] / "results"


def run(log: str, model: str, change: dict[str, Any], value: float, **more: Any) -> dict[str, Any]:
    about = {"dataset": log, "model": model, "change": change, "part": "valid"}
    return {**about, "valid": {"NDCG@10": value}, "by_gain": {"0.0": value}, **more}


def inner(log: str, valid: dict[str, float], later: dict[str, float]) -> dict[str, Any]:
    found = run(log, "sasrec", {}, valid["0.0"], part="inner", later=later, auto=0.0, level=2.0)
    return found | {"by_gain": valid}


def write(folder: Path, *runs: dict[str, Any]) -> Path:
    (folder / RECORDS).write_text(json.dumps({"runs": runs}))
    return folder


def test_a_change_is_compared_with_the_same_run_without_it(tmp_path: Path) -> None:
    wide = {"dim": 128, "hidden": 128}
    runs = [run("a", "sasrec", {}, 0.10), run("a", "sasrec", wide, 0.12)]
    runs += [run("b", "sasrec", wide, 0.5), run("a", "sasrec_levers", wide | {"mixing": 0.3}, 0.09)]
    text = changes_table(write(tmp_path, *runs))
    assert "| sasrec | dim 128, hidden 128 | +20.0 |  |" in text
    assert "| sasrec dim 128, hidden 128 | mixing 0.3 | -25.0 |  |" in text


def test_a_rule_is_as_good_as_what_it_brings_later(tmp_path: Path) -> None:
    first = inner(
        "a", {"0.0": 0.1, "2.0": 0.3, "4.0": 0.2}, {"0.0": 0.1, "1.0": 0.1, "2.0": 0.1, "4.0": 0.2}
    )
    other = inner("b", {"0.0": 0.3, "2.0": 0.1, "4.0": 0.1}, {"0.0": 0.4, "2.0": 0.2, "4.0": 0.1})
    runs = read_runs(write(tmp_path, first, other), "inner")
    assert distance(runs[0], GAIN_RULES[BEST]) == pytest.approx(0.5)
    assert distance(runs[1], GAIN_RULES[NONE]) == 1.0
    assert chosen_without(runs, "a") == NONE
    assert f"| {BEST} | 75.0% | 50.0% |" in gain_rules_table(tmp_path)


def test_the_tables_are_what_the_records_give() -> None:
    shown = (RESULTS / "README.md").read_text(encoding="utf-8")
    for table in (changes_table(RESULTS), gain_rules_table(RESULTS)):
        assert table in shown, "run `python -m reproduction sequence-settings`"


def test_the_rule_of_the_library_is_the_one_that_all_other_logs_choose() -> None:
    runs = read_runs(RESULTS, "inner")
    assert {
        chosen_without(runs, log) for log in {r["dataset"].partition(",")[0] for r in runs}
    } == {BEST}
