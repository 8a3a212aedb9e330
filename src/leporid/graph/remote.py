"""Graphs that other processes build and keep: what `fit(client=...)` takes and what it gets."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph.types import Graph
from leporid.progress import ProgressLike


class RemoteGraph(Graph, Protocol):
    """A graph whose edges stay in other processes until `release`."""

    @property
    def thresholds(self) -> NDArray[np.float32]:
        """float32[n]: the k-th similarity of each row, 0 where it has fewer neighbours."""

    def release(self) -> None:
        """Free what the other processes hold; there are no products afterwards."""


@runtime_checkable
class GraphBuilder(Protocol):
    """Builds the KNN graph of interactions elsewhere."""

    def knn_graph(
        self, rows: sparse.csr_array, k: int, *, device: str, solver: str, progress: ProgressLike
    ) -> RemoteGraph:
        """The KNN graph of the rows of csr[n, m]; settings it cannot honour are refused first."""
