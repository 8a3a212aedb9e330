"""What workers do first: the neighbours of a block of rows among all rows, by the usual kernels."""

from __future__ import annotations

import threading

import numpy as np

from leporid.distributed.wire import writable
from leporid.graph.directed import directed_neighbours
from leporid.graph.layout import Found
from leporid.graph.matrix import Members
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import Limits, row_limits
from leporid.progress import NullProgress

__all__ = ["block_limits", "block_neighbours", "join_limits", "worker_threads"]

one_at_a_time = threading.Lock()
"""A worker works on one block at a time, on all its threads: one layout of the rows in memory."""


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
    own = np.arange(first, stop)
    with one_at_a_time:
        return directed_neighbours(
            rows, members, k, Similarity("jaccard"), own, worker_threads(), NullProgress()
        )


def block_limits(found: Found, k: int) -> Limits:
    """The limits of the rows of a block."""
    size = len(found.length)
    limits = Limits(np.empty(size, np.float32), np.empty(size, np.int32))
    row_limits(writable(found), k, 0, size, limits)
    return limits


def join_limits(parts: list[Limits]) -> Limits:
    """The limits of all rows."""
    return Limits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
