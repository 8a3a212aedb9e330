"""Two coordinates per vector such that neighbours stay neighbours; computed once and cached."""

from __future__ import annotations

import contextlib
import hashlib

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import cache_directory, read_arrays, write_arrays
from leporid.errors import DataError

_MOST = 10_000
"""Rows that t-SNE lays out: 3,300 take a processor 12 seconds, before a server first starts."""
_FEW = 10
"""Fewer rows than this have no neighbourhoods to preserve."""
_PERPLEXITY, _ROUNDS = 30, 500
NEIGHBOURS = "placed so that items with similar vectors lie close together (t-SNE)"
PRINCIPAL = "placed by the two main directions of its vector"


def lay_out(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], str]:
    """float32[n, 2] within [-1, 1], and in words how each row was placed.

    t-SNE keeps by far the most neighbours (benchmarks/records/map_layouts.json). Principal
    components take its place where scikit-learn is not installed, and for very few or very many
    rows.
    """
    if not _FEW <= len(vectors) <= _MOST or vectors.shape[1] < 2:
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
    """Into [-1, 1]. A few far items would squeeze all others into a dot: they stand at the edge."""
    low, high = np.quantile(position, [0.005, 0.995], axis=0)
    reach = np.maximum((high - low) / 2, 1e-9)
    return np.asarray(np.clip((position - (low + high) / 2) / reach, -1, 1), dtype=np.float32)
