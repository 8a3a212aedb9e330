"""A two-tower model with frozen vectors: what an initialisation is worth where it is never trained.

A linear map on each side, trained by the softmax over the items of the batch. Items are in a batch
as often as they are in the log, so the logarithm of that share is taken off their scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from leporid.foundation import setting
from leporid.models import GENERAL, Batch, BuildContext, NeuralRecommender, Sampling, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class TwoTowerConfig(TrainingConfig):
    """Training settings with larger batches, whose items are the negatives."""

    batch_size: int = setting(2048, at_least=1)
    freeze_steps: int = setting(-1, at_least=-1)


class TwoTowerNetwork(nn.Module):
    """Both tables, a map for each, and how often an item is drawn."""

    log_share: Tensor

    def __init__(self, context: BuildContext, config: TwoTowerConfig) -> None:
        super().__init__()
        self.users, self.items = context.user_table(), context.item_table()
        self.user_map = nn.Linear(config.dim, config.dim)
        self.item_map = nn.Linear(config.dim, config.dim)
        count = torch.bincount(torch.as_tensor(context.train.item), minlength=context.train.n_items)
        self.register_buffer("log_share", (count.clamp(min=1) / count.sum()).log())


class TwoTower(NeuralRecommender):
    """Scores are inner products of the mapped vectors."""

    name = "two_tower"
    config_class = TwoTowerConfig
    network_class = TwoTowerNetwork
    init_size = 0.125
    """Rows of 64 entries then have length one."""
    recipes: ClassVar[dict[str, dict[str, Any]]] = {"general": GENERAL | {"lr": 3e-3}}

    def sampling(self) -> Sampling:
        """Every training interaction, without drawn negatives."""
        return Sampling("pairs", negatives=0)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of each user's item among the items of the batch."""
        net, items = self.net, batch.positives
        users = net.user_map(net.users(batch.users))
        logits = users @ net.item_map(net.items(items)).T - net.log_share[items]
        return nn.functional.cross_entropy(
            logits.float(), torch.arange(len(batch), device=logits.device)
        )

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """[m, D]: mapped rows of the user table."""
        return cast(Tensor, self.net.user_map(rows))

    def item_outputs(self) -> Tensor:
        """[n_items, D]"""
        return cast(Tensor, self.net.item_map(self.net.items.weight))
