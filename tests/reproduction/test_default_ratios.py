"""Defaults of classical models: ratios to the best setting tried, and what other logs choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docs.ratio_tables import ratio_table, ratio_text
from leporid import models
from leporid.foundation import read_json
from reproduction.default_ratios import default_ratios, without_the_log

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "classical_defaults.json"


def trial(log: str, l2: float, value: float, windowed: float = 0.0) -> dict[str, Any]:
    valid = {"None": value, "5": windowed}
    return {"log": log, "model": "ease", "settings": {"l2": l2}, "valid": valid}


def made(trials: list[dict[str, Any]], **defaults: float) -> dict[str, Any]:
    names = {"a_random": "a, no order"}
    rows = [
        {"log": names.get(log, log), "model": "ease", "window": None, "valid": value}
        for log, value in defaults.items()
    ]
    return {"rows": rows, "trials": trials}


def test_the_best_is_over_settings_windows_and_the_default() -> None:
    trials = [trial("a", 1.0, 0.5, 0.8), trial("a", 1.0, 0.5, 0.8), trial("b", 1.0, 0.2)]
    rows = {row.log: row for row in default_ratios(made(trials, a=0.4, b=0.3, c=0.1))}
    assert rows["a"].ratio == pytest.approx(0.5)
    assert rows["a"].tried == 2  # The same trial twice counts once.
    assert (rows["b"].best, rows["b"].ratio) == (0.3, 1.0)
    assert (rows["c"].tried, rows["c"].ratio) == (0, 1.0)
    table = ratio_table(list(rows.values()))
    assert "| ease | (**50.0**) | (100) | - |" in table
    text = " ".join(ratio_text(list(rows.values())).split())
    assert "1 of 2 pairs reach 90%" in text
    assert "none was tried for ease on c." in text


def test_a_log_has_no_say_in_its_own_choice() -> None:
    """Setting 2 is best on `a` alone, in both of its splits; `b` and `c` choose 1."""
    trials = [trial(log, 1.0, 0.9) for log in ("b", "c")]
    trials += [trial(log, 2.0, 0.8) for log in ("b", "c")]
    trials += [trial(log, 1.0, 0.3) for log in ("a", "a, no order")]
    trials += [trial(log, 2.0, 1.0) for log in ("a", "a, no order")]
    found = {
        row.log: row for row in without_the_log(made(trials, a=0.6, a_random=0.6, b=0.6, c=0.6))
    }
    for log in ("a", "a, no order"):
        assert found[log].settings == {"l2": 1.0}
        assert found[log].ratio == pytest.approx(0.3)
        assert found[log].default == pytest.approx(0.6)
    # The two splits of `a` and `c` choose for `b`.
    assert found["b"].settings == {"l2": 2.0}


def test_only_settings_that_were_tried_everywhere_are_chosen() -> None:
    trials = [trial(log, l2, 0.5 + l2 / 100) for log in "abc" for l2 in (1.0, 2.0)]
    trials += [trial(log, 3.0, 1.0) for log in "ab"]
    rows = without_the_log(made(trials, a=0.5, b=0.5, c=0.5))
    assert [(row.settings["l2"], row.candidates) for row in rows] == [(2.0, 2)] * 3


def test_a_choice_keeps_the_window_of_the_default() -> None:
    trials = [trial(log, 1.0, 0.9, 0.1) for log in "abc"]
    trials += [trial(log, 2.0, 0.1, 1.0) for log in "abc"]
    rows = without_the_log(made(trials, a=0.5, b=0.5, c=0.5))
    assert [row.settings["l2"] for row in rows] == [1.0] * 3
    assert rows[0].ratio == pytest.approx(0.9)


def test_the_record_has_every_pair_and_what_its_rows_say() -> None:
    record = read_json(RECORD)
    rows = default_ratios(record)
    assert len(rows) == 99
    for row, written in zip(rows, record["rows"], strict=True):
        assert row.ratio == pytest.approx(written["of the best setting tried"], abs=6e-4)


def test_every_default_is_among_the_settings_that_can_be_chosen() -> None:
    lacking = {row["model"] for row in read_json(RECORD)["rows"]}
    for t in read_json(RECORD)["trials"]:
        default = models.get(t["model"]).config_class().to_dict()
        if all(default[key] == value for key, value in t["settings"].items()):
            lacking.discard(t["model"])
    assert not lacking
