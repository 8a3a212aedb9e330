"""The picture of all items: two coordinates each, and a colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import LeporidError

__all__ = ["ItemMap", "item_map", "item_vectors"]

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


def item_vectors(model_folder: Path, interactions: sparse.csr_array) -> NDArray[np.float32]:
    """The item table of a trained model; without one, the left-out choice is an SVD of the log.

    Parameters
    ----------
    interactions : float32[n_users, n_items]
    """
    from leporid.models.shared.trained import read_trained

    try:
        return read_trained(model_folder).items.vectors
    except LeporidError:
        # Models without embedding tables (neighbours, linear ones) still deserve a map.
        return _svd_vectors(interactions)


def _svd_vectors(interactions: sparse.csr_array) -> NDArray[np.float32]:
    dim = min(32, *(size - 1 for size in interactions.shape))
    if dim < 1:
        return np.zeros((interactions.shape[1], 2), np.float32)
    count = np.maximum(np.asarray(interactions.sum(axis=0)).ravel(), 1)
    scaled = (interactions @ sparse.diags_array(1 / np.sqrt(count))).astype(np.float32)
    start = np.random.default_rng(0).normal(size=min(scaled.shape)).astype(np.float32)
    _, value, right = sparse.linalg.svds(scaled, k=dim, v0=start)
    return np.ascontiguousarray((right * value[:, None]).T, dtype=np.float32)


def item_map(vectors: NDArray[np.float32], genres: Sequence[tuple[str, ...]]) -> ItemMap:
    """Principal components of the vectors as coordinates, genres and clusters as colours."""
    names, genre = _genres(genres)
    return ItemMap(_principal(vectors), genre, names, _clusters(vectors))


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


def _clusters(vectors: NDArray[np.float32]) -> NDArray[np.int32]:
    from scipy.cluster.vq import kmeans2

    k = min(_CLUSTERS, len(vectors))
    _, label = kmeans2(vectors.astype(np.float64), k, minit="++", rng=np.random.default_rng(0))
    return np.asarray(label, dtype=np.int32)


def _genres(genres: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Each item's rarest common genre: 'Drama' on everything would say little."""
    count = Counter(name for names in genres for name in names)
    if not count:
        return (), np.full(len(genres), -1, np.int32)
    common = [name for name, _ in count.most_common(_GENRES)]
    index = [
        common.index(min((g for g in names if g in common), key=lambda g: count[g]))
        if any(g in common for g in names)
        else len(common)
        for names in genres
    ]
    rest = ("other",) if len(common) in index else ()
    return (*common, *rest), np.asarray(index, dtype=np.int32)
