"""New eigenvectors in old coordinates: the vectors of a log that has grown stay comparable.

Eigenvectors are unique up to their sign, and repeated ones up to a rotation among themselves. Both
are chosen to agree with the old vectors, which leaves every residual as it is. Eigenvectors with
*close* values also turn into each other as the data grows. No choice of signs undoes that, and
rotated they would be eigenvectors no more, so that rotation is kept apart: `procrustes` gives the
one that brings the whole new embedding as near to the old one as a rotation can.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.graph import Graph
from leporid.spectral.extension import Extension

Vectors = NDArray[np.floating[Any]]


def repeated_values(values: NDArray[np.float64], tol: float) -> list[slice]:
    """Runs of eigenvalues (descending) that lie within `tol`, as slices; most hold one."""
    cuts = [0]
    for place in range(1, len(values)):
        if values[cuts[-1]] - values[place] > tol:
            cuts.append(place)
    return [slice(*run) for run in pairwise([*cuts, len(values)])]


def procrustes(new: Vectors, old: Vectors) -> NDArray[np.float64]:
    """float64[d, d]: the orthogonal R with the smallest ||new R - old|| (both float[n, d])."""
    left, _, right = np.linalg.svd(new.T.astype(np.float64) @ old.astype(np.float64))
    return np.asarray(left @ right)


def align_columns(
    new: NDArray[np.float32], values: NDArray[np.float64], old: Vectors, tol: float
) -> NDArray[np.float32]:
    """Eigenvectors float32[n, d] with the signs of `old`, float[m, d] with m <= n.

    Vectors whose values lie within `tol` are rotated among themselves, which changes a residual by
    no more than that; a single one is at most flipped.
    """
    aligned = new.copy()
    for run in repeated_values(values, tol):
        turn = procrustes(new[: len(old), run], old[:, run])
        aligned[:, run] = new[:, run] @ turn.astype(np.float32)
    return aligned


class OldVectors(NamedTuple):
    """The vectors of an earlier fit, to start a solver from and to stay near to."""

    vectors: NDArray[np.float32]
    """float32[m, d], of the first m rows; zeros for a row that has none."""
    reference: Vectors
    """float[m, d]: the same in the coordinates to come back to."""
    extension: Extension | None = None
    """Where rows after the first m start from."""

    def start(self, graph: Graph) -> NDArray[np.float32]:
        """float32[n, d]: a block for the solver to start from."""
        m = len(self.vectors)
        if self.extension is None or graph.n == m:
            return self.vectors
        return np.vstack([self.vectors, self.extension.embed(graph.csr()[m:, :m])])
