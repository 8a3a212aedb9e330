"""`graph_bert`: attention over each node's most intimate nodes, pre-trained to recover intimacy.

A node of the bipartite user-item graph is a short sequence: itself, then its k most intimate
nodes. Each position adds projections of the node's attributes (random: there is no side
information), role, rank by intimacy and distance (itself, linked, not linked). A small
transformer encodes the sequence; the mean of its outputs is the node's vector. The role is the
side and the logarithm of the degree: the original's Weisfeiler-Lehman colours tell nearly all
nodes of such graphs apart.

Structure recovery: the cosine of two vectors should be their intimacy, relative to the largest
intimacy of the first node. A batch holds pairs of intimate nodes; pairs across its lines have
intimacy zero.

Intimacy is personalised PageRank, s_v = alpha sum_t (1 - alpha)^t (A D^-1)^t e_v, computed by
forward push: mass is pushed on where at least `tolerance` x degree has gathered. The unpushed
mass bounds the error.
"""

from dataclasses import dataclass
from typing import Literal

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from leporid.data import Interactions
from leporid.embeddings.arrays import Float32Array, Float64Array, Int32Array, Int64Array
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.node2vec import bipartite_adjacency
from leporid.embeddings.vectors import InitialEmbeddings
from leporid.errors import ConfigError
from leporid.foundation import ProgressLike, kept_torch_threads, kernel, setting


