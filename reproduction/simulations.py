"""Figures 1 and 2 of the paper, as data.

Figure 1: the first Laplacian Eigenmaps dimensions on a graph in the plane. Later dimensions change
sign more often between neighbours: coarse structure first, fine later.

Figure 2: nodes with few edges move most when one edge is added. In Barabasi-Albert graphs edges to
random non-neighbours are added to every node, one at a time, and the node's Laplacian Eigenmaps
embedding before and after is compared.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import spearmanr

from leporid.embeddings import laplacian_eigenpairs
from leporid.errors import ConfigError
from leporid.foundation import one_thread_pool


@dataclass(frozen=True)
class LeDimensions:
    """A graph in the plane, and the value of each dimension at each node."""

    positions: NDArray[np.float64]
    """float64[n, 2]."""
    edges: NDArray[np.int64]
    """int64[m, 2]."""
    values: NDArray[np.float32]
    """float32[n, dimensions]."""


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
    weights = np.zeros(distance.shape, dtype=np.float32)
    np.put_along_axis(weights, nearest, 1.0, axis=1)
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


@dataclass(frozen=True)
class EmbeddingChange:
    """Mean change of a node's embedding by its degree before the insertion."""

    degree: NDArray[np.int64]
    """int64[m], ascending."""
    change: NDArray[np.float64]
    """float64[m], mean l2 norm of the change over all nodes of that degree."""
    count: NDArray[np.int64]
    """int64[m], nodes behind each mean."""

    def spearman(self, minimum_count: int = 5) -> float:
        """Rank correlation of degree and change, over degrees seen often enough to average."""
        kept = self.count >= minimum_count
        return float(spearmanr(self.degree[kept], self.change[kept]).statistic)


def barabasi_albert(n: int, m: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """float64[n, n] adjacency: from m nodes without edges, each new node brings m edges.

    A new node picks m distinct nodes with probability proportional to their degree.
    """
    if not 1 <= m < n:
        raise ConfigError(f"a Barabasi-Albert graph needs 1 <= m < n, not m = {m}, n = {n}")
    adjacency = np.zeros((n, n))
    ends: list[int] = []
    targets = list(range(m))
    for node in range(m, n):
        adjacency[node, targets] = adjacency[targets, node] = 1.0
        ends += targets + [node] * m
        chosen: dict[int, None] = {}
        while len(chosen) < m:
            chosen[ends[int(rng.integers(len(ends)))]] = None
        targets = list(chosen)
    return adjacency


def simulate_embedding_change(
    *,
    graphs: int = 50,
    nodes: int = 100,
    edges: int = 10,
    dim: int = 40,
    insertions: int = 30,
    seed: int = 0,
    threads: int | None = None,
) -> EmbeddingChange:
    """The paper's simulation: `insertions` random new edges at every node of every graph.

    Each new edge is added to the old graph alone.
    Eigenvectors are matched in sign before they are compared; the change of a node is the
    l2 norm of the difference of its two rows.
    """
    seeds = np.random.SeedSequence(seed).spawn(graphs)
    total = np.zeros(nodes)
    count = np.zeros(nodes, dtype=np.int64)
    with one_thread_pool(threads) as width, ThreadPoolExecutor(width) as pool:
        for degree, change in pool.map(
            lambda child: _one_graph(child, nodes, edges, dim, insertions), seeds
        ):
            np.add.at(total, degree, change)
            np.add.at(count, degree, 1)
    seen = np.flatnonzero(count)
    return EmbeddingChange(seen, total[seen] / count[seen], count[seen])


def _one_graph(
    seed: np.random.SeedSequence, nodes: int, edges: int, dim: int, insertions: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Degree of every node and the mean change of its embedding."""
    rng = np.random.default_rng(seed)
    adjacency = barabasi_albert(nodes, edges, rng)
    degree = adjacency.sum(axis=1).astype(np.int64)
    pairs = draw_insertions(adjacency, insertions, rng)
    moved = _moves(adjacency, pairs, dim)
    change = np.bincount(pairs.ravel(), moved.ravel(), nodes)
    times = np.bincount(pairs.ravel(), minlength=nodes)
    return degree[times > 0], change[times > 0] / times[times > 0]


def draw_insertions(
    adjacency: NDArray[np.float64], insertions: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """int64[p, 2]: random new edges, each once, so many that every node is an end of `insertions`.

    A new edge moves both its ends, so an edge another node has drawn counts for this one too, and
    nodes that still lack insertions are drawn before others. A node with fewer non-neighbours than
    `insertions` is joined to all of them.
    """
    nodes = len(adjacency)
    free = (adjacency == 0) & ~np.eye(nodes, dtype=bool)
    ends = np.zeros(nodes, dtype=np.int64)
    pairs: list[tuple[int, int]] = []
    for node in rng.permutation(nodes):
        options = rng.permutation(np.flatnonzero(free[node]))
        options = options[np.argsort(ends[options] >= insertions, kind="stable")]
        chosen = options[: max(insertions - int(ends[node]), 0)]
        free[node, chosen] = free[chosen, node] = False
        ends[chosen] += 1
        ends[node] += len(chosen)
        pairs += [(int(node), int(other)) for other in chosen]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _moves(
    adjacency: NDArray[np.float64], pairs: NDArray[np.int64], dim: int, chunk: int = 16
) -> NDArray[np.float64]:
    """float64[p, 2]: how far the two ends of each new edge moved, each added to the old graph.

    `chunk` matrices of 100 x 100 stay in a core's own cache; a few hundred take a third longer.
    """
    before = _embed(adjacency[None], dim)[0]
    moved = np.empty(pairs.shape)
    for first in range(0, len(pairs), chunk):
        part = pairs[first : first + chunk]
        number = np.arange(len(part))
        changed = np.repeat(adjacency[None], len(part), axis=0)
        changed[number, part[:, 0], part[:, 1]] = 1.0
        changed[number, part[:, 1], part[:, 0]] = 1.0
        after = _embed(changed, dim)
        after *= np.where(np.einsum("nd,cnd->cd", before, after) < 0, -1.0, 1.0)[:, None, :]
        ends = after[number[:, None], part] - before[part]
        moved[first : first + chunk] = np.linalg.norm(ends, axis=2)
    return moved


def _embed(adjacency: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """float64[c, n, dim]: Laplacian Eigenmaps of a stack of graphs, L_sym (Eq. 3), dense."""
    root = 1.0 / np.sqrt(adjacency.sum(axis=2))
    operator = adjacency * root[:, :, None] * root[:, None, :]
    _, vectors = np.linalg.eigh(operator)
    return np.ascontiguousarray(vectors[:, :, ::-1][:, :, :dim])
