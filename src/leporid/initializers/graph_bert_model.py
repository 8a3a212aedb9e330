"""The transformer of `graph_bert` and its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

__all__ = ["SubgraphEncoder", "recovery_loss"]


def recovery_loss(
    first: torch.Tensor, second: torch.Tensor, intimacy: torch.Tensor
) -> torch.Tensor:
    """Mean squared error of cosines against intimacies.

    `first` and `second` are float[b, d]; pair i has `intimacy[i]`, pairs across lines 0. The two
    kinds weigh the same: there are b times more of the second.
    """
    cosine = functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T
    pairs = (cosine.diagonal() - intimacy).square().mean()
    size = len(first)
    across = (cosine.square().sum() - cosine.diagonal().square().sum()) / max(size * size - size, 1)
    return pairs + across


class SubgraphEncoder(nn.Module):
    """Node indices int64[b] to vectors float32[b, dim]."""

    attributes: torch.Tensor
    nodes: torch.Tensor
    distances: torch.Tensor
    roles: torch.Tensor

    def __init__(
        self,
        subgraphs: tuple[NDArray[np.int64], NDArray[np.int64]],
        *,
        roles: NDArray[np.int64],
        dim: int,
        attributes: int,
        layers: int,
        heads: int,
        seed: int,
    ) -> None:
        super().__init__()
        nodes, distances = subgraphs
        random = np.random.default_rng([seed, 1]).standard_normal(
            (len(nodes), attributes), dtype=np.float32
        )
        self.register_buffer("attributes", torch.from_numpy(random))
        self.register_buffer("nodes", torch.from_numpy(nodes))
        self.register_buffer("distances", torch.from_numpy(distances))
        self.register_buffer("roles", torch.from_numpy(roles))
        # Layers draw from torch's global generator when they are made: leave it as it was.
        with torch.random.fork_rng(devices=[]):
            self.from_attributes = nn.Linear(attributes, dim)
            self.from_role = nn.Embedding(int(roles.max()) + 1, dim)
            self.from_rank = nn.Embedding(nodes.shape[1], dim)
            self.from_distance = nn.Embedding(3, dim)
            layer = nn.TransformerEncoderLayer(
                dim, heads, 2 * dim, dropout=0.0, activation="gelu", batch_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                spread = parameter.shape[-1] ** -0.5
                with torch.no_grad():
                    parameter.normal_(0.0, spread, generator=generator)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """float32[b, dim]: the mean of the encoded subgraph of each node."""
        index = index.to(self.nodes.device)
        nodes = self.nodes[index]
        tokens = (
            self.from_attributes(self.attributes[nodes])
            + self.from_role(self.roles[nodes])
            + self.from_rank.weight[None]
            + self.from_distance(self.distances[index])
        )
        out: torch.Tensor = self.encoder(tokens).mean(dim=1)
        return out

    @torch.no_grad()
    def encode_all(self, batch: int = 4096) -> NDArray[Any]:
        """float32[n, dim]: every node."""
        self.eval()
        parts = [
            self(torch.arange(begin, min(begin + batch, len(self.nodes)))).float().cpu().numpy()
            for begin in range(0, len(self.nodes), batch)
        ]
        return np.concatenate(parts)
