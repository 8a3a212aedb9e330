"""The picture of all items: two coordinates each, colours and the names of regions."""

from __future__ import annotations

import contextlib
import hashlib
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

from leporid.artifacts import cache_directory, read_arrays, write_arrays
from leporid.data import Interactions, rarest_genres
from leporid.errors import DataError, LeporidError
from leporid.initializers import truncated_svd
from leporid.models import read_trained
from leporid.threads import one_thread_pool

_CLUSTERS = 10
_GENRES = 12
"""Genres with a colour of their own; the rest share one."""
_WORDS = 2
_SHARE = 0.1
"""Of a cluster's items must have a term before it names the cluster."""
_YEAR = re.compile(r"\((\d{3})\d\)\s*$")
_WORD = re.compile(r"[^\W\d_]{4,}")
_TSNE_MOST = 10_000
"""Rows that t-SNE lays out: 3,300 take a processor 12 seconds, before a server first starts."""
_TSNE_LEAST = 10
"""Fewer rows than this have no neighbourhoods to preserve."""
_PERPLEXITY, _ROUNDS = 30, 500
NEIGHBOURS = "laid out so that items with similar vectors lie close together (t-SNE)"
PRINCIPAL = "laid out by the two principal components of its vector"


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
    """How the coordinates were computed: the end of the sentence "Each point is an item, "."""


def item_vectors(model_folder: Path, known: Interactions) -> NDArray[np.float32]:
    """float32[n_items, d]: the item table of a trained model, or an SVD of the log without one."""
    try:
        return read_trained(model_folder).items.vectors
    except LeporidError:
        # Models without embedding tables (neighbours, linear ones) get a map of the log.
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


def lay_out(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], str]:
    """float32[n, 2] within [-1, 1], and in words what they are.

    t-SNE keeps by far the most neighbours (benchmarks/records/map_layouts.json). Principal
    components replace it where scikit-learn is not installed, and for very few or very many rows.
    """
    if not _TSNE_LEAST <= len(vectors) <= _TSNE_MOST or vectors.shape[1] < 2:
        return _spread(_principal(vectors)), PRINCIPAL
    digest = hashlib.sha256(f"t-SNE 1 {vectors.shape}".encode())
    digest.update(np.ascontiguousarray(vectors, np.float32).data)
    folder = cache_directory()
    file = None if folder is None else folder / "maps" / f"{digest.hexdigest()}.safetensors"
    if file is not None and file.is_file():
        with contextlib.suppress(DataError):  # damaged: made again
            position = read_arrays(file)[0]["position"]
            if position.shape == (len(vectors), 2):
                return position, NEIGHBOURS
    try:
        position = _spread(_tsne(vectors))
    except ImportError:
        return _spread(_principal(vectors)), PRINCIPAL
    if file is not None:
        with contextlib.suppress(DataError, OSError):  # a disk nobody may write to
            write_arrays(file, {"position": position}, sealed=True)
    return position, NEIGHBOURS


def _tsne(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    with threadpool_limits(limits=1):  # many would fight with those that answer requests
        layout = TSNE(perplexity=perplexity, max_iter=_ROUNDS, random_state=0, n_jobs=1)
        return np.asarray(layout.fit_transform(vectors), np.float32)


def _principal(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    position = centred @ axes[:, ::-1][:, :2].astype(np.float32)
    return np.pad(position, ((0, 0), (0, 2 - position.shape[1])))


def _spread(position: NDArray[np.float32]) -> NDArray[np.float32]:
    """Into [-1, 1]; outliers are clipped to the edge, or they would squeeze all others together."""
    low, high = np.quantile(position, [0.005, 0.995], axis=0)
    reach = np.maximum((high - low) / 2, 1e-9)
    return np.asarray(np.clip((position - (low + high) / 2) / reach, -1, 1), dtype=np.float32)
