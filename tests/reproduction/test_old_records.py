"""Committed records of earlier versions are found under what is asked for now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leporid.foundation import canonical_hash
from leporid.runs import RunRecord, read_experiment
from reproduction.old_records import read_record
from reproduction.specs import LEADERBOARD, paper_spec
from reproduction.store import PackedResults
from tests.experiments.records import record

RESULTS = Path(__file__).parents[2] / "results"
CELL: dict[str, Any] = {"model": "dlr2", "settings": {"frozen_starts": False}, "seed": 1}


def stored(cell: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """A packed line; `cell` is the request it was made for."""
    extra: dict[str, Any] = {} if cell is None else {"cell": cell}
    values = record("dlr2", "leporid", 1, 0.5).to_dict() | {"extra": extra}
    return {**values, "spec_hash": canonical_hash(cell, 12), **changes}


def test_a_request_says_its_metric_and_settings_by_their_present_names() -> None:
    key, found = read_record(stored(CELL))
    request = {**CELL, "metric": "F1@10", "settings": {"freeze_init": False}}
    assert found.extra["cell"] == request
    assert found.spec_hash == canonical_hash(request, 12)
    assert key == found.key.replace(found.spec_hash, canonical_hash(CELL, 12))


@pytest.mark.parametrize(
    ("model", "old", "present"),
    [
        (
            "dlr2",
            {"passes": 3.0, "length": 5, "profile": 50, "gain": True, "padding": "blank"},
            {
                "epochs": 3.0,
                "max_history": 5,
                "profile_items": 50,
                "learn_input_scale": True,
                "padding": "mask",
            },
        ),
        ("dlr2", {"new_people": "placed"}, {"new_users": "neighbours"}),
        (
            "dlr2",
            {"new_users": "blank", "padding": "none"},
            {"new_users": "mask", "padding": "none"},
        ),
        ("sasrec", {"length": 50, "hidden": 64}, {"max_history": 50, "hidden": 64}),
        ("hgn", {"history": 3, "linear_gain": 0.0}, {"max_history": 3, "linear_weight": 0.0}),
        ("ease", {"window": 5}, {"window": 5}),
    ],
)
def test_renamed_settings_and_choices_are_read_by_their_present_names(
    model: str, old: dict[str, Any], present: dict[str, Any]
) -> None:
    cell = {"model": model, "metric": "NDCG@10", "settings": old, "seed": 1}
    _, found = read_record(stored(cell, model=model, config=old))
    assert found.config == present
    assert found.extra["cell"] == {**cell, "settings": present}
    assert found.spec_hash == canonical_hash(found.extra["cell"], 12)


@pytest.mark.parametrize(
    ("init", "old", "present"),
    [
        ("leporid", {"lengths": "unit", "k": 5}, {"row_norm": "unit", "k": 5}),
        ("leporid_content", {"enough": 3.0}, {"min_interactions": 3.0}),
        ("node2vec", {"length": 80}, {"length": 80}),
    ],
)
def test_renamed_settings_of_initialisers_are_read_by_their_present_names(
    init: str, old: dict[str, Any], present: dict[str, Any]
) -> None:
    cell = {**CELL, "metric": "NDCG@10", "init": init, "init_settings": old}
    _, found = read_record(stored(cell))
    assert found.extra["cell"]["init_settings"] == present
    assert found.spec_hash == canonical_hash(found.extra["cell"], 12)


def test_a_run_filed_under_another_hash_keeps_its_key() -> None:
    key, found = read_record(stored(CELL, spec_hash="by-hand"))
    assert (found.spec_hash, found.key) == ("by-hand", key)
    assert found.extra["cell"]["metric"] == "F1@10"


@pytest.mark.parametrize("cell", [None, {"variant": "frozen"}])
def test_without_a_request_the_key_stays(cell: dict[str, Any] | None) -> None:
    key, found = read_record(stored(cell))
    assert found.key == key
    assert found.extra.get("cell") == cell


@pytest.mark.parametrize(
    ("model", "seen"),
    [("ease", "train only"), ("bpr", "train only"), ("sasrec", "train and validation")],
)
def test_a_record_from_before_says_what_its_model_had_seen(model: str, seen: str) -> None:
    _, found = read_record(stored(None, model=model))
    assert found.seen == seen


def test_a_record_in_its_present_form_is_not_changed() -> None:
    present = {**CELL, "metric": "F1@10", "settings": {"freeze_init": False}}
    for cell in (None, present):
        line = stored(cell)
        line["extra"]["seen"] = "train only"
        assert read_record(line)[1] == RunRecord.from_dict(line)


def test_the_committed_runs_of_a_grid_are_found_by_its_cells_with_their_outcomes() -> None:
    results = PackedResults(RESULTS)
    [board] = [spec for spec in read_experiment(LEADERBOARD) if spec.dataset == "ml-100k"]
    authors = paper_spec("authors", "ml-1m-r3", seeds=(1, 2, 3, 4, 5))
    for spec, count in ((board, 20), (authors, 40)):
        found = [run for cell in spec.cells() if (run := results.get(cell.key))]
        assert len(found) >= count
        assert all(results.outcomes(run.key) for run in found)


def test_no_committed_record_hides_another() -> None:
    results = PackedResults(RESULTS)
    for path in RESULTS.glob("*.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines()
        experiments = {line.split('"experiment":"', 1)[1].split('"', 1)[0] for line in lines}
        assert len(results.records(path.stem, sorted(experiments))) == len(lines)
