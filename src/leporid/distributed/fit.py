"""The way from an estimator to a cluster."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from leporid.distributed.cluster import Cluster
from leporid.distributed.graph import BlockGraph
from leporid.errors import ConfigError
from leporid.graph.matrix import members_of
from leporid.progress import ProgressLike

__all__ = ["cluster_graph"]


def cluster_graph(
    client: Any, rows: sparse.csr_array, k: int, device: str, solver: str, progress: ProgressLike
) -> BlockGraph:
    """The KNN graph of csr[n, m] on the workers of `client`, for `laplacian_eigenpairs`.

    Settings that have no meaning there are refused before any work is done.
    """
    if device == "cuda":
        raise ConfigError("workers of a Dask cluster compute on their CPUs: use device='auto'")
    if solver == "arpack":
        raise ConfigError("solver='arpack' multiplies single vectors: use 'lanczos' with client=")
    return BlockGraph.build(Cluster(client), members_of(rows), k, progress)
