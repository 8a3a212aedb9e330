"""DGCF: one graph per intent, found by routing.

Wang, Jin, Zhang, He, Xu, Chua: Disentangled Graph Collaborative Filtering. SIGIR 2020.

The D columns are K chunks, one per intent. With S = 1 on every edge at first, each layer
repeats, t = 1 .. T:

    S~_k = softmax over k of S_k                                   (Eq. 7)
    L_k(u, i) = S~_k(u, i) / sqrt(D_k(u) D_k(i))                   (Eq. 8)
    e_ku = sum over neighbours i of L_k(u, i) e_ki^(0)             (Eq. 10)
    S_k(u, i) += e_ku . tanh(e_ki^(0))                             (Eq. 11)

and gives out the last e_ku; the layers are averaged. The loss is BPR with L2 plus the distance
correlation between every two intents (Eq. 15), on a sample of the nodes at each step.
As in the authors' program both sides of the dot product in Eq. 11 are scaled to length one, layers
are averaged (Eq. 14 adds them up: the same ranking), and so are the pairs of intents. That program
compares each intent with the next one only: `recipe="authors"`.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.errors import ConfigError
from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.models.neural.graph import EdgeProducts, GraphConfig, GraphRecommender
from leporid.models.neural.settings import Recipes
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL


@dataclass(frozen=True, kw_only=True)
class DGCFConfig(GraphConfig):
    intents: int = setting(4, at_least=1)
    """K; must divide `dim`."""
    layers: int = setting(1, at_least=0)
    """L, graph layers."""
    iterations: int = setting(2, at_least=1)
    """T, routing iterations in a layer; 1 does not route."""
    correlation_weight: float = setting(0.01, at_least=0)
    """Weight of the distance correlation between intents."""
    correlation_pairs: Literal["all", "next"] = "all"
    """All pairs of intents (Eq. 15), or each and the next one as in the authors' program."""
    correlation_nodes: int = setting(64, at_least=1)
    """Users, and as many items, whose intents are compared in a step."""
    regularization: float = setting(1e-3, at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.intents:
            raise ConfigError(
                f"dim must be a multiple of intents, but {self.dim} is not one of {self.intents}"
            )


class DGCFNetwork(nn.Module):
    """Tables and the edges of the graph; the weights on the edges are found by routing."""

    def __init__(self, context: BuildContext, config: DGCFConfig) -> None:
        super().__init__()
        self.users = context.user_table()
        self.items = context.item_table()
        self.edges = EdgeProducts(context.train.csr())
        self.config = config

    def forward(self) -> Tensor:
        """Return float32[n_users + n_items, D], the mean of all layers."""
        return self.route()[0]

    def route(self) -> tuple[Tensor, Tensor]:
        """Return the final vectors, and S~ of the last iteration, float32[K, n_edges]."""
        config = self.config
        x = torch.cat([self.users.weight, self.items.weight])
        total = x
        affinity = x.new_ones(config.intents, self.edges.n_edges)
        share = affinity.softmax(dim=0)
        for layer in range(config.layers):
            in_last_layer = layer == config.layers - 1
            tail = self._unit(x).tanh()
            for iteration in range(config.iterations):
                share = affinity.softmax(dim=0)
                head = self.edges.propagate(self.edges.laplacian(share), x)
                is_last = in_last_layer and iteration == config.iterations - 1
                if config.intents > 1 and not is_last:
                    affinity = affinity + self.edges.affinity(
                        self._unit(head),
                        tail,
                        config.intents,
                    )
            x = head
            total = total + x
        return total / (config.layers + 1), share

    def _unit(self, x: Tensor) -> Tensor:
        """Scale the chunk of each intent to length one."""
        chunks = x.reshape(len(x), self.config.intents, -1)
        return functional.normalize(chunks, dim=2).flatten(1)


def distance_correlation(*samples: Tensor) -> Tensor:
    """Return the mean dCor of all pairs of samples, float32[n, d] each: 0 iff independent."""
    count = len(samples)
    row, column = torch.triu_indices(
        count,
        count,
        offset=1,
        device=samples[0].device,
    )
    return distance_correlations(*samples)[row, column].mean()


def distance_correlations(*samples: Tensor) -> Tensor:
    """Return dCor (Szekely et al. 2007) of K samples float32[n, d] with each other, [K, K]."""
    centred = torch.stack([_centred_distances(sample).flatten() for sample in samples])
    products = centred @ centred.T / centred.shape[1]
    covariance = products.clamp(min=1e-16).sqrt()
    variance = covariance.diagonal().clamp(min=1e-8).sqrt()
    return covariance / (variance[:, None] * variance[None, :])


def _centred_distances(x: Tensor) -> Tensor:
    square = (x * x).sum(dim=1)
    squares = square[:, None] + square[None, :]
    between = (squares - 2 * x @ x.T).clamp(min=0)
    # The root has no slope at 0, which the diagonal is made of.
    distance = (between + 1e-8).sqrt()
    by_column = distance.mean(dim=0, keepdim=True)
    by_row = distance.mean(dim=1, keepdim=True)
    return distance - by_column - by_row + distance.mean()


class DGCF(GraphRecommender):
    """Intents as chunks of the vectors, each with its own soft graph."""

    name = "dgcf"
    config_class = DGCFConfig
    config: DGCFConfig
    network_class = DGCFNetwork
    recipes: ClassVar[Recipes] = {
        "general": GENERAL,
        "paper": {"metric": "F1@10"},
        "authors": {
            "correlation_pairs": "next",
            "metric": "F1@10",
        },
        "tuned": {
            "batch_size": 16384,
            "steps": 1200,
            "eval_every": 200,
            "lr": 0.00899,
            "regularization": 0.005506,
            "correlation_weight": 0.006739,
            "layers": 2,
            "init_scale": 0.03,
            "metric": "F1@10",
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "regularization": Float(1e-5, 1e-2, log=True),
        "correlation_weight": Float(1e-3, 1e-1, log=True),
        "layers": Int(1, 2),
        "init_scale": OneOf(0.01, 0.03, 0.1, 0.3),
    }

    def vector_loss(self, vectors: Tensor) -> Tensor | None:
        """Return the correlation of intents, on a random sample of users and items."""
        config = self.config
        if config.intents == 1 or config.correlation_weight == 0:
            return None
        n_users = self.train.n_users
        size = (config.correlation_nodes,)
        users = torch.randint(n_users, size, device=vectors.device)
        items = torch.randint(
            n_users,
            len(vectors),
            size,
            device=vectors.device,
        )
        nodes = vectors.index_select(0, torch.cat([users, items]))
        chunks = nodes.chunk(config.intents, dim=1)
        with torch.autocast(vectors.device.type, enabled=False):
            if config.correlation_pairs == "all":
                return config.correlation_weight * distance_correlation(*chunks)
            share = (
                2 * config.correlation_weight / (config.intents * (config.intents + 1))
            )
            return share * distance_correlations(*chunks).diagonal(offset=1).sum()
