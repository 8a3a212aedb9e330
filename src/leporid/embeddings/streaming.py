"""`embed_stored`: LE and LEPORID vectors of a log that does not fit into memory.

The interactions stream from parquet files into a matrix on disk (`data.stored`); the neighbour
lists and the graph are files too (`graph.stored_knn_graph`). In memory are the ids, the rows laid
out for the search, and the solver's basis; each step checks its need against the limit. With
landmarks their graph is in memory, and the other rows are read a block at a time.
"""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from leporid.data import StoredInteractions, store_interactions, transpose
from leporid.embeddings.base import Embedding, InitialEmbeddings, Initializer
from leporid.embeddings.estimators import Leporid
from leporid.embeddings.lanczos import basis_size
from leporid.embeddings.leporid import SpectralInitializer, side_embedding
from leporid.embeddings.out_of_sample import (
    Landmarks,
    landmark_count,
    landmark_neighbours,
)
from leporid.errors import ConfigError, DataError
from leporid.graph import (
    BLOCK,
    BinaryCSR,
    Side,
    binary_csr,
    search_bytes,
    stored_knn_graph,
)
from leporid.machine import format_bytes, memory_left, parse_memory, resolve_threads
from leporid.progress import ProgressLike, make_progress


def embed_stored(
    initializer: Initializer,
    source: str | Path,
    memory: str | int,
    *,
    scratch: str | Path | None = None,
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
    **log: Any,
) -> InitialEmbeddings:
    """`initializer.fit(load(source).core(core))` within a memory limit, for `le` and `leporid`.

    Temporary files go into a folder of their own in `scratch` (by default the system's), which is
    removed in any case. `log` are options of `store_interactions`: `core`, `user`, `separator`
    and so on.
    """
    if not isinstance(initializer, SpectralInitializer):
        raise ConfigError(
            f"a memory limit works with le and leporid, not {initializer.name}"
        )
    config = initializer.config
    lengths = getattr(config, "lengths", "as-is")
    if lengths != "as-is" or getattr(config, "alpha", 0.0) == "auto":
        raise ConfigError(
            "a memory limit works without lengths and alpha='auto': leave them out"
        )
    limit, workers = parse_memory(memory), resolve_threads(threads)
    reporter = make_progress(progress)
    try:
        folder = tempfile.TemporaryDirectory(prefix=".leporid-", dir=scratch)
    except OSError as error:
        raise DataError(
            f"could not write into {scratch}: {error.strerror or error}"
        ) from None
    with folder as name:
        stored = store_interactions(source, name, limit, **log)
        provenance = {**initializer.provenance(_digest(stored)), "memory": limit}
        common: dict[str, Any] = {"threads": workers, "progress": reporter}

        def embed(rows: BinaryCSR, side: Side, landmarks: Landmarks) -> Embedding:
            fitted = initializer.estimator(landmarks).set_params(
                device="cpu", threads=workers
            )
            if rows.n < 2:
                raise DataError(
                    f"{rows.n} of the {side} is too few: a graph needs at least 2 rows"
                )
            half = (
                _room(f"{rows.n:,} {side}", fit_bytes(rows, fitted, workers), limit)
                // 2
            )
            if landmark_count(landmarks, rows.n) < rows.n:
                fitted.fit(rows, progress=reporter)
            else:
                graph = stored_knn_graph(
                    rows, config.k, stored.folder, half, side=side, **common
                )
                fitted.fit_graph(graph, progress=reporter)
            return side_embedding(fitted, config.dim, provenance)

        matrix = (stored.indptr, stored.items_of, stored.n_items)
        users = embed(BinaryCSR(*matrix), "users", config.landmarks)
        flipped = transpose(*matrix, stored.folder, stored.block_rows)
        items = embed(
            BinaryCSR(*flipped, stored.n_users), "items", config.item_landmarks
        )
    reporter.close()
    return InitialEmbeddings(users, items, stored.users, stored.items)


def fit_bytes(rows: BinaryCSR, fitted: Leporid, threads: int) -> int:
    """Memory for the search or the solver; with landmarks, for their graph and the result too."""
    n, k, dim = rows.n, fitted.k, fitted.dim
    count, rest = landmark_count(fitted.landmarks, n), 0
    if count < n:
        k = min(landmark_neighbours(k, count, n), count - 1)
        rows = binary_csr(rows.take(np.linspace(0, n - 1, count).astype(np.int64)))
        rest = 24 * count * k + n * (4 * dim + 8)
    return max(search_bytes(rows, k, threads), solver_bytes(count, dim)) + rest


def solver_bytes(n: int, dim: int) -> int:
    """Peak memory of the eigensolver for `n` rows: its basis, or the float64 check at the end.

    Measured at dim 64 and 32: 3,575 and 1,996 bytes per row; this estimates 3,744 and 2,208.
    """
    basis = 4 * (basis_size(dim, BLOCK)[0] + BLOCK) + 12 * BLOCK
    check = 8 * (6 * dim + 3 * BLOCK) + 8 * 36
    return n * max(basis, check) + 8_000_000


def _room(what: str, needed: int, limit: int) -> int:
    """Bytes left, or an error that says how much would be enough."""
    left = memory_left(limit)
    if needed > left:
        enough = format_bytes(1.05 * (limit - left + needed)).replace(" ", "")
        raise ConfigError(
            f"{what} do not fit into {format_bytes(limit)}: give --memory {enough}, a smaller "
            f"--dim, or fewer --landmarks"
        )
    return left


def _digest(stored: StoredInteractions) -> str:
    hasher = hashlib.sha256(stored.indptr.data)
    hasher.update(
        stored.items_of.data
    )  # no copy: the pages of the file are read in turn
    hasher.update((stored.users.digest + stored.items.digest).encode())
    return hasher.hexdigest()[:16]
