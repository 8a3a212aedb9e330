"""The picture of all items: two coordinates each, colours and the names of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.vq import kmeans2

from leporid.data import Interactions, rarest_genres
from leporid.errors import LeporidError
from leporid.initializers import truncated_svd
from leporid.models import read_trained
from leporid.serve.layout import lay_out
from leporid.serve.regions import name_clusters
from leporid.threads import one_thread_pool

_CLUSTERS = 10
_GENRES = 12
"""Genres with a colour of their own; the rest share one."""


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Where each item lies, and which group it belongs to."""

    position: NDArray[np.float32]
    """float32[n_items, 2], within [-1, 1]."""
    genre: NDArray[np.int32]
    """int32[n_items]: index into `genres`; -1 where titles come without genres."""
    genres: tuple[str, ...]
    cluster: NDArray[np.int32]
    """int32[n_items]: k-means cluster of the vectors, an index into `clusters`."""
    clusters: tuple[str, ...]
    layout: str
    """How the items were placed: the end of the sentence "Each point is an item, "."""


def item_vectors(model_folder: Path, known: Interactions) -> NDArray[np.float32]:
    """float32[n_items, d]: the item table of a trained model, or an SVD of the log without one."""
    try:
        return read_trained(model_folder).items.vectors
    except LeporidError:
        # Models without embedding tables (neighbours, linear ones) still deserve a map.
        matrix = known.csr()
        popularity = np.maximum(np.asarray(matrix.sum(axis=0)).ravel(), 1)
        scaled = matrix @ sparse.diags_array(1 / np.sqrt(popularity))
        with one_thread_pool(1):  # many would fight with those that answer requests
            _, value, items = truncated_svd(scaled, 32)
        return (items * value).astype(np.float32)


def item_map(
    vectors: NDArray[np.float32], titles: Sequence[str], genres: Sequence[tuple[str, ...]]
) -> ItemMap:
    """A layout of the vectors' directions, with genres and named clusters as colours."""
    directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    position, layout = lay_out(directions)
    names, genre = rarest_genres(genres, _GENRES)
    rng, k = np.random.default_rng(0), min(_CLUSTERS, len(vectors))
    _, labels = kmeans2(directions.astype(np.float64), k, minit="++", rng=rng)
    cluster = np.asarray(labels, np.int32)
    clusters = name_clusters(cluster, titles, genres)
    return ItemMap(position, genre, names, cluster, clusters, layout)
