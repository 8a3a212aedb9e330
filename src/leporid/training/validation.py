"""Model selection: the metric on the validation part, and the best weights so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leporid.data.split import Split
from leporid.errors import ConfigError, UnknownNameError
from leporid.threads import kept_torch_threads
from leporid.training.seeding import derive_seed

if TYPE_CHECKING:
    from leporid.models.shared.neural import NeuralRecommender

__all__ = ["Validation"]


class Validation:
    """Computes `config.metric` on `split.valid`; `split.test` is never read."""

    def __init__(self, model: NeuralRecommender, split: Split, seed: int) -> None:
        self._model, self._metric = model, model.config.metric
        name, _, depth = self._metric.partition("@")
        if not name or not depth.isdigit():
            raise ConfigError(
                f"metric must be a name and a depth like 'F1@10', not {self._metric!r}"
            )
        self._depth = int(depth)
        self._split = _subset(split, model.config.eval_users, seed)

    def __call__(self) -> float:
        """The metric of the present weights."""
        from leporid.evaluation.evaluator import evaluate

        with kept_torch_threads():
            table = evaluate(self._model, self._split, at=(self._depth,), part="valid")
        means = table.mean()
        if self._metric not in means:
            raise UnknownNameError("metric", self._metric, means)
        return float(means[self._metric])


def _subset(split: Split, users: int, seed: int) -> Split:
    """The split with the validation part of some users only; the others have nothing to judge."""
    present = np.unique(split.valid.user)
    if users == 0 or users >= len(present):
        return split
    source = np.random.default_rng(derive_seed(seed, "validation users"))
    chosen = source.choice(present, users, replace=False)
    part = split.valid.select(np.isin(split.valid.user, chosen))
    return Split(split.train, part, split.test, split.protocol)
