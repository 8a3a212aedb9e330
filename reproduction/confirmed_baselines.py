"""`python -m reproduction confirm-classical`: the best trials of a record, on all validation users.

benchmarks/records/classical_defaults.json holds trials of the classical models on a sample of the
validation users. The best of them are evaluated on all, beside what the experiment `baselines`
holds of the same model: its own search has chosen that one. If another is better, it is tested
once and replaces that record; if not, its metrics stay. Both kinds of trials are counted.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leporid import models
from leporid.data import Split
from leporid.errors import DataError
from leporid.evaluation import evaluate
from leporid.runs import RunRecord, record_of
from reproduction.store import PackedResults
from reproduction.tuned_baselines import BASELINES, fit_and_record

METRIC = "NDCG@10"
TRIALS = Path(__file__).parents[1] / "benchmarks" / "records" / "classical_defaults.json"
CONFIRMED = 5
"""Settings with their windows that are evaluated on all users, beside the one there is."""


def confirm_classical(
    split: Split,
    dataset: str,
    root: str | Path,
    trials: Sequence[Mapping[str, Any]],
    *,
    names: Sequence[str] | None = None,
) -> Iterator[tuple[RunRecord, bool]]:
    """For each model the record of `baselines`, and whether another setting has won.

    A model whose record counts as many trials already is left alone.
    """
    results = PackedResults(root)
    there = {record.model: record for record in results.records(dataset, [BASELINES])}
    own = [trial for trial in trials if trial["log"] == dataset]
    for name in dict.fromkeys(trial["model"] for trial in own):
        if name in (names or [name]):
            if there[name].extra["data_digest"] != split.digest:
                raise DataError(f"{name} was tested on another split of {dataset}")
            tried = [trial for trial in own if trial["model"] == name]
            yield from _confirm(split, there[name], tried, results)


def _confirm(
    split: Split, there: RunRecord, tried: Sequence[Mapping[str, Any]], results: PackedResults
) -> Iterator[tuple[RunRecord, bool]]:
    facts = there.extra["tuning"]
    earlier = facts.get("earlier", facts)
    count = earlier["trials"] + sum(len(trial["valid"]) for trial in tried)
    if facts["trials"] == count:
        return
    began = time.perf_counter()
    found: list[dict[str, Any]] = [{"settings": there.config, "value": there.valid_metrics[METRIC]}]
    found += _on_all_users(split, there.model, best_trials(tried), there.seed)
    seconds = time.perf_counter() - began + earlier["seconds"]
    best = max(found, key=lambda candidate: candidate["value"])  # of equal ones the one there is
    tuning = {
        "metric": METRIC,
        "best_value": best["value"],
        "trials": count,
        "seconds": seconds + sum(trial["fit_seconds"] for trial in tried),
        "candidates": found,
        "earlier": earlier,
    }
    if best is found[0]:
        record, table = there, results.outcomes(there.key)
        record = dataclasses.replace(record, extra=record.extra | {"tuning": tuning})
    else:
        run = fit_and_record(
            models.get(there.model)(**best["settings"]),
            split,
            dataset=there.dataset,
            experiment=BASELINES,
            seed=there.seed,
            extra={"tuning": tuning},
        )
        record, table = record_of(run), run.test
    results.add(record, table)
    if record.key != there.key:
        results.remove([there.key])
    results.pack()
    yield record, best is not found[0]


def best_trials(tried: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The best settings of a model on a log, each with its window."""
    found = [
        (value, {**trial["settings"], "window": None if window == "None" else int(window)})
        for trial in tried
        for window, value in trial["valid"].items()
    ]
    ranked = sorted(found, key=lambda one: (-one[0], json.dumps(one[1], sort_keys=True)))
    return [settings for _, settings in ranked[:CONFIRMED]]


def _on_all_users(
    split: Split, model: str, candidates: Sequence[Mapping[str, Any]], seed: int
) -> list[dict[str, Any]]:
    """The validation value of each; those that differ in the window alone share a fit."""
    windows: dict[str, list[int | None]] = {}
    for candidate in candidates:
        settings = {name: value for name, value in candidate.items() if name != "window"}
        windows.setdefault(json.dumps(settings), []).append(candidate["window"])
    found = []
    for fixed, tried in windows.items():
        settings = json.loads(fixed)
        fitted = models.get(model)(**settings, window=tried[0]).fit(split, seed=seed)
        for window in tried:
            fitted.config = fitted.config.replace(window=window)
            table = evaluate(fitted, split, at=(10,), part="valid", metrics=("NDCG",))
            value = table.mean()[METRIC]
            found.append({"settings": {**settings, "window": window}, "value": value})
    return found
