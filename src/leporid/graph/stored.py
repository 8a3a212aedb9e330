"""`stored_knn_graph`: the exact graph, its lists and edges in files that are mapped into memory.

The search writes its lists in order, so their pages may leave memory as they fill. The graph is put
together for a range of rows at a time, small enough for its pages to stay.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import GraphError
from leporid.graph.directed import directed_neighbours, usable_k
from leporid.graph.kernels.layout import NeighbourLists
from leporid.graph.matrix import Members
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import symmetrise
from leporid.graph.types import KnnGraph, Side
from leporid.memory import format_bytes
from leporid.progress import ProgressLike

EDGE_BYTES = 8
"""A neighbour: its number and its weight."""


def stored_knn_graph(
    members: Members,
    k: int,
    folder: Path,
    memory: int,
    *,
    side: Side = "rows",
    threads: int,
    progress: ProgressLike,
) -> KnnGraph:
    """`knn_graph(members, k)` to the bit, with its edges in `folder`.

    `memory`: bytes for the pages of the part of the graph that is put together at a time.
    """
    n = members.n
    k = usable_k(k, n - 1)
    _check_disk(folder, 3 * n * k * EDGE_BYTES)

    def mapped(name: str, dtype: Any, size: int) -> NDArray[Any]:
        return _new_file(folder / f"{side}-{name}", dtype, size)

    rows, weights = mapped("lists", np.int32, n * k), mapped("list-weights", np.float32, n * k)
    lists = NeighbourLists(rows.reshape(n, k), weights.reshape(n, k), np.zeros(n, np.int32))
    jaccard, own = Similarity("jaccard"), np.arange(n)
    directed_neighbours(members, members, k, jaccard, own, threads, progress, lists)
    room = max(memory // EDGE_BYTES, 1)
    graph = symmetrise(lists, k, side, jaccard.name, threads, mapped, room, progress)
    del lists, rows, weights
    for name in ("lists", "list-weights"):
        (folder / f"{side}-{name}").unlink()
    return graph


def _new_file(path: Path, dtype: Any, size: int) -> NDArray[Any]:
    """A new file of `size` numbers, mapped; where it can, the system sets its disk space aside."""
    try:
        with open(path, "wb") as file:
            n_bytes = size * np.dtype(dtype).itemsize
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
    except OSError as error:
        raise GraphError(f"could not write {path}: {error.strerror or error}") from error
    return np.asarray(np.memmap(path, dtype, "r+")) if size else np.zeros(0, dtype)


def _check_disk(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise GraphError(
            f"the graph may take {format_bytes(wanted)} in {folder}, where "
            f"{format_bytes(free)} are free: lower k, or choose another folder"
        )
