"""LightGCN: graph convolution with nothing but the neighbourhood average.

He, Deng, Wang, Li, Zhang, Wang: LightGCN: Simplifying and Powering Graph Convolution Network for
Recommendation. SIGIR 2020.

    E^(l+1) = D^-1/2 A D^-1/2 E^(l)                                (Eq. 7)
    E = 1 / (L + 1) (E^(0) + E^(1) + ... + E^(L))                  (Eq. 8, alpha_l = 1 / (L + 1))
    y_ui = <e_u, e_i>                                              (Eq. 5)

trained by BPR with lambda |E^(0)|^2 on the vectors of the batch (Eq. 15).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.models.neural.graph import GraphConfig, GraphRecommender, Propagation
from leporid.models.neural.settings import Recipes
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL


@dataclass(frozen=True, kw_only=True)
class LightGCNConfig(GraphConfig):
    layers: int = setting(3, at_least=0)
    """L, applications of the adjacency."""


class LightGCNNetwork(nn.Module):
    """Two tables and the products with the user-item graph."""

    def __init__(self, context: BuildContext, config: LightGCNConfig) -> None:
        super().__init__()
        self.users = context.user_table()
        self.items = context.item_table()
        self.graph = Propagation(context.train.csr())
        self.layers = config.layers

    def forward(self) -> Tensor:
        """Return float32[n_users + n_items, D], the mean of all layers."""
        initial = torch.cat([self.users.weight, self.items.weight])
        # Horner's rule: the mean of A^l E needs L products and one buffer.
        total = initial
        for _ in range(self.layers):
            total = initial + self.graph(total)
        return total / (self.layers + 1)


class LightGCN(GraphRecommender):
    """Neighbourhood averages of trained vectors."""

    name = "lightgcn"
    config_class = LightGCNConfig
    config: LightGCNConfig
    network_class = LightGCNNetwork
    recipes: ClassVar[Recipes] = {
        "general": GENERAL,
        "paper": {"metric": "F1@10"},
        "tuned": {
            "batch_size": 16384,
            "steps": 3000,
            "eval_every": 200,
            "lr": 0.004696,
            "regularization": 0.001006,
            "layers": 4,
            "init_scale": 0.3,
            "metric": "F1@10",
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "regularization": Float(1e-5, 1e-2, log=True),
        "layers": Int(1, 4),
        "init_scale": OneOf(0.01, 0.03, 0.1, 0.3),
    }
