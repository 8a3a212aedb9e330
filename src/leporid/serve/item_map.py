"""The picture of all items: two coordinates each, and a colour."""

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
    """int32[n_items]: k-means cluster of the vectors."""


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


def item_map(vectors: NDArray[np.float32], genres: Sequence[tuple[str, ...]]) -> ItemMap:
    """Principal components of the vectors as coordinates, genres and clusters as colours."""
    names, genre = rarest_genres(genres, _GENRES)
    rng, k = np.random.default_rng(0), min(_CLUSTERS, len(vectors))
    _, cluster = kmeans2(vectors.astype(np.float64), k, minit="++", rng=rng)
    return ItemMap(_principal(vectors), genre, names, np.asarray(cluster, np.int32))


def _principal(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    position = centred @ axes[:, ::-1][:, :2].astype(np.float32)
    if position.shape[1] < 2:
        position = np.pad(position, ((0, 0), (0, 2 - position.shape[1])))
    # A few far items would squeeze all others into a dot: they stand at the edge instead.
    low, high = np.quantile(position, [0.005, 0.995], axis=0)
    reach = np.maximum((high - low) / 2, 1e-9)
    return np.asarray(np.clip((position - (low + high) / 2) / reach, -1, 1), dtype=np.float32)
