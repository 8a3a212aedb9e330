"""Graphs the spectral tests share, and the dense oracle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph import KnnGraph, NearestRows


def random_graph(n: int, degree: float, seed: int) -> sparse.csr_array:
    """A weighted random graph with uneven degrees: low-numbered nodes are hubs."""
    rng = np.random.default_rng(seed)
    m = max(1, int(n * degree / 2))
    one = (rng.random(m) ** 2 * n).astype(np.int64)
    other = rng.integers(0, n, m)
    upper = sparse.coo_array((rng.uniform(0.05, 1.0, m), (one, other)), shape=(n, n)).tocsr()
    upper.setdiag(0.0)
    graph = upper.maximum(upper.T).tocsr()
    graph.eliminate_zeros()
    return graph.astype(np.float32)


def community_graph(n: int, communities: int, seed: int) -> sparse.csr_array:
    """Communities of uneven sizes on a weak background: a spectrum with a gap after them."""
    rng = np.random.default_rng(seed)
    of = (rng.random(n) ** 1.5 * communities).astype(np.int64)
    member = sparse.csr_array((np.ones(n), (np.arange(n), of)), shape=(n, communities))
    inside = (member @ member.T).tocoo()
    keep = (inside.row < inside.col) & (rng.random(inside.nnz) < 0.3)
    weights = rng.uniform(0.2, 1.0, int(keep.sum()))
    strong = sparse.coo_array((weights, (inside.row[keep], inside.col[keep])), shape=(n, n))
    graph = (strong + strong.T).tocsr() + 0.05 * random_graph(n, 6.0, seed + 1)
    return sparse.csr_array(graph, dtype=np.float32)


def cliques(size: int, count: int) -> sparse.csr_array:
    """Disjoint equal cliques: every eigenvalue is repeated `count` times or more."""
    one = np.ones((size, size)) - np.eye(size)
    return sparse.csr_array(sparse.block_diag([0.5 * one] * count, format="csr"))


def jaccard_graph(X: sparse.csr_array, k: int) -> KnnGraph:
    """Brute-force Jaccard top-k, OR-symmetrised: ties to the smaller index."""
    dense = (X.toarray() != 0).astype(np.float64)
    common = dense @ dense.T
    sizes = dense.sum(axis=1)
    union = sizes[:, None] + sizes - common
    similarity = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    similarity = similarity.astype(np.float32)
    np.fill_diagonal(similarity, 0.0)
    k = min(k, len(dense) - 1)
    chosen = np.zeros(similarity.shape, dtype=bool)
    order = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    np.put_along_axis(chosen, order, True, axis=1)
    weights = sparse.csr_array(np.where(chosen | chosen.T, similarity, 0.0))
    weights.sort_indices()
    return KnnGraph(
        weights.indptr.astype(np.int64), weights.indices.astype(np.int32), weights.data, "rows", k
    )


def oracle(
    W: sparse.csr_array, alpha: float, normalized: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All eigenpairs, largest first, straight from the definitions, on nodes with edges."""
    dense = W.toarray().astype(np.float64)
    degrees = dense.sum(axis=1)
    active = degrees > 0
    d_reg = (1 - alpha) * degrees + alpha * degrees.max(initial=0.0)
    if normalized:
        root = np.sqrt(d_reg[active])
        matrix = dense[np.ix_(active, active)] / root[:, None] / root
    else:
        matrix = -(np.diag(d_reg) - dense)[np.ix_(active, active)]
    values, compact = np.linalg.eigh(matrix)
    vectors = np.zeros((len(dense), len(values)))
    vectors[active] = compact
    return values[::-1], vectors[:, ::-1]


def largest_angle(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """The largest principal angle between two column spaces, in radians."""
    one, _ = np.linalg.qr(one.astype(np.float64))
    other, _ = np.linalg.qr(other.astype(np.float64))
    sine = np.linalg.norm(one - other @ (other.T @ one), ord=2)
    return float(np.arcsin(min(1.0, sine)))


def neighbour_weights(
    new: sparse.csr_array, fitted: sparse.csr_array, k: int, thresholds: NDArray[np.float32]
) -> sparse.csr_array:
    """csr[m, n]: the rows of W that new rows would have, by the same OR rule."""
    every_row = np.eye(fitted.shape[0], dtype=np.float32)
    blocks = NearestRows(fitted, thresholds, 1).sums(new, every_row, k)
    return sparse.csr_array(np.vstack([sums for _, sums, _ in blocks]))


class GraphElsewhere:
    """A `Graph` around one that is here: only what the protocol has, and what was asked."""

    def __init__(self, graph: KnnGraph) -> None:
        self._graph = graph
        self.products = 0

    @property
    def n(self) -> int:
        return self._graph.n

    @property
    def n_edges(self) -> int:
        return self._graph.n_edges

    @property
    def k(self) -> int:
        return self._graph.k

    def degrees(self) -> NDArray[np.float64]:
        return self._graph.degrees()

    def csr(self) -> sparse.csr_array:
        return self._graph.csr()

    def product(self, block: NDArray[np.floating]) -> NDArray[np.floating]:
        self.products += 1
        return self._graph.product(block)
