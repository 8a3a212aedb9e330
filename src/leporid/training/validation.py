"""Model selection: the metric on the validation part, and the best weights so far."""

from __future__ import annotations

import numpy as np

from leporid.data import Split
from leporid.evaluation import evaluate, parse_metric
from leporid.threads import kept_torch_threads
from leporid.training.protocol import Trainable
from leporid.training.seeding import derive_seed


class Validation:
    """Computes `config.metric` on `split.valid`; `split.test` is never read.

    With `eval_users`, the others have nothing to judge.
    """

    def __init__(self, model: Trainable, split: Split, seed: int) -> None:
        self._model, self._metric, self._split = model, model.config.metric, split
        _, self._depth = parse_metric(self._metric)
        present, users = np.unique(split.valid.user), model.config.eval_users
        if 0 < users < len(present):
            source = np.random.default_rng(derive_seed(seed, "validation users"))
            chosen = source.choice(present, users, replace=False)
            part = split.valid.select(np.isin(split.valid.user, chosen))
            self._split = Split(split.train, part, split.test, split.protocol)

    def __call__(self) -> float:
        with kept_torch_threads():
            table = evaluate(self._model, self._split, at=(self._depth,), part="valid")
        return table.mean()[self._metric]
