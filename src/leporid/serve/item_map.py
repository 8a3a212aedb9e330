"""The picture of all items: two coordinates each, colours and the names of regions."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from leporid.artifacts import cache_directory, read_arrays, write_arrays
from leporid.data import rarest_genres
from leporid.errors import DataError, LeporidError
from leporid.evaluation import Catalogue
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


def item_vectors(model_folder: Path, catalogue: Catalogue) -> NDArray[np.float32]:
    """float32[n_items, d]: the item table of a trained model; the catalogue's without one."""
    try:
        return read_trained(model_folder).items.vectors
    except LeporidError:
        return catalogue.vectors


def item_map(
    vectors: NDArray[np.float32], titles: Sequence[str], genres: Sequence[tuple[str, ...]]
) -> dict[str, Any]:
    """A layout of the vectors' directions, with genres and named clusters as colours."""
    directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    position, layout = lay_out(directions)
    x, y = position.astype(float).round(4).T.tolist()
    names, genre = rarest_genres(genres, _GENRES)
    rng, k = np.random.default_rng(0), min(_CLUSTERS, len(vectors))
    _, cluster = kmeans2(directions.astype(np.float64), k, minit="++", rng=rng)
    answer = {"x": x, "y": y, "layout": layout, "genres": names, "genre": genre.tolist()}
    clusters = name_clusters(cluster, titles, genres)
    return {**answer, "cluster": cluster.tolist(), "clusters": clusters}


def name_clusters(
    cluster: NDArray[Any], titles: Sequence[str], genres: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """A name for each number in `cluster` int[n], all different: genres, decades, title words.

    A term counts by its part of the Kullback-Leibler divergence of the cluster's items from all.
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
            term: count * math.log(count * len(terms) / len(members) / everywhere[term])
            for term, count in inside.items()
            if count >= max(2, _SHARE * len(members))
        }
        best = sorted((t for t in weight if weight[t] > 1e-9), key=lambda t: (-weight[t], t))
        name = ", ".join(best[:_WORDS])
        names.append(name if name and name not in names else f"cluster {number + 1}")
    return tuple(names)


def lay_out(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], str]:
    """float32[n, 2] within [-1, 1], and in words what they are.

    t-SNE keeps by far the most neighbours (benchmarks/records/map_layouts.json).
    """
    if _TSNE_LEAST <= len(vectors) <= _TSNE_MOST and vectors.shape[1] > 1:
        with contextlib.suppress(ImportError):
            return _cached_tsne(vectors), NEIGHBOURS
    return _spread(_principal(vectors)), PRINCIPAL


def _cached_tsne(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    digest = hashlib.sha256(f"t-SNE 1 {vectors.shape}".encode())
    digest.update(np.ascontiguousarray(vectors, np.float32).data)
    folder = cache_directory()
    if folder is None:
        return _spread(_tsne(vectors))
    file = folder / "maps" / f"{digest.hexdigest()}.safetensors"
    with contextlib.suppress(DataError):  # absent, or damaged: made again
        position = read_arrays(file)[0]["position"]
        if position.shape == (len(vectors), 2):
            return position
    position = _spread(_tsne(vectors))
    with contextlib.suppress(DataError, OSError):  # a disk nobody may write to
        write_arrays(file, {"position": position}, sealed=True)
    return position


def _tsne(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    from sklearn.manifold import TSNE

    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    with one_thread_pool(1):  # many would fight with those that answer requests
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
