"""People never seen: a fifth of the users held out of training, asked with their newest items.

    python benchmarks/new_users.py LOG [LOG ...] --out results/new-users.json

The others are split 70/10/20 by time and train the models. Of a held-out user the last fifth is to
be found, all items ranked but those of the history; the model is given the newest 1, 3, 5 or 10
items before it, and users with fewer than 10 there are left out, so that all columns have the same
users. DLR2 answers twice: with a user row of zeros, as training rehearsed it, and with the mean row
of similar users.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import leporid
from leporid.data import Interactions, Split
from leporid.foundation import versions
from leporid.ranking import masked_top_k

GIVEN = (1, 3, 5, 10)
MODELS = ("dlr2", "sasrec", "ease", "itemknn", "toppop")


def without(data: Interactions, gone: np.ndarray) -> Split:
    """The split of the users that stay; the item ids are the same."""
    return leporid.temporal_split(data.select(~np.isin(data.user, gone)))


def questions(data: Interactions, users: np.ndarray, core: np.ndarray) -> list[tuple[Any, Any]]:
    """(history, targets) of each held-out user, known items only."""
    pairs = []
    for user in users:
        items = data.sequences().of(user)
        items = items[core[items]]
        cut = int(0.8 * len(items))
        if cut >= max(GIVEN) and cut < len(items):
            pairs.append((items[:cut], items[cut:]))
    return pairs


def judge(model: Any, pairs: list[tuple[Any, Any]], given: int) -> dict[str, float]:
    """HR@10 and NDCG@10, mean over the users."""
    histories = [history[-given:] for history, _ in pairs]
    seen = leporid.data.Sequences.from_rows(histories)
    top = masked_top_k(model.score_histories(histories), 10, seen=seen).items
    discount = 1 / np.log2(np.arange(2, 12))
    hits = np.array([np.isin(row, targets) for row, (_, targets) in zip(top, pairs, strict=True)])
    ideal = np.array([discount[: min(10, len(targets))].sum() for _, targets in pairs])
    return {"HR@10": float(hits.any(1).mean()), "NDCG@10": float((hits @ discount / ideal).mean())}


def study(path: Path, core: int, seed: int) -> list[dict[str, Any]]:
    data = leporid.load(path)
    data = data.core(core) if core > 1 else data
    users = np.random.default_rng(seed).permutation(data.n_users)[: data.n_users // 5]
    split = without(data, users)
    known = np.bincount(split.train.item, minlength=split.train.n_items) > 0
    pairs = questions(data, users, known)
    rows = []
    for name in MODELS:
        start = time.perf_counter()
        model = leporid.train(name, split, seed=seed, progress=False)
        seconds = time.perf_counter() - start
        kinds = ("mask", "neighbours") if name == "dlr2" else ("",)
        for kind in kinds:
            if kind:
                model.config = model.config.replace(new_users=kind)  # type: ignore[attr-defined]
            values = {str(given): judge(model, pairs, given) for given in GIVEN}
            row = {"log": path.stem, "model": name, "row": kind, "seed": seed, "users": len(pairs)}
            rows.append({**row, "seconds": round(seconds, 1), "given": values})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", help="PATH or PATH:CORE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for log in options.logs:
            path, _, core = log.partition(":")
            rows += study(Path(path), int(core or 1), seed)
            content = {"about": __doc__, "versions": versions(), "runs": rows}
            options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
