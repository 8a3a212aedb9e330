"""`node2vec`: random walks on the bipartite user-item graph, then skip-gram."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.initializers.skipgram import (
    alias_table,
    merge_replicas,
    sigmoid_table,
    train_round,
)
from leporid.initializers.walks import bipartite_adjacency, count_visits
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding

__all__ = ["Node2Vec", "Node2VecConfig"]

_NODES_PER_REPLICA = 4096
"""Averaging replicas slows learning where every row is busy: small graphs get fewer of them."""


@dataclass(frozen=True, kw_only=True)
class Node2VecConfig(InitializerConfig):
    """Settings of `Node2Vec`."""

    walks: int = 10
    """Walks from every node (paper: 10)."""
    length: int = 80
    """Nodes of a walk (paper: 80)."""
    p: float = 1.0
    """Return parameter: large values avoid going straight back."""
    q: float = 1.0
    """In-out parameter: large values stay near. Two neighbours of a node are never linked in a
    bipartite graph, so here only the ratio of p and q counts."""
    window: int = 10
    """Positions on either side that count as context, shrunk at random."""
    negatives: int = 5
    """Negative samples a position, from the visits to the power 3/4."""
    epochs: int = 1
    """Passes over the walks."""
    step: float = 0.025
    """Learning rate at the start; it falls linearly to a thousandth of it."""
    replicas: int = 4
    """Copies trained side by side, at most one for 4096 nodes: the most threads used. They are
    part of the result: other numbers of copies give other vectors, other numbers of threads
    do not."""

    def validate(self) -> None:
        """Refuse impossible sizes."""
        super().validate()
        for name in ("walks", "window", "negatives", "epochs", "replicas"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.length < 2:
            raise ConfigError(f"length must be at least 2, not {self.length}")
        for name in ("p", "q", "step"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")


class Node2Vec(Initializer):
    """Walks are generated where they are used and never stored."""

    name = "node2vec"
    config_class = Node2VecConfig
    config: Node2VecConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        indptr, indices = bipartite_adjacency(train.csr())
        n = len(indptr) - 1
        rng = np.random.default_rng(config.seed)
        linked = np.flatnonzero(np.diff(indptr)).astype(np.int32)
        starts = np.concatenate([rng.permutation(linked) for _ in range(config.walks)])
        seed = np.uint64(config.seed)
        progress.start("counting visits", 1)
        visits = count_visits(
            indptr, indices, starts, config.length, config.p, config.q, seed,
            numba.get_num_threads(),
        )  # fmt: skip
        chance, other = alias_table(visits.astype(np.float64) ** 0.75)

        replicas = max(1, min(config.replicas, n // _NODES_PER_REPLICA))
        start = (rng.random((n, config.dim), dtype=np.float32) - np.float32(0.5)) / config.dim
        inputs = np.repeat(start[None].astype(np.float32), replicas, axis=0)
        outputs = np.zeros_like(inputs)
        used_in, used_out = (np.zeros((replicas, n), np.int32) for _ in range(2))
        # Short rounds keep the replicas together; a merge costs a pass over the tables.
        walks = int(np.clip(len(starts) // (replicas * 64), 1, 1024))
        firsts = range(0, len(starts), replicas * walks)
        sigmoid = sigmoid_table()
        rounds = config.epochs * len(firsts)
        progress.start("skip-gram", rounds)
        for number in range(rounds):
            epoch, turn = divmod(number, len(firsts))
            step = np.float32(config.step * max(1 - number / rounds, 1e-3))
            train_round(
                inputs, outputs, used_in, used_out, indptr, indices, starts,
                np.int64(firsts[turn]), np.int64(walks), config.length, config.p, config.q,
                config.window, config.negatives, chance, other, seed, np.int64(epoch), step,
                sigmoid,
            )  # fmt: skip
            if replicas > 1:
                merge_replicas(inputs, used_in)
                merge_replicas(outputs, used_out)
            progress.advance()
        vectors = inputs[0]
        vectors[np.diff(indptr) == 0] = 0.0
        provenance = self.provenance(train)
        return InitialEmbeddings(
            Embedding(vectors[: train.n_users].copy(), None, provenance),
            Embedding(vectors[train.n_users :].copy(), None, provenance),
        )
