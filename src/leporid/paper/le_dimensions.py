"""Figure 1 of the paper: the first Laplacian Eigenmaps dimensions drawn on a graph.

Later dimensions change sign more often between neighbours: coarse structure first, fine later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.spectral.eigenpairs import laplacian_eigenpairs

__all__ = ["LeDimensions", "simulate_le_dimensions"]


@dataclass(frozen=True)
class LeDimensions:
    """A graph in the plane, and the value of each dimension at each node."""

    positions: NDArray[np.float64]
    """float64[n, 2]."""
    edges: NDArray[np.int64]
    """int64[m, 2]."""
    values: NDArray[np.float32]
    """float32[n, dimensions]."""

    def fluctuation(self) -> NDArray[np.float64]:
        """float64[dimensions]: mean squared difference across edges; grows with the dimension."""
        a, b = self.edges.T
        gap = self.values[a] - self.values[b]
        return np.asarray((gap.astype(np.float64) ** 2).mean(axis=0))


def simulate_le_dimensions(
    *, nodes_per_cluster: int = 12, clusters: int = 4, dimensions: int = 4, seed: int = 0
) -> LeDimensions:
    """Points in loose clusters on an arc, joined to their nearest neighbours in the plane."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(np.pi * 0.95, np.pi * 0.05, clusters)
    centres = np.column_stack([np.cos(angle), np.sin(angle)]) * 3.0
    points = np.repeat(centres, nodes_per_cluster, axis=0)
    points = points + rng.normal(scale=0.55, size=points.shape)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :4]
    n = len(points)
    weights = np.zeros((n, n), dtype=np.float32)
    weights[np.arange(n)[:, None], nearest] = 1.0
    weights = np.maximum(weights, weights.T)
    # One thin path joins the clusters, so that the graph is connected whatever the seed.
    for cluster in range(clusters - 1):
        a, b = cluster * nodes_per_cluster, (cluster + 1) * nodes_per_cluster
        block = distance[a:b, b : b + nodes_per_cluster]
        i, j = np.unravel_index(int(np.argmin(block)), block.shape)
        weights[a + i, b + j] = weights[b + j, a + i] = 1.0
    pairs = laplacian_eigenpairs(sparse.csr_array(weights), dimensions, alpha=0.0, solver="dense")
    edges = np.column_stack(np.nonzero(np.triu(weights)))
    return LeDimensions(points, edges, pairs.vectors)
