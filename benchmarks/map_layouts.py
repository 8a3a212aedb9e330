"""Two coordinates for each item: how many neighbours different layouts keep, and their seconds.

    python -m benchmarks.map_layouts FOLDER [--logs ml-1m-r3,...]

FOLDER holds `<log>.parquet`. The vectors are LEPORID's of the items of the training part, scaled to
length 1. Layouts whose package is not installed (umap-learn, pacmap, openTSNE) are left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import write_record
from leporid.data import load, temporal_split
from leporid.initializers import initial_embeddings

Vectors = NDArray[Any]


def principal(vectors: Vectors) -> Vectors:
    """The two directions of the greatest variance."""
    centred = vectors - vectors.mean(axis=0)
    return np.asarray(centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T)


def fitted(package: str, name: str, **settings: Any) -> Callable[[Vectors], Vectors]:
    """A class of another package with `fit_transform` or, as openTSNE's, `fit`."""

    def layout(vectors: Vectors) -> Vectors:
        model = getattr(importlib.import_module(package), name)(random_state=0, **settings)
        return np.asarray(getattr(model, "fit_transform", model.fit)(vectors))

    return layout


LAYOUTS: dict[str, tuple[str, Callable[[Vectors], Vectors]]] = {
    "principal components": ("numpy", principal),
    "UMAP": ("umap-learn", fitted("umap", "UMAP", n_jobs=1)),
    "PaCMAP": ("pacmap", fitted("pacmap", "PaCMAP")),
    "openTSNE": ("openTSNE", fitted("openTSNE", "TSNE", n_jobs=1)),
    "t-SNE": ("scikit-learn", fitted("sklearn.manifold", "TSNE", n_jobs=1)),
    "t-SNE, 500 rounds": (
        "scikit-learn",
        fitted("sklearn.manifold", "TSNE", n_jobs=1, max_iter=500),
    ),
    "t-SNE, perplexity 15": (
        "scikit-learn",
        fitted("sklearn.manifold", "TSNE", n_jobs=1, perplexity=15),
    ),
}


def nearest(points: Vectors, k: int) -> NDArray[np.int64]:
    """int64[n, k]: the nearest other points of each, exact."""
    squares = (points**2).sum(axis=1)
    distance = squares[:, None] + squares - 2 * points @ points.T
    np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1, kind="stable")[:, :k]


def kept(vectors: Vectors, places: Vectors, k: int) -> float:
    """The share of the 10 nearest vectors that are among the k nearest on the map."""
    near, shown = nearest(vectors, 10), nearest(places.astype(np.float64), k)
    return float(
        np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(near, shown, strict=True)])
    )


def main() -> None:
    """Lay out every log in every way, and write `records/map_layouts.json`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--logs", default="ml-1m-r3")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for log in options.logs.split(","):
        train = temporal_split(load(options.folder / f"{log}.parquet")).train
        embeddings = initial_embeddings("leporid", train, cache=False)
        assert embeddings is not None
        vectors = embeddings.items.vectors
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        for name, (package, layout) in LAYOUTS.items():
            try:
                version = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
            clock = [time.process_time()]
            for _ in range(2):
                places = layout(vectors)
                clock.append(time.process_time())
            row = {"log": log, "items": len(vectors), "layout": name}
            row |= {"package": f"{package} {version}"}
            row |= {f"10 among {k}": kept(vectors, places, k) for k in (10, 30)}
            first, again = (round(seconds, 2) for seconds in np.diff(clock).tolist())
            rows.append({**row, "first seconds": first, "seconds": again})
            print(rows[-1], flush=True)
    write_record(
        "map_layouts",
        rows,
        {"vectors": "LEPORID, length 1", "threads": 1},
        [
            "`10 among k`: the share of an item's 10 nearest vectors (cosine) that are among its k "
            "nearest on the map.",
            "Seconds of processor time. The first call imports the package and compiles what it "
            "compiles; the second does not.",
        ],
    )


if __name__ == "__main__":
    main()
