"""LightGCN: graph convolution with nothing but the neighbourhood average.

He, Deng, Wang, Li, Zhang, Wang: LightGCN: Simplifying and Powering Graph Convolution Network for
Recommendation. SIGIR 2020.

    E^(l+1) = D^-1/2 A D^-1/2 E^(l)                                (Eq. 7)
    E = 1 / (L + 1) (E^(0) + E^(1) + ... + E^(L))                  (Eq. 8, alpha_l = 1 / (L + 1))
    y_ui = <e_u, e_i>                                              (Eq. 5)

trained by BPR with lambda |E^(0)|^2 on the vectors of the batch (Eq. 15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from leporid.data.interactions import Sequences
from leporid.errors import ConfigError
from leporid.models.shared.graph_propagation import Propagation
from leporid.models.shared.neural import BuildContext, NeuralRecommender
from leporid.models.shared.new_users import NewUserRows
from leporid.models.shared.ranking_loss import node_bpr_loss, row_penalty
from leporid.space import Choice, Float, Int, SearchSpace
from leporid.training.config import TrainingConfig
from leporid.training.sampler import Batch, Sampling

__all__ = ["GraphRecommender", "LightGCN", "LightGCNConfig", "LightGCNNetwork"]


@dataclass(frozen=True, kw_only=True)
class LightGCNConfig(TrainingConfig):
    """Settings of LightGCN."""

    batch_size: int = 2048
    steps: int = 3000
    lr: float = 5e-3
    layers: int = 3
    """L, applications of the adjacency."""
    regularization: float = 1e-4
    """lambda, on the layer-0 vectors of the batch."""

    def validate(self) -> None:
        """Refuse values outside their range."""
        super().validate()
        if self.layers < 0:
            raise ConfigError(f"layers must not be negative, it is {self.layers}")
        if self.regularization < 0:
            raise ConfigError(f"regularization must not be negative, it is {self.regularization}")


class LightGCNNetwork(nn.Module):
    """Two tables and a constant graph."""

    def __init__(
        self, users: nn.Embedding, items: nn.Embedding, graph: Propagation, layers: int
    ) -> None:
        super().__init__()
        self.users, self.items, self.graph, self.layers = users, items, graph, layers

    def forward(self) -> Tensor:
        """float32[n_users + n_items, D]: the mean of all layers."""
        start = torch.cat([self.users.weight, self.items.weight])
        # Horner's rule: the mean of A^l E needs L products and one buffer.
        total = start
        for _ in range(self.layers):
            total = start + self.graph(total)
        return total / (self.layers + 1)


class GraphRecommender(NeuralRecommender):
    """What LightGCN, NGCF and DGCF share: vectors of all nodes, then dot products and BPR.

    The network is called without arguments and returns the final vectors of users, then items.
    """

    recordable: ClassVar[bool] = True

    def sampling(self) -> Sampling:
        """(u, i, j): an item the user has and one the user has not."""
        return Sampling("pairs", negatives=1)

    def loss(self, batch: Batch) -> Tensor:
        """BPR on the final vectors, L2 on those of layer 0, and what a model adds."""
        net: Any = self.net
        config: Any = self.config
        first = self.train.n_users
        vectors = net()
        loss = node_bpr_loss(vectors, batch.users, batch.positives + first, batch.negatives + first)
        if config.regularization:
            rows = torch.cat([batch.positives, batch.negatives.reshape(-1)])
            penalty = row_penalty(net.users.weight, batch.users, len(batch))
            penalty = penalty + row_penalty(net.items.weight, rows, len(batch))
            loss = loss + config.regularization * penalty
        extra = self.vector_loss(vectors)
        return loss if extra is None else loss + extra

    def vector_loss(self, vectors: Tensor) -> Tensor | None:
        """A further term on the final vectors of users, then items."""
        return None

    def prepare(self) -> tuple[Tensor, Tensor, NewUserRows]:
        """Final vectors of all users and all items, and what places new people among them."""
        vectors = self.net()
        users, items = vectors[: self.train.n_users], vectors[self.train.n_users :]
        return users, items, NewUserRows(self.train, users)

    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """y_ui for every item."""
        user_vectors, item_vectors, _ = self.prepared()
        result: Tensor = user_vectors[users] @ item_vectors.T
        return result

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """A new user's final vector is extended from those of similar users."""
        _, item_vectors, new_users = self.prepared()
        result: Tensor = new_users(histories) @ item_vectors.T
        return result


class LightGCN(GraphRecommender):
    """Neighbourhood averages of trained vectors."""

    name = "lightgcn"
    config_class = LightGCNConfig
    config: LightGCNConfig
    default_init_scale: ClassVar[float] = 0.3
    recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "tuned": {
            "batch_size": 16384,
            "steps": 3000,
            "eval_every": 200,
            "lr": 0.004696,
            "regularization": 0.001006,
            "layers": 4,
            "init_scale": 0.3,
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "regularization": Float(1e-5, 1e-2, log=True),
        "layers": Int(1, 4),
        "init_scale": Choice(0.01, 0.03, 0.1, 0.3),
    }

    def build(self, context: BuildContext) -> nn.Module:
        """Tables and the normalised graph of the training part."""
        graph = Propagation(context.train.csr())
        users, items = context.user_table(), context.item_table()
        return LightGCNNetwork(users, items, graph, self.config.layers)
