"""The rows of W, block by block: neighbours first, then the edges that blocks send each other.

W_ij is an edge if j is in top-K(i) or i in top-K(j). The block of i has the first kind. Of the
second kind it needs from each block those j that chose i while i did not choose j; whether i did
is told by its limits alone, two numbers per row, which every worker has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.distributed.worker import one_at_a_time, worker_threads, writable
from leporid.graph import (
    Limits,
    Members,
    NeighbourLists,
    Similarity,
    directed_neighbours,
    merge_rows,
    ranks_behind,
    row_limits,
    row_sums,
)
from leporid.kernel import kernel
from leporid.progress import NullProgress


class Reverse(NamedTuple):
    """Edges of one block of rows that another block found, by ascending source."""

    targets: NDArray[np.int32]
    """int32[e]: row within the block they are for."""
    sources: NDArray[np.int32]
    """int32[e]: the row that chose it, among all rows."""
    weights: NDArray[np.float32]
    """float32[e]."""

    @classmethod
    def empty(cls, size: int) -> Reverse:
        """Room for `size` edges."""
        return cls(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.float32))


class Rows(NamedTuple):
    """A block of rows of W in CSR form."""

    indptr: NDArray[np.int64]
    """int64[rows + 1]."""
    indices: NDArray[np.int32]
    """int32[nnz] among all rows, ascending within a row."""
    weights: NDArray[np.float32]
    """float32[nnz]."""


class RowSums(NamedTuple):
    """What the client keeps of a block of rows."""

    lengths: NDArray[np.int64]
    """int64[rows]: edges of each row."""
    degrees: NDArray[np.float64]
    """float64[rows]: the sum of their weights."""


def block_neighbours(members: Members, first: int, stop: int, k: int) -> NeighbourLists:
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


def block_limits(lists: NeighbourLists, k: int) -> Limits:
    """The limits of the rows of a block."""
    limits = Limits.empty(len(lists.length))
    row_limits(writable(lists), k, 0, len(lists.length), limits)
    return limits


def join_limits(parts: list[Limits]) -> Limits:
    """The limits of all rows."""
    return Limits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def reverse_edges(lists: NeighbourLists, limits: Limits, first: int, size: int) -> list[Reverse]:
    """For every block of `size` rows, what the block that starts at `first` has to tell it."""
    lists, limits = writable(lists), writable(limits)
    counts = np.zeros(-(-len(limits.least) // size), np.int64)
    _send(lists, first, size, limits, counts, False, Reverse.empty(0))
    ends = np.cumsum(counts)
    edges = Reverse.empty(int(ends[-1]))
    _send(lists, first, size, limits, ends - counts, True, edges)
    parts = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    return [
        Reverse(edges.targets[part].copy(), edges.sources[part].copy(), edges.weights[part].copy())
        for part in parts
    ]


def piece_of(pieces: list[Reverse], block: int) -> Reverse:
    """The part for one block, so that only it travels."""
    return pieces[block]


def merge_block(lists: NeighbourLists, pieces: list[Reverse]) -> Rows:
    """A block's own neighbours and what all blocks (in order) sent it, as rows of W."""
    lists = writable(lists)
    count = len(lists.length)
    lengths = lists.length.astype(np.int64)
    for piece in pieces:
        lengths += np.bincount(piece.targets, minlength=count)
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    rows = Rows(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))
    cursor = indptr[:-1] + lists.length
    for piece in pieces:
        _receive(writable(piece), cursor, rows)
    merge_rows(lists, 0, count, *rows)
    return rows


def block_sums(rows: Rows) -> RowSums:
    """Lengths and degrees of a block's rows, summed as `KnnGraph.degrees` does."""
    return RowSums(np.diff(rows.indptr), row_sums(rows.indptr, rows.weights))


@kernel
def _send(
    lists: NeighbourLists,
    first: int,
    size: int,
    limits: Limits,
    cursor: NDArray[np.int64],
    write: bool,
    edges: Reverse,
) -> None:
    """Move the cursor of a block by one for each edge it lacks; with `write`, write them there."""
    for row in range(len(lists.length)):
        for position in range(uint64(lists.length[row])):
            other = int64(lists.rows[row, position])
            weight = lists.weights[row, position]
            if ranks_behind(limits, other, row + first, weight):
                at = cursor[other // size]
                cursor[other // size] = at + 1
                if write:
                    edges.targets[at] = other % size
                    edges.sources[at] = row + first
                    edges.weights[at] = weight


@kernel
def _receive(piece: Reverse, cursor: NDArray[np.int64], rows: Rows) -> None:
    """Put edges at the end of the rows they belong to."""
    for edge in range(uint64(len(piece.targets))):
        target = uint64(piece.targets[edge])
        at = uint64(cursor[target])
        cursor[target] = at + uint64(1)
        rows.indices[at] = piece.sources[edge]
        rows.weights[at] = piece.weights[edge]
