"""Runs inside RecTools' environment: its SASRec's lists after more and more seconds of training.

FOLDER has train.npy (int64[n, 2]: user, item, in order) and users.npy; top.npy (int32[points,
users, 10], -1 where there is nothing) is written there, and one line of JSON is printed.

usage: rectools_sasrec.py FOLDER SECONDS SETTINGS
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from pytorch_lightning import Callback, Trainer, seed_everything
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import SASRecModel

sys.path.insert(0, str(Path(__file__).parent))
from curve import Curve, TimeOverError


class Watch(Callback):
    """Takes copies of the weights."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve

    def on_train_batch_end(self, trainer: Trainer, module: object, *rest: object) -> None:
        """After every step."""
        try:
            self.curve.look(module.torch_model)
        except TimeOverError:
            trainer.should_stop = True


def main() -> None:
    """Train, then rank with every copy."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    folder, seconds, settings = Path(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3])
    pairs, users = np.load(folder / "train.npy"), np.load(folder / "users.npy")
    table = pd.DataFrame(pairs, columns=[Columns.User, Columns.Item])
    table[Columns.Weight] = 1.0
    table[Columns.Datetime] = pd.to_datetime(np.arange(len(table)), unit="s")
    dataset = Dataset.construct(table)
    seed_everything(0)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    model = SASRecModel(
        n_factors=settings["dim"],
        n_blocks=settings["layers"],
        n_heads=settings["heads"],
        session_max_len=settings["max_history"],
        dropout_rate=settings["dropout"],
        recommend_torch_device="cpu",
        get_trainer_func=lambda: Trainer(
            max_epochs=100_000,
            accelerator="cpu",
            callbacks=[Watch(Curve(seconds))],
            enable_checkpointing=False,
            **quiet,
        ),
    )
    model.fit(dataset)
    # RecTools trains with a copy of the trainer, and so of the callback.
    curve = next(c.curve for c in model.fit_trainer.callbacks if isinstance(c, Watch))
    top = np.full((len(curve.seconds), len(users), 10), -1, np.int32)
    place = {user: row for row, user in enumerate(users.tolist())}
    for point, weights in enumerate(curve.weights):
        model.torch_model.load_state_dict(weights)
        lists = model.recommend(users, dataset, k=10, filter_viewed=True)
        rows = lists[Columns.User].map(place)
        top[point, rows, lists[Columns.Rank] - 1] = lists[Columns.Item]
    np.save(folder / "top.npy", top)
    print(json.dumps({"seconds": curve.seconds, "version": version("rectools")}))


if __name__ == "__main__":
    main()
