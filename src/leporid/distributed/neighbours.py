"""What workers do first: the neighbours of a block of rows among all rows, by the usual kernels."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.distributed.wire import writable
from leporid.graph.directed import directed_neighbours
from leporid.graph.jit import kernel
from leporid.graph.layout import Found
from leporid.graph.matrix import Members
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import row_limits
from leporid.progress import NullProgress

__all__ = ["Limits", "block_limits", "block_neighbours", "join_limits", "worker_threads"]

one_at_a_time = threading.Lock()
"""A worker works on one block at a time, on all its threads: one layout of the rows in memory."""


class Limits(NamedTuple):
    """What decides whether a row chose another one, without its list."""

    least: NDArray[np.float32]
    """float32[n]: the k-th weight; 0 where a row has fewer than k neighbours."""
    last: NDArray[np.int32]
    """int32[n]: the last row taken at that weight, or -1."""


def worker_threads() -> int:
    """Threads this worker was given; 1 outside a worker."""
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1


def block_neighbours(members: Members, first: int, stop: int, k: int) -> Found:
    """The k most similar rows of each row in [first, stop), ascending; the row itself left out.

    The same lists, to the bit, as the search over all rows at once finds.
    """
    members = writable(members)
    start, end = members.indptr[first], members.indptr[stop]
    rows = Members(
        members.indptr[first : stop + 1] - start, members.columns[start:end], members.n_columns
    )
    with one_at_a_time:
        # A row is its own nearest neighbour: with one more than k, the others are the k best.
        found = directed_neighbours(
            rows, members, k + 1, Similarity("jaccard"), False, worker_threads(), NullProgress()
        )
    size = stop - first
    others = Found(
        np.empty((size, k), np.int32), np.empty((size, k), np.float32), np.empty(size, np.int32)
    )
    _without_self(found, first, others)
    return others


def block_limits(found: Found, k: int) -> Limits:
    """The limits of the rows of a block."""
    size = len(found.length)
    limits = Limits(np.empty(size, np.float32), np.empty(size, np.int32))
    row_limits(writable(found), k, 0, size, limits.least, limits.last)
    return limits


def join_limits(parts: list[Limits]) -> Limits:
    """The limits of all rows."""
    return Limits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


@kernel
def _without_self(found: Found, first: int, others: Found) -> None:
    """Leave out each row itself, or the last of its k + 1 where it is not among them."""
    k = others.rows.shape[1]
    for row in range(len(found.length)):
        length = int64(found.length[row])
        out = int64(-1)
        for position in range(uint64(length)):
            if found.rows[row, position] == row + first:
                out = int64(position)
        if out < 0 and length > k:
            low = found.weights[row, 0]
            for position in range(uint64(length)):
                if found.weights[row, position] <= low:
                    low = found.weights[row, position]
                    out = int64(position)
        at = uint64(0)
        for position in range(uint64(length)):
            if int64(position) != out:
                others.rows[row, at] = found.rows[row, position]
                others.weights[row, at] = found.weights[row, position]
                at += uint64(1)
        others.length[row] = at
