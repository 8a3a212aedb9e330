"""`netmf`: DeepWalk as matrix factorisation, on the user and the item kNN graphs.

With P = D^-1 W, window T and b negative samples, DeepWalk implicitly factorises
log max(1, M), M = vol / (b T) (P + P^2 + ... + P^T) D^-1. For a large window M is taken from
the top eigenpairs (mu, q) of D^-1/2 W D^-1/2:
M = vol / b  D^-1/2 Q f(mu) Q^T D^-1/2, f(mu) = (mu + mu^2 + ... + mu^T) / T.
The embedding is U S^1/2 of the truncated SVD of log max(1, M).

Up to `DENSE_LIMIT` nodes that matrix is formed; above, a block Krylov solver makes blocks of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from leporid.data import Interactions
from leporid.embeddings.arrays import Float32Array, Float64Array
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.eigenpairs import (
    Device,
    column_signs,
    laplacian_eigenpairs,
)
from leporid.embeddings.vectors import Embedding, InitialEmbeddings, padded
from leporid.foundation import (
    JsonValue,
    ProgressLike,
    on_each_share,
    resolve_threads,
    setting,
)
from leporid.graph import KnnGraph, knn_graph

DENSE_LIMIT = 4096
"""Nodes up to which a dense n x n float64 matrix (134 MB) is formed."""
_BLOCK = 2048
"""Rows and columns of one block: 16 MB of float32."""
_OVERSAMPLE = 16
"""Columns of a block of the Krylov space beyond the vectors asked for."""
_STEPS = 10
"""Most blocks of the Krylov space."""
_TOLERANCE = 1e-4
"""Residual at which the Krylov space is large enough."""


@dataclass(frozen=True, kw_only=True)
class NetMFConfig(InitializerConfig):
    k: int = setting(1000, at_least=1)
    """Neighbours of a node in the kNN graph."""
    window: int = setting(10, at_least=1)
    """T: the length of the walks' context (paper: 10)."""
    negatives: float = setting(1.0, above=0)
    """b: negative samples per positive one."""
    rank: int = setting(256, at_least=1)
    """Eigenpairs of the graph that approximate M."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device on which the kNN graph and its eigenpairs are computed."""


class NetMF(Initializer):
    """The large-window variant; a node without edges gets the zero vector."""

    name = "netmf"
    config_class = NetMFConfig
    config: NetMFConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        matrix = train.csr()
        provenance = self.provenance(train)
        users = self._embed(matrix, provenance, progress)
        items = self._embed(matrix.T.tocsr(), provenance, progress)
        return InitialEmbeddings(users, items)

    def _embed(
        self,
        matrix: sparse.csr_array,
        provenance: Mapping[str, JsonValue],
        progress: ProgressLike,
    ) -> Embedding:
        """Embed the rows of csr[n, m] `matrix`."""
        config = self.config
        graph = knn_graph(matrix, k=config.k, device=config.device, progress=progress)
        left, signs = deepwalk_factors(
            graph,
            config.window,
            config.negatives,
            config.rank,
            seed=config.seed,
            device=config.device,
            progress=progress,
        )
        values, vectors, residual = top_singular(
            LogOperator(left, signs),
            min(config.dim, graph.n),
            dense=graph.n <= DENSE_LIMIT,
            seed=config.seed,
            progress=progress,
        )
        # These rows of the matrix are zero; the solver leaves rounding errors.
        vectors[np.diff(graph.indptr) == 0] = 0.0
        return Embedding(
            padded(vectors * np.sqrt(values), config.dim),
            None,
            {**provenance, "residual": residual},
        )


def deepwalk_filter(mu: Float64Array, window: int) -> Float64Array:
    """f(mu) = (mu + mu^2 + ... + mu^T) / T of eigenvalues in [-1, 1]."""
    powers = np.cumprod(np.tile(np.clip(mu, -1.0, 1.0), (window, 1)), axis=0)
    return np.asarray(np.cumsum(powers, axis=0)[-1] / window)


