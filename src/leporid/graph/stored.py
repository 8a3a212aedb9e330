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
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.errors import GraphError
from leporid.graph.bitset import PANEL, rank_columns
from leporid.graph.directed import directed_neighbours, usable_k
from leporid.graph.jit import kernel
from leporid.graph.layout import Found
from leporid.graph.matrix import Members
from leporid.graph.search import CHUNK_GROUPS, QUERIES
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import count_missing, merge_rows, row_limits
from leporid.graph.types import KnnGraph, Side
from leporid.memory import format_bytes
from leporid.progress import ProgressLike
from leporid.threads import on_each_thread

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
        members, members, k, Similarity("jaccard"), True, threads, progress, found=found
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
    least, last = np.empty(n, np.float32), np.empty(n, np.int32)
    missing = np.zeros((threads, n), np.int64)
    share = np.linspace(0, n, threads + 1).astype(np.int64)
    on_each_thread(
        lambda thread: row_limits(found, k, share[thread], share[thread + 1], least, last), threads
    )
    on_each_thread(
        lambda thread: count_missing(
            found, share[thread], share[thread + 1], least, last, missing[thread]
        ),
        threads,
    )
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
        part = np.linspace(first, stop, threads + 1).astype(np.int64)

        def work(thread: int, part: NDArray[np.int64] = part) -> None:
            begin, end = part[thread], part[thread + 1]
            _spread_to(found, begin, end, least, last, cursor, indices, weights)
            merge_rows(found, begin, end, indptr, indices, weights)

        on_each_thread(work, threads)
        progress.advance(stop - first)
        first = stop
    return KnnGraph(indptr, indices, weights, side, k, "jaccard")


@kernel
def _spread_to(
    found: Found,
    begin: int,
    end: int,
    least: NDArray[np.float32],
    last: NDArray[np.int32],
    cursor: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Write what the rows [begin, end) lack, from every list, by ascending row."""
    for row in range(len(found.length)):
        low, high = int64(0), int64(found.length[row])
        stop = high
        while low < high:
            middle = (low + high) >> 1
            if found.rows[row, uint64(middle)] < begin:
                low = middle + 1
            else:
                high = middle
        while low < stop and found.rows[row, uint64(low)] < end:
            other = uint64(found.rows[row, uint64(low)])
            weight = found.weights[row, uint64(low)]
            if weight < least[other] or (weight == least[other] and row > last[other]):
                at = uint64(cursor[other])
                cursor[other] = at + uint64(1)
                indices[at] = row
                weights[at] = weight
            low += 1


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
