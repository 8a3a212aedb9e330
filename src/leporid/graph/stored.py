"""`stored_knn_graph`: the exact graph, its lists and edges in files that are mapped into memory.

The search writes its lists in order, so their pages may leave memory as they fill. The graph is put
together for a range of rows at a time, small enough for its pages to stay: every list is ascending,
so the part of it that names those rows is found by bisection.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from leporid.errors import GraphError
from leporid.graph.bitset import PANEL, rank_columns
from leporid.graph.directed import directed_neighbours, usable_k
from leporid.graph.layout import Found
from leporid.graph.matrix import Members
from leporid.graph.search import CHUNK_GROUPS, QUERIES
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import count_lacking, merge_rows, spread
from leporid.graph.types import KnnGraph, Side
from leporid.memory import format_bytes
from leporid.progress import ProgressLike
from leporid.threads import on_each_share

__all__ = ["search_bytes", "stored_knn_graph"]

EDGE = 8
"""Bytes of a neighbour: its number and its weight."""


def search_bytes(members: Members, k: int, threads: int) -> int:
    """What the neighbour search holds in memory, the lists it finds apart."""
    columns = rank_columns(members)
    bits = 2 * columns.panels * 64 * members.n
    popular = columns.rank[members.columns] < columns.panels * PANEL if columns.panels else 0
    rare = len(members.columns) - int(np.count_nonzero(popular))
    strips = -(-members.n // 16384)
    lists = 10 * rare + 16 * strips * max(members.n_columns - columns.panels * PANEL, 0)
    capacity = max(4 * k, 4096) + 2 * CHUNK_GROUPS * 16
    scratch = QUERIES * (2 * min(members.n + 16, 65536) + 12 * capacity) + members.n
    return bits + lists + threads * scratch + 80 * members.n


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
    _check_disk(folder, 3 * n * k * EDGE)
    lists, list_weights = folder / f"{side}-lists", folder / f"{side}-list-weights"
    found = Found(
        _mapped(lists, np.int32, n * k).reshape(n, k),
        _mapped(list_weights, np.float32, n * k).reshape(n, k),
        np.zeros(n, np.int32),
    )
    directed_neighbours(
        members, members, k, Similarity("jaccard"), np.arange(n), threads, progress, found=found
    )
    graph = _symmetrise(found, k, folder, memory, side, threads, progress)
    del found
    lists.unlink()
    list_weights.unlink()
    return graph


def _symmetrise(
    found: Found,
    k: int,
    folder: Path,
    memory: int,
    side: Side,
    threads: int,
    progress: ProgressLike,
) -> KnnGraph:
    n = len(found.length)
    limits, missing = count_lacking(found, k, threads)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(found.length + missing.sum(axis=0), out=indptr[1:])
    cursor = indptr[:-1] + found.length
    indices = _mapped(folder / f"{side}-edges", np.int32, int(indptr[-1]))
    weights = _mapped(folder / f"{side}-weights", np.float32, int(indptr[-1]))
    progress.start("graph", n)
    first = 0
    while first < n:
        room = indptr[first] + max(memory // EDGE, 1)
        stop = max(first + 1, int(np.searchsorted(indptr, room, side="right")) - 1)

        def work(_: int, begin: int, end: int) -> None:
            spread(found, 0, n, begin, end, limits, cursor, indices, weights)
            merge_rows(found, begin, end, indptr, indices, weights)

        on_each_share(work, first, stop, threads)
        progress.advance(stop - first)
        first = stop
    return KnnGraph(indptr, indices, weights, side, k, "jaccard")


def _mapped(path: Path, kind: Any, size: int) -> Any:
    """A new file of `size` numbers, mapped; its room on the disk is taken now."""
    try:
        with open(path, "wb") as file:
            if size:
                os.posix_fallocate(file.fileno(), 0, size * np.dtype(kind).itemsize)
    except OSError as error:
        raise GraphError(f"could not write {path}: {error.strerror or error}") from error
    return np.asarray(np.memmap(path, kind, "r+")) if size else np.zeros(0, kind)


def _check_disk(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise GraphError(
            f"the graph may take {format_bytes(wanted)} in {folder}, where "
            f"{format_bytes(free)} are free: lower k, or choose another folder"
        )
