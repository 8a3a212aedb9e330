"""Settings of `transitions` on logs with an order, and other classical models, by validation alone.

`python -m benchmarks.transition_settings --data FOLDER --journal FILE` fits every setting below on
every log and scores a sample of the validation users. For each log it also writes what the other
logs would have chosen. The test part is not read. What FILE has is not computed again.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np

import leporid
from benchmarks.classical_defaults import split_of
from benchmarks.harness import Journal, timed, write_record
from benchmarks.transition_published import CONSTANTS
from leporid.data import Split
from leporid.foundation import SettingValue

LOGS = {
    "beauty": 1,
    "toys": 1,
    "lastfm": 1,
    "movietweetings-100k": 10,
    "ml-1m": 20,
    "ml-1m-r3": 20,
    "tafeng": 1,
}
"""The core filter of each log."""
SAME_SOURCE = {"ml-1m": "ml-1m-r3", "ml-1m-r3": "ml-1m"}
"""Logs made of the same ratings; they are left out together."""
USERS = 3000
"""Users of the validation part that are evaluated, at most."""
CLASSICAL = ("itemknn", "ease", "slim")
PENALTIES = (0.0005, 0.001, 0.003, 0.005, 0.01)
"""Other sizes of a negative `popularity` for each mean interaction of an item; at most .2."""
SETTINGS: dict[str, dict[str, SettingValue]] = {
    "default": {},
    "published for Beauty": CONSTANTS["beauty"],
    "published for Toys": CONSTANTS["toys"],
    "published for ML-1M": CONSTANTS["ml-1m"],
    "tau 150": {"tau": 150.0},
    "tau 3,000": {"tau": 3000.0},
    "tau 12,000": {"tau": 12_000.0},
    "tau 30,000": {"tau": 30_000.0},
    "distance 1 (Markov chain)": {"distance": 1},
    "distance 5": {"distance": 5},
    "distance 20": {"distance": 20},
    "exponent .25": {"exponent": 0.25},
    "exponent 1": {"exponent": 1.0},
    "geometric .8": {"distance_weights": "geometric", "distance": 20},
    "decay .5": {"recency_decay": 0.5},
    "decay .8": {"recency_decay": 0.8},
    "decay .7 throughout": {"recent": None, "recency_decay": 0.7},
    "share 0": {"older_share": 0.0},
    "share .1": {"older_share": 0.1},
    "popularity 0": {"popularity": 0.0},
    "popularity .01": {"popularity": 0.01},
    "popularity -.04": {"popularity": -0.04},
    "popularity -.2": {"popularity": -0.2},
    "popularity -.4": {"popularity": -0.4},
}


def sampled_split(data: Path, log: str) -> Split:
    """The temporal split of a log with at most `USERS` users in its validation part."""
    split = split_of(data, log, LOGS[log], "temporal")
    users = np.unique(split.valid.user)
    if len(users) > USERS:
        users = np.random.default_rng(0).choice(users, USERS, replace=False)
    valid = split.valid.select(np.isin(split.valid.user, users))
    return dataclasses.replace(split, valid=valid)


def value_and_seconds(
    split: Split, model: str, settings: dict[str, SettingValue]
) -> tuple[float, float]:
    """NDCG@10 on validation, and the seconds of the fit."""
    seconds, fitted = timed(lambda: leporid.train(model, split, progress=False, **settings))
    table = leporid.evaluate(fitted, split, at=(10,), part="valid", metrics=("NDCG",))
    return table.mean()["NDCG@10"], seconds


def settings_for(split: Split) -> dict[str, dict[str, SettingValue]]:
    """`SETTINGS`, and the other sizes of the penalty that the default derives from the data."""
    per_item = len(split.train) / split.n_items
    penalties: dict[str, dict[str, SettingValue]] = {
        f"popularity -{size} per interaction": {"popularity": -min(size * per_item, 0.2)}
        for size in PENALTIES
    }
    return SETTINGS | penalties


def fill(journal: Journal, split: Split, log: str, model: str) -> None:
    """Add the values of `transitions` for every setting, or of another model with its defaults."""
    trials = settings_for(split) if model == "transitions" else {model: {}}
    for name, settings in trials.items():
        if not journal.has(log=log, name=name):
            value, seconds = value_and_seconds(split, model, settings)
            found = {"value": round(value, 4), "seconds": round(seconds, 2)}
            journal.add({"log": log, "name": name} | found)


def row(journal: Journal, log: str) -> dict[str, float | str]:
    """All values of one log, and the seconds of fits with default settings."""
    found: dict[str, float | str] = {"log": log}
    for trial in journal.rows:
        if trial["log"] == log:
            name = trial["name"]
            found[name] = trial["value"]
            if name in ("default", *CLASSICAL):
                found[f"{name}, seconds"] = trial["seconds"]
    return found


def shares_of_best(rows: list[dict[str, float | str]]) -> dict[str, list[float]]:
    """By setting, its value on each log as a share of the best setting there."""
    names = [*SETTINGS, *(f"popularity -{size} per interaction" for size in PENALTIES)]
    best = [max(float(found[name]) for name in names) for found in rows]
    return {
        name: [float(found[name]) / most for found, most in zip(rows, best, strict=True)]
        for name in names
    }


def add_choices_of_the_others(rows: list[dict[str, float | str]]) -> None:
    """Write to each row the default's share of the best, the others' choice, and its share."""
    shares = shares_of_best(rows)
    logs = [str(found["log"]) for found in rows]
    for place, found in enumerate(rows):
        left_out = {logs[place], SAME_SOURCE.get(logs[place])}
        others = [other for other, log in enumerate(logs) if log not in left_out]
        sums = {name: sum(of[other] for other in others) for name, of in shares.items()}
        choice = max(sums, key=sums.__getitem__)
        found["default, of the best"] = round(shares["default"][place], 3)
        found["what the other logs choose"] = choice
        found["their choice, of the best"] = round(shares[choice][place], 3)


def by_setting(rows: list[dict[str, float | str]]) -> list[dict[str, float | str]]:
    """The rows turned: one for every setting, model or fact, with a column for each log."""
    names = [name for name in rows[0] if name != "log"]
    return [
        {"NDCG@10 of": name, **{str(found["log"]): found[name] for found in rows}} for name in names
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True, help="Finished values.")
    arguments = parser.parse_args()
    for model in ("transitions", *CLASSICAL):  # kernels are compiled before they are timed
        leporid.train(model, sampled_split(arguments.data, "lastfm"), progress=False)
    journal = Journal(arguments.journal)
    for model in ("transitions", *CLASSICAL):
        for log in LOGS:
            fill(journal, sampled_split(arguments.data, log), log, model)
    rows = [row(journal, log) for log in LOGS]
    add_choices_of_the_others(rows)
    write_record(
        "transition_settings",
        by_setting(rows),
        {"validation users at most": USERS},
        [
            "NDCG@10 on validation; the test part is not read.",
            "Settings that are not named are the defaults of `transitions`; slim, ease and itemknn "
            "have theirs.",
            "Seconds of a fit with compiled kernels, on cores shared with other programs.",
        ],
    )
