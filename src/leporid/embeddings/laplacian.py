"""Degrees, popularity regularisation, and the operator whose top eigenvectors are computed.

With d = W 1 and d_max its largest entry, popularity regularisation replaces the degrees by

    d_reg = (1 - alpha) d + alpha d_max,

and the normalised Laplacian becomes L_regsym = I - A with A = D_reg^-1/2 W D_reg^-1/2. Its
smallest eigenvectors are the algebraically largest of A. Laplacian Eigenmaps is alpha = 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import get_num_threads as num_threads

from leporid.embeddings.arrays import BoolArray, Float64Array, FloatArray
from leporid.errors import ConfigError
from leporid.foundation import on_each_share, on_each_thread
from leporid.graph import BLOCK, Graph, KnnGraph, add_rows, even_shares, huge_zeros

Product: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], None]
"""`product(x, scaled, out)`: out = M x for float[>= n, 16]; rows past n are zero; `scaled` is work
space. Float32 or float64 throughout, as x is."""


def regularized_degrees(
    degrees: Float64Array,
    alpha: float,
) -> Float64Array:
    """float64[n]: d_reg = (1 - alpha) d + alpha d_max."""
    if not 0.0 <= alpha <= 1.0:
        raise ConfigError(f"alpha must lie in [0, 1], not {alpha}")
    return (1.0 - alpha) * degrees + alpha * float(degrees.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class LaplacianOperator:
    """M = S W S + diag(diagonal): A itself, or the shifted negative of the unnormalised L_reg.

    The scaling is applied to the vectors, never to a copy of the edges.
    """

    graph: Graph
    scale: Float64Array
    """float64[n]: the diagonal of S. D_reg^-1/2, or ones; zero for nodes without edges."""
    diagonal: Float64Array
    """float64[n]: zeros, or shift - d_reg."""
    shift: float
    """eigenvalue of M minus this = the eigenvalue reported (0 for A)."""
    norm: float
    """A bound on the largest |eigenvalue|; residuals are divided by it (1 for A)."""
    active: BoolArray
    """bool[n]: nodes that have an edge; the others get the zero vector."""

    @property
    def n(self) -> int:
        return self.graph.n

    @property
    def n_active(self) -> int:
        return int(self.active.sum())

    def product(self) -> Product:
        """Return x -> M x, by our kernel where the edges are here, else by the graph itself."""
        graph = self.graph
        if not isinstance(graph, KnnGraph):
            return self._remote_product
        n = graph.n
        threads = num_threads()
        ends = even_shares(graph.indptr, threads)

        def product(x: FloatArray, scaled: FloatArray, out: FloatArray) -> None:
            scale = _column(self.scale, x)
            diagonal = _column(self.diagonal, x)

            def enter(_: int, begin: int, end: int) -> None:
                share = scaled[begin:end]
                np.multiply(scale[begin:end], x[begin:end], out=share)

            def multiply(thread: int) -> None:
                begin, end = ends[thread : thread + 2]
                share = out[begin:end]
                share[:] = 0.0
                add_rows(
                    graph.indptr,
                    graph.indices,
                    graph.weights,
                    begin,
                    end,
                    scaled,
                    out,
                )
                share *= scale[begin:end]
                if diagonal[begin:end].any():
                    share += diagonal[begin:end] * x[begin:end]

            on_each_share(enter, 0, n, threads)
            on_each_thread(multiply, threads)
            out[n:] = 0.0

        return product

    def _remote_product(
        self, x: FloatArray, scaled: FloatArray, out: FloatArray
    ) -> None:
        n = self.n
        scale = _column(self.scale, x)
        diagonal = _column(self.diagonal, x)
        np.multiply(scale, x[:n], out=scaled[:n])
        np.multiply(scale, self.graph.product(scaled[:n]), out=out[:n])
        out[:n] += diagonal * x[:n]
        out[n:] = 0.0

    def dense(self) -> Float64Array:
        """float64[n_active, n_active]: M on the nodes that have an edge."""
        dense: Float64Array = self.graph.csr().astype(np.float64).toarray()
        dense *= self.scale[:, None] * self.scale
        dense[np.diag_indices(self.n)] += self.diagonal
        return dense[np.ix_(self.active, self.active)]


def _column(numbers: Float64Array, x: FloatArray) -> FloatArray:
    """float[n, 1]: one number per row of x, in the precision of x."""
    return numbers.astype(x.dtype)[:, None]


def laplacian_operator(
    graph: Graph,
    alpha: float = 0.5,
    normalized: bool = True,
) -> LaplacianOperator:
    """Return the operator whose algebraically largest eigenvectors are the embedding.

    Normalised: A. Unnormalised: M = shift I - L_reg with L_reg = (1 - alpha) D - W + alpha d_max I
    and shift = 2 max(d_reg), so that the smallest eigenvalues of L_reg are the largest of M.
    """
    degrees = graph.degrees()
    regularized = regularized_degrees(degrees, alpha)
    active = degrees > 0.0
    scale = np.zeros(graph.n)
    if normalized:
        np.divide(1.0, np.sqrt(regularized), out=scale, where=active)
        return LaplacianOperator(graph, scale, np.zeros(graph.n), 0.0, 1.0, active)
    scale[active] = 1.0
    shift = 2.0 * float(regularized.max(initial=0.0))
    diagonal = np.where(active, shift - regularized, 0.0)
    return LaplacianOperator(graph, scale, diagonal, shift, max(shift, 1e-300), active)


def wide_product(product: Product, x: FloatArray) -> Float64Array:
    """float64[n, d]: M X with every product and sum in float64, 16 columns at a time."""
    image = np.empty(x.shape)
    part = huge_zeros((len(x), BLOCK), np.float64)
    scaled = huge_zeros((len(x), BLOCK), np.float64)
    out = huge_zeros((len(x), BLOCK), np.float64)
    for start in range(0, x.shape[1], BLOCK):
        columns = x[:, start : start + BLOCK]
        width = columns.shape[1]
        part[:, :width] = columns
        part[:, width:] = 0.0
        product(part, scaled, out)
        image[:, start : start + BLOCK] = out[:, :width]
    return image
