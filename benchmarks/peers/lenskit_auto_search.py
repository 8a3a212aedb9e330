"""Runs inside LensKit-Auto's environment: its search on a split, and the lists of what it chose.

FOLDER has train.csv, valid.csv (user, item, rating) and users.npy; top.npy (int32[users, 10], -1
where there is nothing) and chosen.json are written there.

usage: lenskit_auto_search.py FOLDER SECONDS SEED
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from lenskit import batch
from lenskit.metrics.topn import ndcg
from lkauto.lkauto import get_best_recommender_model
from lkauto.utils.filer import Filer


def main() -> None:
    """Search, fit on train and validation, recommend."""
    folder, seconds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    train, valid = (pd.read_csv(folder / f"{name}.csv") for name in ("train", "valid"))
    begun = time.perf_counter()
    model, chosen = get_best_recommender_model(
        train=train,
        validation=valid,
        optimization_metric=ndcg,
        minimize_error_metric_val=False,
        time_limit_in_sec=seconds,
        num_evaluations=None,
        num_recommendations=10,
        include_timestamp=False,
        random_state=seed,
        filer=Filer(f"{folder / 'output'}/"),
    )
    searched = time.perf_counter() - begun
    users = np.load(folder / "users.npy")
    model.fit(pd.concat([train, valid], ignore_index=True))
    lists = batch.recommend(model, users, 10, n_jobs=1)
    place = {user: row for row, user in enumerate(users.tolist())}
    top = np.full((len(users), 10), -1, np.int32)
    top[lists["user"].map(place), lists["rank"] - 1] = lists["item"]
    np.save(folder / "top.npy", top)
    done = {"search_seconds": searched, "seconds": time.perf_counter() - begun, "chosen": chosen}
    (folder / "chosen.json").write_text(json.dumps(done, default=str))


if __name__ == "__main__":
    main()
