"""The loop trains whatever has the protocol, not only models of the catalogue."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from leporid.data import Sequences, Split
from leporid.models import Batch, FitContext, Sampling, Trainable, TrainingConfig, train_loop


class Popularity:
    """One number per item, pushed up by the items it sees."""

    name: ClassVar[str] = "popularity"
    supports_cuda_graph: ClassVar[bool] = False

    def __init__(self, n_items: int) -> None:
        self.config = TrainingConfig(steps=40, batch_size=16, lr=0.1, eval_every=20)
        self.net: nn.Module = nn.Embedding(n_items, 1, _weight=torch.zeros(n_items, 1))
        self.tables: list[nn.Embedding] = []
        self.device = torch.device("cpu")

    def sampling(self) -> Sampling:
        return Sampling("pairs", negatives=1)

    def loss(self, batch: Batch) -> Tensor:
        gap = self.net(batch.negatives[:, 0]) - self.net(batch.positives)
        return nn.functional.softplus(gap).mean()

    def freeze_untrained_rows(self) -> None:
        """No row has a limit."""

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def weights_changed(self) -> None:
        pass

    def score_tensor(self, users: Any, history: Sequences | None = None) -> Tensor:
        return self.net.weight.detach().T.expand(len(users), -1)


def test_anything_with_the_protocol_is_trained(split: Split) -> None:
    model = Popularity(split.n_items)
    trainable: Trainable = model
    history = train_loop(trainable, split, 3, FitContext())
    assert history.rows[-1]["step"] == 40
    assert history.best_metric is not None
    seen = np.bincount(split.train.item, minlength=split.n_items)
    learnt = model.net.weight.detach().numpy()[:, 0]
    assert np.corrcoef(seen, learnt)[0, 1] > 0.8