def deepwalk_factors(
    graph: KnnGraph,
    window: int,
    negatives: float,
    rank: int,
    *,
    seed: int = 0,
    device: Device = "auto",
    progress: bool | ProgressLike | None = None,
) -> tuple[Float32Array, Float32Array]:
    """L float32[n, h] and signs float32[h] with M = (L * signs) L^T.

    With h = n this is exactly M. `seed`, `device` and `progress` are those of
    `laplacian_eigenpairs`.
    """
    degrees = graph.degrees()
    rank = max(1, min(rank, int(np.count_nonzero(degrees))))
    pairs = laplacian_eigenpairs(
        graph,
        rank,
        alpha=0.0,
        seed=seed,
        device=device,
        progress=progress,
    )
    filtered = deepwalk_filter(pairs.values, window)
    inverse = np.divide(
        1.0,
        np.sqrt(degrees),
        out=np.zeros(graph.n),
        where=degrees > 0,
    )
    weights = np.sqrt(np.abs(filtered) * (degrees.sum() / negatives))
    left = pairs.vectors.astype(np.float64) * inverse[:, None] * weights
    return left.astype(np.float32), np.sign(filtered).astype(np.float32)


class LogOperator:
    """Y = log max(1, (L * signs) L^T), symmetric, float32, applied to blocks of vectors."""

    def __init__(self, left: Float32Array, signs: Float32Array) -> None:
        self._left = left
        self._right = np.ascontiguousarray((left * signs).T)
        self.n = left.shape[0]

    def apply(self, vectors: Float32Array) -> Float32Array:
        """float32[n, m]: Y times float32[n, m]. Blocks below the diagonal are not computed."""
        out = np.zeros_like(vectors)
        for first_row in range(0, self.n, _BLOCK):
            rows = slice(first_row, first_row + _BLOCK)
            for first_column in range(first_row, self.n, _BLOCK):
                columns = slice(first_column, first_column + _BLOCK)
                block = self._left[rows] @ self._right[:, columns]
                _log_in_place(block)
                out[rows] += block @ vectors[columns]
                if first_column > first_row:
                    out[columns] += block.T @ vectors[rows]
        return out

    def dense(self) -> Float64Array:
        """float64[n, n]: Y itself."""
        product = self._left.astype(np.float64) @ self._right.astype(np.float64)
        return np.asarray(np.log(np.maximum(product, 1.0)))


def _log_in_place(block: Float32Array) -> None:
    """log max(1, x) of every entry, on threads: numpy releases the GIL."""

    def work(_: int, begin: int, end: int) -> None:
        part = block[begin:end]
        np.log(np.maximum(part, np.float32(1.0), out=part), out=part)

    on_each_share(work, 0, len(block), resolve_threads(None))


def top_singular(
    operator: LogOperator,
    dim: int,
    *,
    dense: bool,
    seed: int = 0,
    progress: ProgressLike,
) -> tuple[Float64Array, Float32Array, float]:
    """Singular values float64[d], descending, and vectors float32[n, d] of Y, and a residual.

    The residual is the largest ||Y u - lambda u|| over the largest singular value. `dense` takes
    LAPACK (residual 0). Otherwise a block Krylov space grows, fully reorthogonalised, until the
    residual is at most 1e-4, for at most 10 steps.
    """
    n = operator.n
    width = dim + _OVERSAMPLE
    if dense or 3 * width >= n:
        values, vectors = np.linalg.eigh(operator.dense())
        order = np.argsort(-np.abs(values), kind="stable")[:dim]
        vectors = vectors[:, order].astype(np.float32)
        return np.abs(values[order]), vectors * column_signs(vectors), 0.0
    block = np.random.default_rng(seed).standard_normal((n, width), dtype=np.float32)
    block, _ = np.linalg.qr(block)
    basis = np.empty((n, 0), dtype=np.float32)
    images = np.empty((n, 0), dtype=np.float32)
    limit = min(_STEPS, n // width)
    progress.start("singular vectors", limit)
    for step in range(limit):
        image = operator.apply(block)
        basis = np.hstack([basis, block])
        images = np.hstack([images, image])
        projected = (basis.T @ images).astype(np.float64)
        values, mixing = np.linalg.eigh((projected + projected.T) / 2)
        order = np.argsort(-np.abs(values), kind="stable")[:dim]
        values = values[order]
        largest = mixing[:, order].astype(np.float32)
        vectors = basis @ largest
        differences = images @ largest - vectors * values.astype(np.float32)
        errors = np.linalg.norm(differences, axis=0)
        residual = float(errors.max() / max(abs(values[0]), 1e-30))
        progress.advance(1, residual=residual)
        if residual <= _TOLERANCE or step + 1 == limit:
            break
        for _ in range(2):
            image = image - basis @ (basis.T @ image)
        block, _ = np.linalg.qr(image)
    return np.abs(values), vectors * column_signs(vectors), residual
