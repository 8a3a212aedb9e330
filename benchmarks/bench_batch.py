"""Lists for all users of a factor model, into a file, against the bare product and selection.

The bare side multiplies blocks of vectors that are ready into one buffer, takes the best items of
each row and keeps them in memory: it hides nothing, folds nobody in and writes no file. The
seconds of a million users are those of the users measured, times as many.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np

from benchmarks.harness import timed, write_record
from leporid.data import IdMap, Interactions, Split
from leporid.models.closed_form.ials import IALS
from leporid.ranking import masked_top_k, write_recommendations

USERS, ITEMS, PER_USER, N, ROUNDS = 65_536, 20_000, 50, 10, 3
BLOCKS = (128, 256, 512, 2048)
"""Users of a block; the fastest is the bare side's."""


def run() -> None:
    """Alternate the two, write the record."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, ITEMS + 1) ** 0.8
    drawn = rng.choice(ITEMS, USERS * PER_USER, p=share / share.sum())
    pairs = np.unique(np.repeat(np.arange(USERS), PER_USER) * ITEMS + drawn)
    ids = IdMap.range(USERS, "user"), IdMap.range(ITEMS, "item")
    data = Interactions.from_arrays(pairs // ITEMS, pairs % ITEMS, None, *ids)
    none = data.select(np.zeros(len(data), dtype=np.bool_))
    model = IALS(iterations=2).fit(Split(data, none, none, "all"), seed=0)
    seconds: dict[Any, float] = dict.fromkeys([*BLOCKS, "leporid"], np.inf)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "lists.parquet"
        for _ in range(ROUNDS):
            for size in BLOCKS:
                spent, _ = timed(partial(bare, model, size))
                seconds[size] = min(seconds[size], spent)
            spent, _ = timed(partial(write_recommendations, model, target, n=N))
            seconds["leporid"] = min(seconds["leporid"], spent)
    best = min(seconds[size] for size in BLOCKS)
    rows = [
        {
            "what": "write_recommendations" if name == "leporid" else f"bare, blocks of {name}",
            "seconds": round(spent, 2),
            "a million users, s": round(spent * 1e6 / USERS),
            "times the best bare": round(spent / best, 2),
        }
        for name, spent in seconds.items()
    ]
    threads = numba.get_num_threads()
    settings = {"users": USERS, "items": ITEMS, "dim": 64, "n": N, "threads": threads}
    note = (
        f"{seconds['leporid'] / best:.2f} times the fastest bare product and selection (goal: 2), "
        "with the items of each user hidden, users folded in, and the file written."
    )
    write_record("batch", rows, settings, [note])
    print("\n".join(map(str, rows)))


def bare(model: IALS, size: int) -> list[Any]:
    """The product into one buffer, and the best of each row."""
    users, items = model.user_factors, model.item_factors.T
    buffer = np.empty((size, items.shape[1]), dtype=np.float32)
    lists = []
    for start in range(0, len(users), size):
        rows = users[start : start + size]
        lists.append(masked_top_k(np.matmul(rows, items, out=buffer[: len(rows)]), N).items)
    return lists
