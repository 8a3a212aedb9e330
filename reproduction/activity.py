"""How active each tested user is, so that stored hits can be compared for tail users alone.

Outcomes keep the hits of each user, not how much training data the user has. The file `QUARTILES`
holds that once for every split, by the digest of its parts: the quartile of activity (1: tail
users) of each user with test items, in the order of the outcomes.

python -m reproduction activity --dataset ml-1m --source FILE
"""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.data import Split
from leporid.evaluation import MetricTable, evaluate, user_stratum
from leporid.foundation import read_json, write_json

QUARTILES = "activity-quartiles.json"
"""In the folder of results: {digest: {"dataset", "quartiles"}}."""
TAIL = 1
"""The quartile of tail users."""
NAMES = tuple(f"activity-q{i}" for i in range(1, 5))


def outcomes_of_nothing(split: Split) -> MetricTable:
    """The evaluation of a model that scores all items alike: it has the users that are tested."""

    def nothing(users: NDArray[np.int32], known: Any) -> NDArray[np.float32]:
        return np.zeros((len(users), split.n_items), np.float32)

    return evaluate(nothing, split, at=(1,), metrics=["HR"])


def quartiles_of(table: MetricTable) -> NDArray[np.int32]:
    """The quartile of activity, 1 to 4, of each user of an evaluation."""
    quartile = np.zeros(len(table.activity), np.int32)
    for number, name in enumerate(NAMES, start=1):
        quartile[user_stratum(name, table.activity)] = number
    return quartile[table.user]


def read_quartiles(root: str | Path) -> dict[str, NDArray[np.int32]]:
    """The quartiles of the users of every split on file, by its digest."""
    path = Path(root) / QUARTILES
    found = read_json(path) if path.is_file() else {}
    return {digest: unpacked(one["quartiles"]) for digest, one in found.items()}


def add_quartiles(root: str | Path, dataset: str, split: Split) -> None:
    """Put the quartiles of a split on file."""
    path = Path(root) / QUARTILES
    found = read_json(path) if path.is_file() else {}
    quartiles = packed(quartiles_of(outcomes_of_nothing(split)))
    found[split.digest] = {"dataset": dataset, "quartiles": quartiles}
    write_json(path, found)


def packed(values: NDArray[np.int32]) -> str:
    """Whole numbers as text: zlib, then base 64."""
    return base64.b64encode(zlib.compress(values.astype("<i4").tobytes(), 9)).decode("ascii")


def unpacked(text: str) -> NDArray[np.int32]:
    """The inverse of `packed`."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<i4").astype(np.int32)
