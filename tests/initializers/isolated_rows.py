"""Rows without interactions, of every initialiser: run as a program, once per kind of processor.

`python -m tests.initializers.isolated_rows USERS ITEMS` prints JSON: for every initialiser and
side the rows without interactions and content, the rows of zeros, and the rows counted.
OPENBLAS_CORETYPE chooses the kernels of LAPACK, and has to be set before numpy is loaded.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from leporid import initializers
from leporid.data import Interactions
from tests.initializers.helpers import make_interactions

SETTINGS: dict[str, dict[str, Any]] = {
    "svd": {},
    "bpr": {"epochs": 1},
    "netmf": {"k": 30, "rank": 32},
    "node2vec": {"walks": 1, "length": 6, "epochs": 1},
    "graph_bert": {"steps": 2, "batch": 32, "tolerance": 1e-2},
    "le": {"k": 30},
    "leporid": {"k": 30},
    "content": {},
    "leporid_content": {"k": 30},
}
"""The quickest fits: what a row without interactions gets does not depend on them."""
BY_CONTENT = ("content", "leporid_content")


def sparse_log(n_users: int, n_items: int, seed: int = 0) -> Interactions:
    """A log in which every sixth user and every fifth item, at random, has nothing."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n_users, n_items)) < 8 / n_items
    dense[rng.permutation(n_users)[: n_users // 6]] = False
    dense[:, rng.permutation(n_items)[: n_items // 5]] = False
    return make_interactions(dense)


def describe_items(train: Interactions, path: Path) -> np.ndarray[Any, Any]:
    """A table of genres for two items of three; bool[n_items]: which ones."""
    described = np.arange(train.n_items) % 3 > 0
    ids = train.items.ids.to_pylist()
    lines = [f"{ids[i]},{'xyzw'[i % 4]}|{'ab'[i // 4 % 2]}" for i in np.flatnonzero(described)]
    path.write_text("\n".join(["item_id,genres", *lines]) + "\n", encoding="utf-8")
    return described


def fit(
    name: str, train: Interactions, table: Path, dim: int = 8
) -> initializers.InitialEmbeddings:
    """The vectors of an initialiser with its quick settings."""
    content = {"items": str(table)} if name in BY_CONTENT else {}
    return initializers.get(name)(dim=dim, **SETTINGS[name], **content).fit(train)


def main(n_users: int, n_items: int) -> None:
    """Print what all initialisers make of one log."""
    train, found = sparse_log(n_users, n_items), {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "items.csv"
        described = describe_items(train, table)
        for name in SETTINGS:
            made = fit(name, train, table)
            for side, embedding, _ in made.sides():
                row = train.user if side == "users" else train.item
                unknown = np.bincount(row, minlength=embedding.n) == 0
                if side == "items" and name in BY_CONTENT:
                    unknown &= ~described
                found[f"{name} {side}"] = {
                    "unknown": np.flatnonzero(unknown).tolist(),
                    "empty": np.flatnonzero(embedding.isolated).tolist(),
                    "counted": embedding.provenance["isolated"],
                }
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
