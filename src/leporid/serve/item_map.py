"""The picture of all items: two coordinates each, colours and the names of regions."""

from __future__ import annotations

import math
import re
from collections import Counter
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
from leporid.threads import one_thread_pool

_CLUSTERS = 10
_GENRES = 12
"""Genres with a colour of their own; the rest share one."""
_WORDS = 2
_SHARE = 0.1
"""Of a cluster's items must have a term before it names the cluster."""
_YEAR = re.compile(r"\((\d{3})\d\)\s*$")
_WORD = re.compile(r"[^\W\d_]{4,}")


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


def name_clusters(
    cluster: NDArray[np.int32], titles: Sequence[str], genres: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """A name for each number in `cluster`, all different, from genres, decades and title words.

    A term counts by its share among the cluster's items times the logarithm of how much larger
    that is than its share among all (its part of the Kullback-Leibler divergence).
    """
    terms = [
        {*own, *_WORD.findall(title), *(f"{decade}0s" for decade in _YEAR.findall(title))}
        for title, own in zip(titles, genres, strict=True)
    ]
    everywhere = Counter(term for own in terms for term in own)
    names: list[str] = []
    for number in range(int(cluster.max(initial=-1)) + 1):
        members = np.flatnonzero(cluster == number)
        inside = Counter(term for i in members for term in terms[i])
        weight = {
            term: count / len(members) * math.log(count * len(terms) / len(members) / total)
            for term, count in inside.items()
            if count >= max(2, _SHARE * len(members))
            for total in [everywhere[term]]
        }
        best = sorted((t for t in weight if weight[t] > 1e-9), key=lambda t: (-weight[t], t))
        shown = min(_WORDS, len(best))
        while ", ".join(best[:shown]) in names and shown < len(best):
            shown += 1
        name = ", ".join(best[:shown])
        names.append(f"cluster {number + 1}" if not name or name in names else name)
    return tuple(names)
