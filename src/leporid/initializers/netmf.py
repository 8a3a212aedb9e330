"""`netmf`: DeepWalk as matrix factorisation, on the user and the item KNN graphs.

With P = D^-1 W, window T and b negative samples, DeepWalk implicitly factorises
log max(1, M), M = vol / (b T) (P + P^2 + ... + P^T) D^-1. For a large window M is taken from
the top eigenpairs (mu, q) of D^-1/2 W D^-1/2:
M = vol / b  D^-1/2 Q f(mu) Q^T D^-1/2, f(mu) = (mu + mu^2 + ... + mu^T) / T.
The embedding is U S^1/2 of the truncated SVD of log max(1, M).

Up to `DENSE_LIMIT` nodes that matrix is formed; above, only blocks of it ever exist: they are
made, used and dropped inside a block Krylov solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.initializers.log_operator import LogOperator, top_singular
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding

if TYPE_CHECKING:
    from leporid.graph.types import KnnGraph

__all__ = ["DENSE_LIMIT", "NetMF", "NetMFConfig", "deepwalk_factors", "deepwalk_filter"]

DENSE_LIMIT = 4096
"""Nodes up to which a dense n x n float64 matrix (134 MB) is formed; never above."""


@dataclass(frozen=True, kw_only=True)
class NetMFConfig(InitializerConfig):
    """Settings of `NetMF`."""

    k: int = 1000
    """Neighbours of a node in the KNN graph."""
    window: int = 10
    """T: the length of the walks' context (paper: 10)."""
    negatives: float = 1.0
    """b: negative samples a positive one."""
    rank: int = 256
    """Eigenpairs of the graph that approximate M."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the KNN graph and its eigenpairs are computed."""

    def validate(self) -> None:
        """Refuse impossible sizes."""
        super().validate()
        for name in ("k", "window", "rank"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.negatives > 0:
            raise ConfigError(f"negatives must be positive, not {self.negatives}")


class NetMF(Initializer):
    """The large-window variant; a node without edges gets the zero vector."""

    name = "netmf"
    config_class = NetMFConfig
    config: NetMFConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        from leporid.graph.knn import knn_graph

        matrix = train.csr()
        made = [
            self._side(
                knn_graph(X, k=self.config.k, device=self.config.device, progress=progress),
                self.provenance(train),
                progress,
            )
            for X in (matrix, matrix.T.tocsr())
        ]
        return InitialEmbeddings(made[0], made[1])

    def _side(
        self, graph: KnnGraph, provenance: dict[str, Any], progress: ProgressLike
    ) -> Embedding:
        config = self.config
        left, signs = deepwalk_factors(
            graph, config.window, config.negatives, config.rank, config.seed, config.device,
            progress,
        )  # fmt: skip
        found = top_singular(
            LogOperator(left, signs),
            min(config.dim, graph.n),
            dense=graph.n <= DENSE_LIMIT,
            seed=config.seed,
            progress=progress,
        )
        vectors = np.zeros((graph.n, config.dim), dtype=np.float32)
        vectors[:, : found.vectors.shape[1]] = found.vectors * np.sqrt(found.values)
        report = {
            "isolated": int(np.count_nonzero(np.diff(graph.indptr) == 0)),
            "residual": found.residual,
        }
        return Embedding(vectors, None, {**provenance, **report})


def deepwalk_filter(mu: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """f(mu) = (mu + mu^2 + ... + mu^T) / T of eigenvalues in [-1, 1]."""
    mu = np.clip(mu, -1.0, 1.0)
    total, power = np.zeros_like(mu), np.ones_like(mu)
    for _ in range(window):
        power = power * mu
        total += power
    return total / window


def deepwalk_factors(
    graph: KnnGraph,
    window: int,
    negatives: float,
    rank: int,
    seed: int = 0,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    progress: ProgressLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """L float32[n, h] and signs float32[h] with M = (L * signs) L^T.

    With h = n this is exactly M; eigenvalues near zero add nothing and f is negative only for
    negative ones, so the algebraically largest are those that count.
    """
    from leporid.spectral.eigenpairs import laplacian_eigenpairs

    degrees = graph.degrees()
    linked = int(np.count_nonzero(degrees))
    pairs = laplacian_eigenpairs(
        graph, max(1, min(rank, linked)), alpha=0.0, seed=seed, device=device, progress=progress
    )
    filtered = deepwalk_filter(pairs.values, window)
    inverse = np.zeros(graph.n)
    np.divide(1.0, np.sqrt(degrees), out=inverse, where=degrees > 0)
    weights = np.sqrt(np.abs(filtered) * (degrees.sum() / negatives))
    left = pairs.vectors.astype(np.float64) * inverse[:, None] * weights
    return left.astype(np.float32), np.sign(filtered).astype(np.float32)
