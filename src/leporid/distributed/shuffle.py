"""Symmetrisation without a meeting place: blocks send each other the edges the other lacks.

W_ij is an edge if j is in top-K(i) or i in top-K(j). The block of i has the first kind. Of the
second kind it needs from each block those j that chose i while i did not choose j; whether i did
is told by its limits alone, two numbers a row, which every worker has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.distributed.wire import writable
from leporid.graph.layout import Found
from leporid.graph.symmetrise import Limits, lacks, merge_rows
from leporid.kernel import kernel

__all__ = ["Reverse", "Rows", "merge_block", "piece_of", "reverse_edges"]


class Reverse(NamedTuple):
    """Edges of one block of rows that another block found, by ascending source."""

    targets: NDArray[np.int32]
    """int32[e]: row within the block they are for."""
    sources: NDArray[np.int32]
    """int32[e]: the row that chose it, among all rows."""
    weights: NDArray[np.float32]
    """float32[e]."""


class Rows(NamedTuple):
    """A block of rows of W in CSR form."""

    indptr: NDArray[np.int64]
    """int64[rows + 1]."""
    indices: NDArray[np.int32]
    """int32[nnz] among all rows, ascending within a row."""
    weights: NDArray[np.float32]
    """float32[nnz]."""


def reverse_edges(found: Found, limits: Limits, first: int, size: int) -> list[Reverse]:
    """For every block of `size` rows, what the block that starts at `first` has to tell it."""
    found, limits = writable(found), writable(limits)
    blocks = -(-len(limits.least) // size)
    counts = np.zeros(blocks, np.int64)
    _count(found, first, size, limits, counts)
    total = int(counts.sum())
    targets, sources = np.empty(total, np.int32), np.empty(total, np.int32)
    weights = np.empty(total, np.float32)
    ends = np.cumsum(counts)
    _spread(found, first, size, limits, ends - counts, targets, sources, weights)
    parts = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    return [
        Reverse(targets[part].copy(), sources[part].copy(), weights[part].copy()) for part in parts
    ]


def piece_of(pieces: list[Reverse], block: int) -> Reverse:
    """The part for one block, so that only it travels."""
    return pieces[block]


def merge_block(found: Found, pieces: list[Reverse]) -> Rows:
    """A block's own neighbours and what all blocks (in order) sent it, as rows of W."""
    found = writable(found)
    rows = len(found.length)
    lengths = found.length.astype(np.int64)
    for piece in pieces:
        lengths += np.bincount(piece.targets, minlength=rows)
    indptr = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    made = Rows(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))
    cursor = indptr[:-1] + found.length
    for piece in pieces:
        _place(*writable(piece), cursor, made.indices, made.weights)
    merge_rows(found, 0, rows, *made)
    return made


@kernel
def _count(
    found: Found,
    first: int,
    size: int,
    limits: Limits,
    counts: NDArray[np.int64],
) -> None:
    """How many edges each block lacks."""
    for row in range(len(found.length)):
        for position in range(uint64(found.length[row])):
            other = int64(found.rows[row, position])
            weight = found.weights[row, position]
            if lacks(limits, other, row + first, weight):
                counts[other // size] += 1


@kernel
def _spread(
    found: Found,
    first: int,
    size: int,
    limits: Limits,
    cursor: NDArray[np.int64],
    targets: NDArray[np.int32],
    sources: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Write the edges counted by `_count`, block after block."""
    for row in range(len(found.length)):
        for position in range(uint64(found.length[row])):
            other = int64(found.rows[row, position])
            weight = found.weights[row, position]
            if lacks(limits, other, row + first, weight):
                at = cursor[other // size]
                cursor[other // size] = at + 1
                targets[at] = other % size
                sources[at] = row + first
                weights[at] = weight


@kernel
def _place(
    targets: NDArray[np.int32],
    sources: NDArray[np.int32],
    weights: NDArray[np.float32],
    cursor: NDArray[np.int64],
    indices: NDArray[np.int32],
    out: NDArray[np.float32],
) -> None:
    """Put edges at the end of the rows they belong to."""
    for edge in range(uint64(len(targets))):
        at = uint64(cursor[uint64(targets[edge])])
        cursor[uint64(targets[edge])] = at + uint64(1)
        indices[at] = sources[edge]
        out[at] = weights[edge]