@dataclass(frozen=True, kw_only=True)
class GraphBertConfig(InitializerConfig):
    k: int = setting(7, at_least=1)
    """Intimate nodes of a subgraph."""
    alpha: float = setting(0.15, above=0, below=1)
    """Restart probability of PageRank."""
    tolerance: float = setting(1e-6, above=0)
    """Push tolerance of the intimacy. Above about 1 over the product of two typical degrees, the
    neighbours of a node cannot be told apart."""
    attributes: int = setting(64, at_least=1)
    """Length of the random attribute vector of a node."""
    layers: int = setting(2, at_least=1)
    """Layers of the transformer."""
    heads: int = setting(2, at_least=1)
    """Attention heads; must divide `dim`."""
    steps: int = setting(1000, at_least=1)
    """Optimiser steps."""
    batch: int = setting(256, at_least=2)
    """Pairs of a step."""
    learning_rate: float = setting(1e-3, above=0)
    """Learning rate of Adam."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device on which the transformer is trained."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ConfigError(f"heads must divide dim={self.dim}, not {self.heads}")


class GraphBert(Initializer):
    """Structure-recovery pre-training; a node without edges gets the zero vector."""

    name = "graph_bert"
    config_class = GraphBertConfig
    config: GraphBertConfig
    version = 3

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        indptr, indices = bipartite_adjacency(train.csr())
        with kept_torch_threads():
            contexts, intimacy = intimate_nodes(
                indptr,
                indices,
                config.k,
                config.alpha,
                config.tolerance,
                progress,
            )
        device = config.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        degrees = np.diff(indptr)
        size = np.log2(np.maximum(degrees, 1)).astype(np.int64)
        roles = 2 * size + (np.arange(len(degrees)) >= train.n_users)
        nodes, distances = _subgraphs(contexts, indptr, indices)
        encoder = SubgraphEncoder(nodes, distances, roles, config).to(device)
        optimiser = torch.optim.Adam(encoder.parameters(), lr=config.learning_rate)
        relative = intimacy / np.maximum(intimacy[:, :1], 1e-30)
        rng = np.random.default_rng(config.seed)
        linked = np.flatnonzero(contexts[:, 0] >= 0)
        batch = min(config.batch, len(linked))
        progress.start("structure recovery", config.steps)
        for _ in range(config.steps):
            first = rng.choice(linked, batch, replace=False)
            ranks = rng.integers(0, (contexts[first] >= 0).sum(axis=1))
            second = contexts[first, ranks].astype(np.int64)
            target = torch.from_numpy(relative[first, ranks]).to(device)
            first_vectors = encoder(torch.from_numpy(first))
            second_vectors = encoder(torch.from_numpy(second))
            loss = recovery_loss(first_vectors, second_vectors, target)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            progress.advance(1, loss=float(loss.detach()))
        users, items = np.split(encoder.encode_all(), [train.n_users])
        return self._embeddings(train, users, items)


def _subgraphs(
    contexts: Int32Array,
    indptr: Int64Array,
    indices: Int32Array,
) -> tuple[Int64Array, Int64Array]:
    """Nodes int64[n, k + 1], the node itself first and as padding, and their distances.

    Distances int64[n, k + 1]: 0 itself, 1 linked, 2 not linked.
    """
    n = len(contexts)
    node = np.arange(n)[:, None]
    nodes = np.concatenate([node, np.where(contexts >= 0, contexts, node)], axis=1)
    edges = np.repeat(np.arange(n), np.diff(indptr)) * n + indices
    keys = node * n + nodes
    at = np.minimum(np.searchsorted(edges, keys), max(len(edges) - 1, 0))
    linked = edges[at] == keys
    distances = np.where(nodes == node, 0, np.where(linked, 1, 2))
    return nodes.astype(np.int64), distances.astype(np.int64)


def recovery_loss(
    first: torch.Tensor,
    second: torch.Tensor,
    intimacy: torch.Tensor,
) -> torch.Tensor:
    """Return the mean squared error of cosines against intimacies.

    `first` and `second` are float[b, d]; pair i has `intimacy[i]`, pairs across lines 0. Both
    kinds weigh the same.
    """
    cosine = functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T
    pairs = (cosine.diagonal() - intimacy).square().mean()
    size = len(first)
    squares_across = cosine.square().sum() - cosine.diagonal().square().sum()
    across = squares_across / max(size * size - size, 1)
    return pairs + across


class SubgraphEncoder(nn.Module):
    """Node indices int64[b] to vectors float32[b, dim]."""

    attributes: torch.Tensor
    nodes: torch.Tensor
    distances: torch.Tensor
    roles: torch.Tensor

    def __init__(
        self,
        nodes: Int64Array,
        distances: Int64Array,
        roles: Int64Array,
        config: GraphBertConfig,
    ) -> None:
        super().__init__()
        dim = config.dim
        rng = np.random.default_rng([config.seed, 1])
        attributes = rng.standard_normal(
            (len(nodes), config.attributes),
            dtype=np.float32,
        )
        self.register_buffer("attributes", torch.from_numpy(attributes))
        self.register_buffer("nodes", torch.from_numpy(nodes))
        self.register_buffer("distances", torch.from_numpy(distances))
        self.register_buffer("roles", torch.from_numpy(roles))
        # Layers draw from torch's global generator when they are built.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(config.seed)
            self.from_attributes = nn.Linear(config.attributes, dim)
            self.from_role = nn.Embedding(int(roles.max()) + 1, dim)
            self.from_rank = nn.Embedding(nodes.shape[1], dim)
            self.from_distance = nn.Embedding(3, dim)
            layer = nn.TransformerEncoderLayer(
                dim,
                config.heads,
                2 * dim,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
            )
            self.encoder = nn.TransformerEncoder(
                layer,
                config.layers,
                enable_nested_tensor=False,
            )
        generator = torch.Generator().manual_seed(config.seed)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                deviation = parameter.shape[-1] ** -0.5
                nn.init.normal_(parameter, 0.0, deviation, generator=generator)

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
        return torch.as_tensor(self.encoder(tokens).mean(dim=1))

    @torch.no_grad()
    def encode_all(self, batch: int = 4096) -> Float32Array:
        """float32[n, dim]: every node."""
        self.eval()
        parts = torch.split(torch.arange(len(self.nodes)), batch)
        vectors = [self(part).float().cpu().numpy() for part in parts]
        return np.concatenate(vectors)


@kernel
def push(  # noqa: PLR0913 - a compiled kernel
    indptr: Int64Array,
    indices: Int32Array,
    source: np.int32,
    alpha: float,
    tolerance: float,
    settled: Float64Array,
    waiting: Float64Array,
    queue: Int32Array,
    queued: NDArray[np.uint8],
    touched: Int32Array,
) -> int:
    """Push forward from `source`; returns how many nodes are listed in `touched`.

    `settled` and `waiting` (float64[n]) are the estimates and the unpushed mass; they and `queued`
    are zero on entry, and the caller resets them on `touched`.
    """
    n = len(settled)
    n_touched = 1
    touched[0] = source
    queue[0] = source
    waiting[source] = 1.0
    queued[source] = 1
    head = 0
    tail = 1
    size = 1
    while size > 0:
        node = queue[head]
        head = head + 1 if head + 1 < n else 0
        size -= 1
        mass = waiting[node]
        waiting[node] = 0.0
        queued[node] = 0
        settled[node] += alpha * mass
        degree = indptr[node + 1] - indptr[node]
        if degree == 0:
            continue
        share = (1 - alpha) * mass / degree
        for at in range(indptr[node], indptr[node + 1]):
            other = indices[at]
            if waiting[other] == 0.0 and settled[other] == 0.0 and queued[other] == 0:
                touched[n_touched] = other
                n_touched += 1
            waiting[other] += share
            least_mass = tolerance * (indptr[other + 1] - indptr[other])
            if queued[other] == 0 and waiting[other] >= least_mass:
                queued[other] = 1
                queue[tail] = other
                tail = tail + 1 if tail + 1 < n else 0
                size += 1
    return n_touched


@kernel(parallel=True)
def _rows(  # noqa: PLR0913 - a compiled kernel
    indptr: Int64Array,
    indices: Int32Array,
    k: int,
    alpha: float,
    tolerance: float,
    lanes: int,
    begin: int,
    end: int,
    nodes: Int32Array,
    values: Float32Array,
) -> None:
    n = len(indptr) - 1
    for lane in numba.prange(lanes):
        settled = np.zeros(n)
        waiting = np.zeros(n)
        queue = np.empty(n, np.int32)
        touched = np.empty(n + 1, np.int32)
        queued = np.zeros(n, np.uint8)
        for source in range(begin + lane, end, lanes):
            count = push(
                indptr,
                indices,
                np.int32(source),
                alpha,
                tolerance,
                settled,
                waiting,
                queue,
                queued,
                touched,
            )
            for rank in range(k):
                best = -1
                best_value = 0.0
                for at in range(count):
                    node = touched[at]
                    # Of unpushed mass, the share alpha would settle there.
                    value = settled[node] + alpha * waiting[node]
                    better = value > best_value or (value == best_value and node < best)
                    if better and node != source:
                        best = node
                        best_value = value
                nodes[source, rank] = best
                values[source, rank] = best_value
                if best >= 0:
                    settled[best] = -1.0
                    waiting[best] = 0.0
            for node in touched[:count]:
                settled[node] = 0.0
                waiting[node] = 0.0


def intimate_nodes(
    indptr: Int64Array,
    indices: Int32Array,
    k: int,
    alpha: float,
    tolerance: float,
    progress: ProgressLike,
) -> tuple[Int32Array, Float32Array]:
    """int32[n, k] most intimate other nodes (best first, -1 pads) and float32[n, k] intimacies."""
    n = len(indptr) - 1
    chunk = 2048
    nodes = np.full((n, k), -1, np.int32)
    values = np.zeros((n, k), np.float32)
    lanes = numba.get_num_threads()
    progress.start("intimacy", -(-n // chunk))
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        _rows(
            indptr,
            indices,
            k,
            alpha,
            tolerance,
            lanes,
            begin,
            end,
            nodes,
            values,
        )
        progress.advance()
    return nodes, values
