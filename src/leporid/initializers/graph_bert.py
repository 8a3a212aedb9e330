"""`graph_bert`: attention over each node's most intimate nodes, pre-trained to recover intimacy.

A node of the bipartite user-item graph is read as a short sequence: itself, then its k most
intimate nodes. Each place adds a projection of the node's attributes (random: there is no side
information), of its role, of its rank by intimacy and of its distance (itself, linked, not
linked). A small transformer encodes the sequence; the mean of its outputs is the node's vector.

Structure recovery: the cosine of two vectors should be their intimacy, relative to the largest
intimacy of the first node. A batch holds pairs of intimate nodes; the pairs across its lines
stand for the rest of the graph, whose intimacy is taken as zero. The original's role code comes
from Weisfeiler-Lehman colours, which tell nearly all nodes of such graphs apart; here the role
is the side and the logarithm of the degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError, MissingExtraError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.initializers.intimacy import intimate_nodes
from leporid.initializers.walks import bipartite_adjacency
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding

if TYPE_CHECKING:
    import torch

__all__ = ["GraphBert", "GraphBertConfig"]


@dataclass(frozen=True, kw_only=True)
class GraphBertConfig(InitializerConfig):
    """Settings of `GraphBert`."""

    k: int = 7
    """Intimate nodes of a subgraph."""
    alpha: float = 0.15
    """Restart probability of PageRank."""
    tolerance: float = 1e-6
    """Push tolerance of the intimacy; smaller is more exact and slower. Above about 1 over the
    product of two typical degrees, the neighbours of a node cannot be told apart."""
    attributes: int = 64
    """Length of the random attribute vector of a node."""
    layers: int = 2
    """Layers of the transformer."""
    heads: int = 2
    """Attention heads; must divide `dim`."""
    steps: int = 1000
    """Optimiser steps."""
    batch: int = 256
    """Pairs of a step."""
    learning_rate: float = 1e-3
    """Of Adam."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the transformer is trained."""

    def validate(self) -> None:
        """Refuse impossible sizes."""
        super().validate()
        for name in ("k", "attributes", "layers", "heads", "steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.batch < 2:
            raise ConfigError(f"batch must be at least 2, not {self.batch}")
        if self.dim % self.heads:
            raise ConfigError(f"heads must divide dim={self.dim}, not {self.heads}")
        if not 0 < self.alpha < 1 or not self.tolerance > 0 or not self.learning_rate > 0:
            raise ConfigError("alpha must lie in (0, 1); tolerance and learning_rate above 0")


class GraphBert(Initializer):
    """Structure-recovery pre-training; a node without edges gets the zero vector."""

    name = "graph_bert"
    config_class = GraphBertConfig
    config: GraphBertConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        try:
            import torch
        except ImportError:
            raise MissingExtraError("graph_bert", "torch") from None
        from leporid.initializers.graph_bert_model import SubgraphEncoder, recovery_loss

        config = self.config
        indptr, indices = bipartite_adjacency(train.csr())
        # A numba kernel can change the thread count of torch too, and with it the rounding.
        threads = torch.get_num_threads()
        contexts, intimacy = intimate_nodes(
            indptr, indices, config.k, config.alpha, config.tolerance, progress
        )
        torch.set_num_threads(threads)
        device = config.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        degrees = np.diff(indptr)
        encoder = SubgraphEncoder(
            _subgraphs(contexts, indptr, indices),
            roles=_roles(degrees, train.n_users),
            dim=config.dim,
            attributes=config.attributes,
            layers=config.layers,
            heads=config.heads,
            seed=config.seed,
        ).to(device)
        optimiser = torch.optim.Adam(encoder.parameters(), lr=config.learning_rate)
        relative = intimacy / np.maximum(intimacy[:, :1], 1e-30)
        rng = np.random.default_rng(config.seed)
        linked = np.flatnonzero(contexts[:, 0] >= 0)
        losses: list[float] = []
        progress.start("structure recovery", config.steps)
        for _ in range(config.steps):
            first = rng.choice(linked, min(config.batch, len(linked)), replace=False)
            places = rng.integers(0, (contexts[first] >= 0).sum(axis=1))
            second = contexts[first, places]
            wanted = torch.from_numpy(relative[first, places]).to(device)
            loss = recovery_loss(encoder(_index(first)), encoder(_index(second)), wanted)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(float(loss.detach()))
            progress.advance(1, loss=losses[-1])
        vectors = encoder.encode_all()
        vectors[degrees == 0] = 0.0
        tenth = max(1, len(losses) // 10)
        provenance = {
            **self.provenance(train),
            "first_loss": float(np.mean(losses[:tenth])),
            "last_loss": float(np.mean(losses[-tenth:])),
        }
        return InitialEmbeddings(
            Embedding(vectors[: train.n_users].copy(), None, provenance),
            Embedding(vectors[train.n_users :].copy(), None, provenance),
        )


def _index(nodes: NDArray[Any]) -> torch.Tensor:
    import torch

    return torch.from_numpy(nodes.astype(np.int64))


def _roles(degrees: NDArray[Any], n_users: int) -> NDArray[np.int64]:
    """int64[n]: the side and the binary logarithm of the degree, as one small number."""
    size = np.log2(np.maximum(degrees, 1)).astype(np.int64)
    return np.asarray(2 * size + (np.arange(len(degrees)) >= n_users), dtype=np.int64)


def _subgraphs(
    contexts: NDArray[np.int32], indptr: NDArray[np.int64], indices: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nodes int64[n, k + 1], the node itself first (it also fills empty places), and distances.

    Distances int64[n, k + 1]: 0 itself, 1 linked, 2 not linked.
    """
    n = len(contexts)
    own = np.arange(n)[:, None]
    nodes = np.concatenate([own, np.where(contexts >= 0, contexts, own)], axis=1)
    edges = np.repeat(np.arange(n), np.diff(indptr)) * n + indices
    keys = own * n + nodes
    at = np.minimum(np.searchsorted(edges, keys), max(len(edges) - 1, 0))
    distances = np.where(nodes == own, 0, np.where(edges[at] == keys, 1, 2))
    return nodes.astype(np.int64), distances.astype(np.int64)
