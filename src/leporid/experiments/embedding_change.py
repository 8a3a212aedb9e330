"""Figure 2 of the paper: nodes with few edges move most when one edge is added.

Barabasi-Albert graphs; for every node, edges to random non-neighbours are added one at a time, and
the node's Laplacian Eigenmaps embedding before and after is compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError
from leporid.progress import ProgressLike, make_progress
from leporid.threads import one_thread_pool

__all__ = ["EmbeddingChange", "barabasi_albert", "simulate_embedding_change"]


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
        from scipy.stats import spearmanr

        kept = self.count >= minimum_count
        return float(spearmanr(self.degree[kept], self.change[kept]).statistic)


def barabasi_albert(n: int, m: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """float64[n, n] adjacency: from m nodes without edges, each newcomer brings m edges.

    A newcomer picks m distinct nodes with probability proportional to their degree.
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
    progress: bool | ProgressLike | None = None,
) -> EmbeddingChange:
    """The paper's simulation: `insertions` random new edges at every node of every graph.

    Eigenvectors are matched in sign before they are compared; the change of a node is the
    l2 norm of the difference of its two rows.
    """
    reporter = make_progress(progress)
    reporter.start("embedding change", graphs)
    seeds = np.random.SeedSequence(seed).spawn(graphs)
    total = np.zeros(nodes)
    count = np.zeros(nodes, dtype=np.int64)
    with one_thread_pool(threads) as width, ThreadPoolExecutor(width) as pool:
        jobs = (
            pool.submit(_one_graph, child, nodes, edges, dim, insertions) for child in list(seeds)
        )
        for job in list(jobs):
            degree, change = job.result()
            np.add.at(total, degree, change)
            np.add.at(count, degree, 1)
            reporter.advance()
    reporter.close()
    seen = np.flatnonzero(count)
    return EmbeddingChange(seen, total[seen] / count[seen], count[seen])


def _one_graph(
    seed: np.random.SeedSequence, nodes: int, edges: int, dim: int, insertions: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Degree of every node and the mean change of its embedding."""
    rng = np.random.default_rng(seed)
    adjacency = barabasi_albert(nodes, edges, rng)
    degree = adjacency.sum(axis=1).astype(np.int64)
    before = _embed(adjacency[None], dim)[0]
    change = np.zeros(nodes)
    picks = np.zeros(nodes)
    for pairs, moved in _insert(adjacency, before, _draw(adjacency, insertions, rng), dim):
        # Adding the edge (i, j) is one decomposition, whichever end drew it, and both ends may.
        for end in (0, 1):
            np.add.at(change, pairs[:, end], moved[:, end] * pairs[:, 2 + end])
            np.add.at(picks, pairs[:, end], pairs[:, 2 + end])
    drawn = picks > 0
    return degree[drawn], change[drawn] / picks[drawn]


def _draw(
    adjacency: NDArray[np.float64], insertions: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """int64[p, 4]: i < j, and how often i and j each drew the new edge between them."""
    nodes = len(adjacency)
    drawn = np.zeros((nodes, nodes), dtype=np.int64)
    for node in range(nodes):
        free = np.flatnonzero(adjacency[node] == 0)
        free = free[free != node]
        if len(free):
            np.add.at(drawn[node], rng.choice(free, insertions), 1)
    i, j = np.nonzero(np.triu(drawn + drawn.T))
    return np.column_stack([i, j, drawn[i, j], drawn[j, i]])


def _insert(
    adjacency: NDArray[np.float64],
    before: NDArray[np.float64],
    pairs: NDArray[np.int64],
    dim: int,
    chunk: int = 256,
) -> Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """For chunks of pairs: how far the two ends of each new edge moved, float64[c, 2]."""
    for start in range(0, len(pairs), chunk):
        part = pairs[start : start + chunk]
        number = np.arange(len(part))
        changed = np.repeat(adjacency[None], len(part), axis=0)
        changed[number, part[:, 0], part[:, 1]] = 1.0
        changed[number, part[:, 1], part[:, 0]] = 1.0
        after = _embed(changed, dim)
        after *= np.where(np.einsum("nd,cnd->cd", before, after) < 0, -1.0, 1.0)[:, None, :]
        ends = after[number[:, None], part[:, :2]] - before[part[:, :2]]
        yield part, np.linalg.norm(ends, axis=2)


def _embed(adjacency: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """float64[c, n, dim]: Laplacian Eigenmaps of a stack of graphs, L_sym (Eq. 3), dense."""
    degree = adjacency.sum(axis=2)
    root = 1.0 / np.sqrt(degree)
    operator = adjacency * root[:, :, None] * root[:, None, :]
    _, vectors = np.linalg.eigh(operator)
    return np.ascontiguousarray(vectors[:, :, ::-1][:, :, :dim])
