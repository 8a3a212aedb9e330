"""NCF: NeuMF, a product tower and a perceptron tower.

He, Liao, Zhang, Nie, Hu, Chua: Neural Collaborative Filtering. WWW 2017.

    phi_gmf = p_u * q_i                                            (Eq. 8)
    phi_mlp = a_L(W_L(... a_2(W_2 [p'_u; q'_i] + b_2) ...) + b_L)  (Eqs. 10, 12)
    y_ui = sigmoid(h . [phi_gmf; phi_mlp])                         (Eq. 12)

Each tower has its own user and item vectors; all four tables take the initial embeddings. Trained
by the log loss (Eq. 7) with sampled negatives. The perceptron halves its width from layer to layer.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.errors import ConfigError
from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.settings import Recipes, TrainingConfig
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL

_PAIRS = 2**18
"""User-item pairs scored at once: bounds memory, whatever the number of users asked for."""


@dataclass(frozen=True, kw_only=True)
class NCFConfig(TrainingConfig):
    batch_size: int = setting(1024, at_least=1)
    """Positives in a step; each brings its negatives."""
    lr: float = setting(2e-3, above=0)
    layers: tuple[int, ...] = setting((64, 32, 16), at_least=1)
    """Widths of the perceptron after the 2 D inputs."""
    negatives: int = setting(4, at_least=1)
    """Sampled items without interaction for each one with."""
    dropout: float = setting(0.0, at_least=0, below=1)
    """Dropout on the input of each perceptron layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.layers:
            raise ConfigError("layers must name the width of at least one layer")


class NCFNetwork(nn.Module):
    """Four tables, the perceptron, and the output weights h."""

    def __init__(self, context: BuildContext, config: NCFConfig) -> None:
        super().__init__()
        self.gmf_users = context.user_table()
        self.mlp_users = context.user_table()
        self.gmf_items = context.item_table()
        self.mlp_items = context.item_table()
        self.config = config
        dim = context.dim
        first_width = config.layers[0]
        # W [p; q] = W_p p + W_q q: the user's share is computed once for all items.
        self.mlp_user = nn.Linear(dim, first_width)
        self.mlp_item = nn.Linear(dim, first_width, bias=False)
        self.mlp = nn.ModuleList(
            nn.Linear(before, after) for before, after in pairwise(config.layers)
        )
        self.gmf_output = nn.Parameter(torch.ones(dim))
        """h on the product tower; ones make an untrained tower the dot product."""
        self.mlp_output = nn.Linear(config.layers[-1], 1)
        for linear in [self.mlp_user, self.mlp_item, *self.mlp]:
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        nn.init.zeros_(self.mlp_output.bias)

    def forward(
        self,
        gmf_user: Tensor,
        mlp_user: Tensor,
        gmf_items: Tensor,
        mlp_items: Tensor,
    ) -> Tensor:
        """Return logits [B, k].

        users: [B, D] of each tower; items: [B, k, D] of each tower, or [k, D] for all B.
        """
        weighted = gmf_user * self.gmf_output
        if gmf_items.ndim == 2:
            product = weighted @ gmf_items.T
        else:
            product = (weighted[:, None] * gmf_items).sum(-1)
        user = self.mlp_user(self._drop(mlp_user))
        item = self.mlp_item(self._drop(mlp_items))
        hidden = functional.relu(user[:, None] + item)
        for layer in self.mlp:
            hidden = functional.relu(layer(self._drop(hidden)))
        perceptron: Tensor = self.mlp_output(hidden)[..., 0]
        return product + perceptron

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


class NCF(NeuralRecommender):
    """NeuMF whose towers both have the initial embeddings."""

    name = "ncf"
    config_class = NCFConfig
    config: NCFConfig
    network_class = NCFNetwork
    net: NCFNetwork
    init_size = 0.01
    """Small: rows of items with few interactions never leave larger initial embeddings."""
    supports_cuda_graph = True
    recipes: ClassVar[Recipes] = {
        "general": GENERAL | {"dropout": 0.5},
        "paper": {"metric": "F1@10"},
        "tuned": {
            "batch_size": 4096,
            "steps": 2500,
            "eval_every": 125,
            "lr": 0.001177,
            "weight_decay": 3.881e-07,
            "negatives": 6,
            "dropout": 0.0,
            "init_scale": 0.03,
            "metric": "F1@10",
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "weight_decay": Float(1e-7, 1e-3, log=True),
        "negatives": Int(1, 8),
        "dropout": OneOf(0.0, 0.2, 0.5),
        "init_scale": OneOf(0.01, 0.03, 0.1, 0.3),
    }

    def sampling(self) -> Sampling:
        return Sampling("pairs", negatives=self.config.negatives)

    def loss(self, batch: Batch) -> Tensor:
        """Return the log loss: the first column is the positive, the others are negatives."""
        net = self.net
        items = torch.cat([batch.positives[:, None], batch.negatives], dim=1)
        logits: Tensor = net(
            net.gmf_users(batch.users),
            net.mlp_users(batch.users),
            net.gmf_items(items),
            net.mlp_items(items),
        ).float()
        # -ln sigmoid(y) for the positive, -ln(1 - sigmoid(y)) for the negatives.
        positive = functional.softplus(-logits[:, :1]).sum()
        negative = functional.softplus(logits[:, 1:]).sum()
        return (positive + negative) / logits.numel()

    def prepare(self) -> Tensor:
        """Return float32[n_users, 2 D], the rows of both towers."""
        gmf_users = self.net.gmf_users.weight
        mlp_users = self.net.mlp_users.weight
        return torch.cat([gmf_users, mlp_users], dim=1)

    def user_table(self) -> Tensor:
        return self.prepared()

    def scores(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        assert rows is not None
        gmf_items = self.net.gmf_items.weight
        mlp_items = self.net.mlp_items.weight
        parts = []
        users_at_once = max(1, _PAIRS // len(gmf_items))
        for part in torch.split(rows, users_at_once):
            gmf_users, mlp_users = part.chunk(2, dim=1)
            parts.append(self.net(gmf_users, mlp_users, gmf_items, mlp_items))
        return torch.cat(parts)
