"""`embed_stored`: LE and LEPORID vectors of a log that does not fit into memory.

The interactions stream from parquet files into a matrix on disk (`data.stored`); the neighbour
lists and the graph are files too (`graph.stored_knn_graph`). In memory are the ids, the rows laid
out for the search, and the solver's basis; each step checks its need against the limit. With
landmarks their graph is in memory, and the other rows are read a block at a time.
"""

import tempfile
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import numpy as np

from leporid.data import store_interactions, transpose
from leporid.embeddings.base import Initializer
from leporid.embeddings.estimators import Leporid
from leporid.embeddings.lanczos import basis_size
from leporid.embeddings.landmarks import (
    Landmarks,
    landmark_count,
    landmark_neighbours,
)
from leporid.embeddings.leporid import (
    LEPORIDConfig,
    SpectralInitializer,
    side_embedding,
)
from leporid.embeddings.vectors import Embedding, InitialEmbeddings
from leporid.errors import ConfigError, DataError
from leporid.foundation import (
    ProgressLike,
    format_bytes,
    make_progress,
    memory_left,
    parse_memory,
    resolve_threads,
)
from leporid.graph import (
    BLOCK,
    BinaryCSR,
    binary_csr,
    search_bytes,
    stored_knn_graph,
)


class StreamOptions(TypedDict, total=False):
    """Options of `store_interactions`, which say how a log is read."""

    core: int
    user: str | int | None
    item: str | int | None
    time: str | int | None
    rating: str | int | None
    min_rating: float | None
    separator: str | None
    header: bool | None
    encoding: str


def embed_stored(
    initializer: Initializer,
    source: str | Path,
    memory: str | int,
    *,
    scratch: str | Path | None = None,
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
    **log: Unpack[StreamOptions],
) -> InitialEmbeddings:
    """Return `initializer.fit(load(source).core(core))` within a memory limit: `le` and `leporid`.

    Temporary files go into a folder of their own in `scratch` (by default the system's), which is
    removed in any case. `log` are options of `store_interactions`: `core`, `user`, `separator`
    and so on.
    """
    if not isinstance(initializer, SpectralInitializer):
        raise ConfigError(
            f"a memory limit works with le and leporid, not {initializer.name}"
        )
    config = initializer.config
    if isinstance(config, LEPORIDConfig) and (
        config.row_norm != "as-is" or config.alpha == "auto"
    ):
        raise ConfigError(
            "a memory limit works without row_norm and alpha='auto': leave them out"
        )
    limit = parse_memory(memory)
    workers = resolve_threads(threads)
    reporter = make_progress(progress)
    try:
        folder = tempfile.TemporaryDirectory(prefix=".leporid-", dir=scratch)
    except OSError as error:
        raise DataError(
            f"could not write into {scratch}: {error.strerror or error}"
        ) from None
    with folder as name:
        stored = store_interactions(source, name, limit, **log)
        provenance = {**initializer.provenance(stored), "memory": limit}

        def embed(
            rows: BinaryCSR,
            side: Literal["users", "items"],
            landmarks: Landmarks,
        ) -> Embedding:
            estimator = initializer.estimator(landmarks)
            estimator.set_params(device="cpu", threads=workers)
            if rows.n < 2:
                raise DataError(
                    f"{rows.n} of the {side} is too few: a graph needs at least 2 rows"
                )
            needed = fit_bytes(rows, estimator, workers)
            room = _memory_left(f"{rows.n:,} {side}", needed, limit)
            if landmark_count(landmarks, rows.n) < rows.n:
                estimator.fit(rows, progress=reporter)
            else:
                graph = stored_knn_graph(
                    rows,
                    config.k,
                    stored.folder,
                    room // 2,
                    side=side,
                    threads=workers,
                    progress=reporter,
                )
                estimator.fit_graph(graph, progress=reporter)
            return side_embedding(estimator, config.dim, provenance)

        by_user = BinaryCSR(stored.indptr, stored.items_of, stored.n_items)
        users = embed(by_user, "users", config.landmarks)
        indptr, users_of = transpose(
            stored.indptr,
            stored.items_of,
            stored.n_items,
            stored.folder,
            stored.block_rows,
        )
        by_item = BinaryCSR(indptr, users_of, stored.n_users)
        items = embed(by_item, "items", config.item_landmarks)
    reporter.close()
    return InitialEmbeddings(users, items, stored.users, stored.items)


def fit_bytes(rows: BinaryCSR, estimator: Leporid, threads: int) -> int:
    """Estimate the memory of the search or the solver, whichever needs more.

    With landmarks, it includes their graph and the result.
    """
    n = rows.n
    k = estimator.k
    dim = estimator.dim
    count = landmark_count(estimator.landmarks, n)
    graph_and_result = 0
    if count < n:
        k = min(landmark_neighbours(k, count, n), count - 1)
        sample = np.linspace(0, n - 1, count).astype(np.int64)
        rows = binary_csr(rows.take(sample))
        graph_and_result = 24 * count * k + n * (4 * dim + 8)
    at_once = max(search_bytes(rows, k, threads), solver_bytes(count, dim))
    return at_once + graph_and_result


def solver_bytes(n: int, dim: int) -> int:
    """Estimate the eigensolver's memory for `n` rows: its basis, or the float64 check at the end.

    Measured at dim 64 and 32: 3,575 and 1,996 bytes per row; this estimates 3,744 and 2,208.
    """
    columns, _ = basis_size(dim, BLOCK)
    basis = 4 * (columns + BLOCK) + 12 * BLOCK
    check = 8 * (6 * dim + 3 * BLOCK) + 8 * 36
    return n * max(basis, check) + 8_000_000


def _memory_left(what: str, needed: int, limit: int) -> int:
    """Return the bytes left, or raise an error that says how much would be enough."""
    left = memory_left(limit)
    if needed > left:
        sufficient = format_bytes(1.05 * (limit - left + needed)).replace(" ", "")
        raise ConfigError(
            f"{what} do not fit into {format_bytes(limit)}: give --memory {sufficient}, a smaller "
            f"--dim, or fewer --landmarks"
        )
    return left
