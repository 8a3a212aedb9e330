"""A small split and two small models; also what the processes of the tests run."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leporid.data import IdMap, Interactions, Split
from leporid.models import (
    Batch,
    BuildContext,
    FitContext,
    NeuralRecommender,
    Sampling,
    TrainingConfig,
)
from leporid.models.neural.dlr2.model import DLR2

TINY: dict[str, Any] = {"dim": 4, "batch_size": 12, "max_history": 3, "eval_every": 0}


def make_split(n_users: int = 23, n_items: int = 14) -> Split:
    """Asymmetric: more users than items, activity from 4 to 11 items, popular items first."""
    rng = np.random.default_rng(5)
    users, items = IdMap.range(n_users, "user"), IdMap.range(n_items, "item")
    appeal = 1.0 / np.arange(1, n_items + 1)
    parts: list[list[tuple[int, int, int]]] = [[], [], []]
    for user in range(n_users):
        size = int(rng.integers(4, 12))
        chosen = rng.choice(n_items, size=size, replace=False, p=appeal / appeal.sum())
        for place, item in enumerate(chosen):
            part = 0 if place < size - 2 else 1 if place < size - 1 else 2
            parts[part].append((user, int(item), place))
    train, valid, test = (
        Interactions.from_arrays(*np.array(part).T, users=users, items=items) for part in parts
    )
    return Split(train, valid, test, "toy")


class DotNet(nn.Module):
    """Two tables and a dropout."""

    def __init__(self, context: BuildContext) -> None:
        super().__init__()
        self.users, self.items = context.user_table(), context.item_table()
        self.dropout = nn.Dropout(0.2)


class Dot(NeuralRecommender):
    """Matrix factorisation with a pairwise loss: the smallest model of the contract."""

    name = "dot"
    config_class = TrainingConfig

    def build(self, context: BuildContext) -> nn.Module:
        return DotNet(context)

    def sampling(self) -> Sampling:
        return Sampling("pairs", negatives=2)

    def loss(self, batch: Batch) -> Tensor:
        users = self.net.dropout(self.net.users(batch.users))
        good = (users * self.net.items(batch.positives)).sum(-1, keepdim=True)
        bad = (users.unsqueeze(1) * self.net.items(batch.negatives)).sum(-1)
        return nn.functional.softplus(bad - good).mean()

    def scores(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        return rows @ self.net.items.weight.T


def weights(model: NeuralRecommender) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.net.state_dict().items()}


def assert_same_bits(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


class Doomed(DLR2):
    """Kills its own process in the middle of a step."""

    calls = 0

    def loss(self, batch: Batch) -> Tensor:
        self.calls += 1
        if self.calls == int(os.environ["DIE_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(batch)


KILLED: dict[str, Any] = {
    **TINY,
    "steps": 20,
    "checkpoint_every": 7,
    "eval_every": 6,
    "image_dropout": 0.2,
    "ema_decay": 0.5,
}


def main() -> None:
    torch.set_num_threads(1)
    Doomed(**KILLED).fit(
        make_split(), seed=4, device="cpu", context=FitContext(checkpoint=Path(sys.argv[1]))
    )


if __name__ == "__main__":
    main()
