"""HGN: gates that choose features and items of the recent past.

Ma, Kang, Liu: Hierarchical Gating Networks for Sequential Recommendation. KDD 2019.

For a user u and the last L items, S with rows e_1 .. e_L:

    S^F = S * sigmoid(S W_1 + u W_2 + b)                           (feature gating, Eq. 2)
    S^I = S^F * sigmoid(S^F w_3 + (u W_4)^T)                       (instance gating, Eq. 4)
    r_uj = u . q_j + mean(S^I) . q_j + sum_k e_k . q_j             (Eqs. 5 to 7)

q_j are item vectors of their own (the output side), and both item tables take the initial vectors.
Trained by BPR on every window of L items and the T items after it (Eq. 8), with as many negatives.
The authors' program pools by the sum of the instance gates instead of L, and adds a bias b_j to
r_uj: `recipe="authors"`.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.bpr_loss import row_penalty
from leporid.models.neural.layers import with_constant
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.settings import Recipes, TrainingConfig
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL


@dataclass(frozen=True, kw_only=True)
class HGNConfig(TrainingConfig):
    batch_size: int = setting(4096, at_least=1)
    steps: int = setting(4000, at_least=1)
    max_history: int = setting(5, at_least=1)
    """L, the number of recent items read."""
    targets: int = setting(3, at_least=1)
    """T, items predicted."""
    pooling: Literal["length", "gates"] = "length"
    """What the gated items are divided by: L, or the sum of the gates (authors' program)."""
    item_bias: bool = False
    """Whether every item has a bias, as in the authors' program; it starts at 0."""
    regularization: float = setting(1e-3, at_least=0)
    """lambda, on the vectors of the batch."""


class HGNNetwork(nn.Module):
    """User, input and output item tables, and the two gates."""

    def __init__(self, context: BuildContext, config: HGNConfig) -> None:
        super().__init__()
        dim = context.dim
        self.pooling = config.pooling
        self.users = context.user_table()
        self.items = context.item_table()
        self.outputs = context.item_table()
        self.feature_items = nn.Linear(dim, dim)
        """W_1 and b."""
        self.feature_user = nn.Linear(dim, dim, bias=False)
        """W_2."""
        self.instance_items = nn.Linear(dim, 1, bias=False)
        """w_3."""
        self.instance_user = nn.Linear(dim, config.max_history, bias=False)
        """W_4."""
        gates = (
            self.feature_items,
            self.feature_user,
            self.instance_items,
            self.instance_user,
        )
        for gate in gates:
            nn.init.xavier_uniform_(gate.weight)
        nn.init.zeros_(self.feature_items.bias)
        self.bias: nn.Parameter | None = None
        """b, or None without `item_bias`."""
        if config.item_bias:
            self.bias = nn.Parameter(torch.zeros(context.train.n_items))

    def forward(self, user: Tensor, recent: Tensor) -> Tensor:
        """Return [B, D], the vector whose product with q_j is r_uj.

        user: [B, D], recent: [B, L, D].
        """
        feature = self.feature_items(recent) + self.feature_user(user)[:, None]
        gated = recent * feature.sigmoid()
        instance = self.instance_items(gated)[..., 0] + self.instance_user(user)
        weight: Tensor = instance.sigmoid()
        if self.pooling == "length":
            weight = weight / recent.shape[1]
        else:
            weight = weight / weight.sum(dim=1, keepdim=True)
        # Products and sums rather than einsum: its batches of tiny matrices are slow on a CPU.
        pooled: Tensor = (weight[..., None] * gated).sum(dim=1)
        return user + pooled + recent.sum(dim=1)


class HGN(NeuralRecommender):
    """Feature gating, instance gating and item-item products over short windows."""

    name = "hgn"
    config_class = HGNConfig
    config: HGNConfig
    network_class = HGNNetwork
    net: HGNNetwork
    reads_history = True
    supports_cuda_graph = True
    recipes: ClassVar[Recipes] = {
        "general": GENERAL
        | {
            "max_history": 3,
            "dim": 128,
            "linear_weight": "auto",
            "transitions_weight": "auto",
        },
        "paper": {"metric": "F1@10"},
        "authors": {
            "pooling": "gates",
            "item_bias": True,
            "metric": "F1@10",
        },
        "tuned": {
            "steps": 4000,
            "regularization": 0.0001,
            "init_scale": 0.1,
            "metric": "F1@10",
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "regularization": Float(1e-5, 1e-2, log=True),
        "max_history": Int(3, 10),
        "targets": Int(1, 3),
        "init_scale": OneOf(0.01, 0.03, 0.1, 0.3),
    }

    def sampling(self) -> Sampling:
        return Sampling(
            "windows",
            length=self.config.max_history,
            targets=self.config.targets,
            negatives=self.config.targets,
        )

    def loss(self, batch: Batch) -> Tensor:
        """Return BPR over the items after each window, and L2 on the vectors of the batch."""
        net = self.net
        assert batch.history is not None
        user = net.users(batch.users)
        recent = net.items(batch.history)
        positives = batch.positives.reshape(len(batch), -1)
        rows = torch.cat([positives, batch.negatives], dim=1)
        targets = net.outputs(rows)
        state = net(user, recent).float()
        scores: Tensor = (state[:, None] * targets).sum(dim=-1)
        if net.bias is not None:
            scores = scores + net.bias[rows]
        positive, negative = scores.chunk(2, dim=1)
        loss = functional.softplus(negative - positive).mean()
        if self.config.regularization:
            penalty = row_penalty(net.users.weight, batch.users, len(batch))
            penalty = penalty + row_penalty(net.items.weight, batch.history, len(batch))
            penalty = penalty + row_penalty(net.outputs.weight, rows, len(batch))
            loss = loss + self.config.regularization * penalty
        return loss

    def scores(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        target = self._next(rows, recent)
        scores = torch.mm(target, self.net.outputs.weight.T)
        return scores if self.net.bias is None else scores + self.net.bias

    def _next(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """Return [m, D], the vector that the next item should resemble."""
        assert recent is not None
        # A user without history has only a row of the user table.
        is_item = (recent >= 0)[..., None]
        items = self.net.items(recent.clamp(min=0)) * is_item
        vectors: Tensor = self.net(rows, items)
        return vectors

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        target = self._next(rows, recent)
        return target if self.net.bias is None else with_constant(target)

    def item_outputs(self) -> Tensor:
        items = self.net.outputs.weight
        if self.net.bias is None:
            return items
        return torch.column_stack([items, self.net.bias])
