"""When random walks should make the targets of an item sum to 1 (`normalize`), by validation.

`python -m benchmarks.walk_normalize --data FOLDER` fits P3alpha and RP3beta with and without it on
logs, on lower cores and on shares of their users or interactions, and writes both beside the
interactions that the users of an item have in all.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import write_record

LOGS = (
    ("beauty", 1, 1, 1), ("toys", 1, 1, 1), ("lastfm", 1, 1, 1), ("lastfm", 2, 1, 0.4),
    ("lastfm", 2, 0.4, 1), ("movietweetings-100k", 2, 1, 1), ("movietweetings-100k", 3, 1, 1),
    ("movietweetings-100k", 5, 1, 1), ("movietweetings-100k", 10, 1, 1), ("ml-100k", 1, 1, 1),
    ("ml-100k", 2, 0.1, 1), ("ml-100k", 2, 1, 0.2), ("ml-1m-r3", 20, 1, 1),
    ("ml-1m-r3", 2, 0.05, 1), ("tafeng", 1, 1, 1), ("tafeng", 2, 1, 0.3), ("tafeng", 2, 0.2, 1),
    ("steam-200k", 1, 1, 1), ("steam-200k", 5, 1, 1), ("steam-200k", 2, 0.2, 1),
    ("steam-200k", 5, 0.1, 1), ("steam-200k", 5, 1, 0.4), ("anime-5k", 20, 1, 1),
    ("anime-5k", 2, 0.1, 1), ("anime-5k", 2, 1, 0.1), ("anime-5k", 2, 0.2, 0.2),
)  # fmt: skip
"""File, k-core, share of the users and share of the interactions."""
SETTINGS: dict[str, dict[str, Any]] = {
    "p3alpha": {"alpha": 0.5, "top_k": 75},
    "rp3beta": {"alpha": 0.5, "beta": 0.2, "top_k": 100},
}
USERS = 2000
"""Users of the validation part that are evaluated, at most."""


def split_of(data: Path, file: str, core: int, users: float, interactions: float) -> Any:
    """A share of a log, split by time where it has times; some users in its validation part."""
    import leporid

    log, rng = leporid.load(data / f"{file}.parquet", progress=False), np.random.default_rng(1)
    if users < 1:
        some = rng.choice(log.n_users, int(users * log.n_users), replace=False)
        log = log.select(np.isin(log.user, some))
    if interactions < 1:
        log = log.select(rng.random(len(log)) < interactions)
    log = log.core(core)
    split = leporid.temporal_split(log) if log.has_order else leporid.random_split(log)
    asked = np.unique(split.valid.user)
    some = np.random.default_rng(0).choice(asked, min(USERS, len(asked)), replace=False)
    return dataclasses.replace(split, valid=split.valid.select(np.isin(split.valid.user, some)))


def row(data: Path, file: str, core: int, users: float, interactions: float) -> dict[str, Any]:
    """One line of the table."""
    import leporid

    split = split_of(data, file, core, users, interactions)
    lengths = np.bincount(split.train.user, minlength=split.n_users)
    pairs = float((lengths.astype(float) ** 2).sum()) / split.n_items
    found: dict[str, Any] = {"log": file, "core": core, "share of users": users}
    found |= {"of interactions": interactions, "users": split.n_users, "items": split.n_items}
    found["interactions of an item's users"] = round(pairs)
    for model, settings in SETTINGS.items():
        values = []
        for normalize in (True, False):
            how = {"normalize": normalize, "progress": False, **settings}
            fitted = leporid.train(model, split, **how)
            table = leporid.evaluate(fitted, split, at=(10,), part="valid", metrics=("NDCG",))
            values.append(round(table.mean()["NDCG@10"], 4))
        found[f"{model}, sum 1"], found[f"{model}, as they are"] = values
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    rows = [row(folder, *log) for log in LOGS]
    write_record(
        "walk_normalize",
        sorted(rows, key=lambda found: found["interactions of an item's users"]),
        {**SETTINGS, "users": USERS},
        ["NDCG@10 on validation; the test part is not read.", "Shares are drawn with one seed."],
    )
