"""NGCF: graph convolution with feature interaction.

Wang, He, Wang, Feng, Chua: Neural Graph Collaborative Filtering. SIGIR 2019.

    E^(l) = LeakyReLU((A + I) E^(l-1) W_1 + A E^(l-1) * E^(l-1) W_2)     (Eq. 7; A their Laplacian)
    e = [e^(0); e^(1); ...; e^(L)]                                        (Eq. 9)
    y_ui = <e_u, e_i>                                                     (Eq. 10)

trained by BPR with L2 (Eq. 11). Node dropout silences a share of the nodes: none of their
messages is sent. Message dropout is applied to what a layer gives out (Section 2.4.2).
As in the authors' program each layer's rows are scaled to length one before they are joined, and
the transforms have biases; `normalize_layers=False` leaves the rows as they are.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.foundation import Float, OneOf, SearchSpace, setting
from leporid.models.neural.graph import GraphConfig, GraphRecommender, Propagation
from leporid.models.neural.settings import Recipes
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL

_SLOPE = 0.2
"""Negative slope of LeakyReLU."""


@dataclass(frozen=True, kw_only=True)
class NGCFConfig(GraphConfig):
    layers: tuple[int, ...] = setting((64, 64, 64), at_least=1)
    """Width of each propagation layer."""
    message_dropout: float = setting(0.1, at_least=0, below=1)
    """Share of a layer's entries set to zero."""
    node_dropout: float = setting(0.1, at_least=0, below=1)
    """Share of the nodes whose messages are not sent."""
    regularization: float = setting(1e-5, at_least=0)
    normalize_layers: bool = True
    """Scale every layer's rows to length one before they are joined."""


class NGCFNetwork(nn.Module):
    """Tables, the constant graph, and two transforms a layer."""

    def __init__(self, context: BuildContext, config: NGCFConfig) -> None:
        super().__init__()
        self.users = context.user_table()
        self.items = context.item_table()
        self.graph = Propagation(context.train.csr())
        self.config = config
        widths = list(pairwise([context.dim, *config.layers]))
        aggregate = [nn.Linear(before, after) for before, after in widths]
        self.aggregate = nn.ModuleList(aggregate)
        """W_1 of each layer, and the sum of the two biases."""
        self.interact = nn.ParameterList(
            torch.empty(after, before) for before, after in widths
        )
        """W_2 of each layer."""
        for linear in aggregate:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        for weight in self.interact:
            nn.init.xavier_uniform_(weight)

    def forward(self) -> Tensor:
        """Return float32[n_users + n_items, D + sum of the widths]."""
        config = self.config
        x = torch.cat([self.users.weight, self.items.weight])
        joined = [x]
        for aggregate, interact in zip(self.aggregate, self.interact, strict=True):
            sent = self.graph(_drop_nodes(x, config.node_dropout, self.training))
            x = torch.addmm(aggregate(sent + x), sent * x, interact.T)
            x = functional.leaky_relu(x, _SLOPE, inplace=True)
            x = functional.dropout(x, config.message_dropout, self.training)
            joined.append(_unit_rows(x.float()) if config.normalize_layers else x)
        return torch.cat(joined, dim=1)


def _unit_rows(x: Tensor) -> Tensor:
    square: Tensor = torch.linalg.vecdot(x, x)
    return x * square.clamp(min=1e-24).rsqrt()[:, None]


def _drop_nodes(
    x: Tensor,
    share: float,
    training: bool,
) -> Tensor:
    """Set the rows of a random share of the nodes to zero, so that A x carries none of them."""
    if not training or share == 0:
        return x
    return x * functional.dropout(x.new_ones(len(x), 1), share)


class NGCF(GraphRecommender):
    """Three layers of messages and feature interaction."""

    name = "ngcf"
    config_class = NGCFConfig
    config: NGCFConfig
    network_class = NGCFNetwork
    recipes: ClassVar[Recipes] = {
        "general": GENERAL,
        "paper": {"metric": "F1@10"},
        "tuned": {
            "batch_size": 8192,
            "steps": 2500,
            "eval_every": 250,
            "lr": 0.002052,
            "regularization": 0.0002706,
            "message_dropout": 0.3018,
            "node_dropout": 0.3621,
            "init_scale": 0.03,
            "metric": "F1@10",
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "regularization": Float(1e-5, 1e-2, log=True),
        "message_dropout": Float(0.0, 0.5),
        "node_dropout": Float(0.0, 0.5),
        "init_scale": OneOf(0.01, 0.03, 0.1, 0.3),
    }
