"""The neighbour search: count what two rows share, keep what can still be among the K best.

A block of query rows passes over all fitted rows, tile by tile. For each query the rare columns are
scattered into a row of counters through the column lists; then, chunk by chunk (its bits stay in
cache for all queries of the block), the popcounts of the popular columns are added and the sums
compared with the query's threshold. Only rows that may beat it become candidates.

The first threshold is a guess from a sample of the rows; it rises whenever the buffer is full. A
guess that is too high leaves fewer than K candidates; such rows are searched again without one, so
the result never depends on it.

Weights are non-negative float32 numbers; seen as their bits they sort as the numbers do.
Candidates arrive with ascending row index, so a stable selection gives ties to the smaller index.
Array indices are unsigned: a signed one costs numba a wrap-around test on each access. What runs
for each chunk is inlined: a call would copy every field of its tuples to the stack.
"""

from typing import Any

import numpy as np
from numba import float32, float64, int64, uint32, uint64
from numpy.typing import NDArray

from leporid.graph.kernels.layout import (
    CHUNK,
    QUERIES,
    WORDS,
    Fitted,
    NeighbourLists,
    Queries,
    Scratch,
)
from leporid.kernel import INNER, kernel

_SAFETY = 1.0 - 1e-6
"""The filter works in float32: its rounding must never reject a true neighbour."""


@kernel
def search_rows(
    targets: NDArray[np.int64],
    fitted: Fitted,
    sample: Fitted,
    rank: int,
    queries: Queries,
    scratch: Scratch,
    k: int,
    out: NeighbourLists,
) -> None:
    """Neighbours of the query rows `targets`, a block of `QUERIES` at a time.

    The first threshold is the similarity of this rank in the sample; with 0 nothing is guessed.
    """
    chunks, tile_chunks = len(fitted.bits), scratch.counters.shape[1] // CHUNK
    for start in range(0, len(targets), QUERIES):
        block = targets[start : start + QUERIES]
        for slot in range(len(block)):
            scratch.filled[slot] = scratch.weighed[slot] = uint64(0)
            scratch.bound[slot], scratch.guessed[slot] = float32(0), False
            if rank > 0:
                _guess(sample, queries, block[slot], rank, scratch, slot)
        for tile in range(len(fitted.list_start)):
            first = tile * tile_chunks
            for slot in range(len(block)):
                _scatter(fitted, queries, block[slot], tile, scratch.counters[slot])
            for chunk in range(first, min(first + tile_chunks, chunks)):
                for slot in range(len(block)):
                    counters = scratch.counters[slot, (chunk - first) * CHUNK :]
                    _count_shared(fitted, queries, block[slot], chunk, counters)
                    _collect(
                        fitted, queries, block[slot], chunk, counters, scratch, slot
                    )
                    # The candidates of another chunk might not fit into the buffer.
                    if scratch.filled[slot] + uint64(CHUNK) > uint64(
                        scratch.rows.shape[1]
                    ):
                        _weigh(fitted, queries, block[slot], first, scratch, slot)
                        _keep_best(k, scratch, slot)
            for slot in range(len(block)):
                _weigh(fitted, queries, block[slot], first, scratch, slot)
            scratch.counters[: len(block)] = 0
        for slot in range(len(block)):
            _keep_best(k, scratch, slot)
            _write(scratch, slot, block[slot], out)


@kernel(**INNER)
def _scatter(
    fitted: Fitted, queries: Queries, query: int, tile: int, counters: Any
) -> None:
    """Add one to the counter of each fitted row of the tile, for each rare column it shares."""
    list_start = fitted.list_start[tile]
    first, last = (
        uint64(queries.rare_start[query]),
        uint64(queries.rare_start[query + 1]),
    )
    for position in range(first, last):
        column = uint64(queries.rare_columns[position])
        start, stop = uint64(list_start[column]), uint64(list_start[column + uint64(1)])
        for entry in range(start, stop):
            counters[uint64(fitted.list_rows[entry])] += uint32(1)


@kernel(inline="always")
def _popcount(word: Any) -> Any:
    """Set bits of a uint64, in a form that LLVM turns into its vector instruction."""
    word = word - ((word >> uint64(1)) & uint64(0x5555555555555555))
    word = (word & uint64(0x3333333333333333)) + (
        (word >> uint64(2)) & uint64(0x3333333333333333)
    )
    word = (word + (word >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return (word * uint64(0x0101010101010101)) >> uint64(56)


@kernel(inline="always")
def _count_shared(
    fitted: Fitted, queries: Queries, query: int, chunk: int, counters: Any
) -> None:
    """Add the popular columns that the query shares with each row of a chunk to its counters."""
    for panel in range(fitted.bits.shape[1]):
        bits, words = fitted.bits[chunk, panel], queries.words[query, panel]
        for row in range(uint64(CHUNK)):
            shared = uint64(0)
            for word in range(uint64(WORDS)):
                shared += _popcount(bits[word, row] & words[word])
            counters[row] += uint32(shared)


@kernel(**INNER)
def _guess(
    sample: Fitted, queries: Queries, query: int, rank: int, scratch: Scratch, slot: int
) -> None:
    """Set the threshold to a similarity of a certain rank, nearly, among the sampled rows."""
    x, y, g = float32(queries.x[query]), float32(queries.y[query]), float32(queries.g)
    counters, similar = scratch.counters[slot], scratch.sample
    _scatter(sample, queries, query, 0, counters)
    for chunk in range(len(sample.bits)):
        first = uint64(chunk * CHUNK)
        _count_shared(sample, queries, query, chunk, counters[first:])
        for row in range(uint64(CHUNK)):
            count = float32(counters[first + row])
            total = x + y * sample.term32[first + row] + g * count
            similar[first + row] = count / total if count > float32(0) else float32(0)
    count = len(sample.bits) * CHUNK
    counters[:count] = 0
    bound = scratch.bound.view(np.uint32)
    bound[slot] = kth_largest(similar.view(np.uint32), count, rank, int64(20))
    scratch.guessed[slot] = bound[slot] > uint32(0)


@kernel(inline="always")
def _collect(
    fitted: Fitted,
    queries: Queries,
    query: int,
    chunk: int,
    counters: Any,
    scratch: Scratch,
    slot: int,
) -> None:
    """Append the rows of a chunk that may reach the threshold."""
    passing, term32, rows = scratch.passing, fitted.term32, scratch.rows[slot]
    base = uint64(chunk * CHUNK)
    # c / (x + y b + g c) >= t, written as c p >= q b + r; never true for c = 0.
    t = scratch.bound[slot] * _SAFETY
    p, q = float32(1.0 - t * queries.g), float32(t * queries.y[query])
    r = float32(max(t * queries.x[query], 1e-30))
    for row in range(uint64(CHUNK)):
        passing[row] = float32(counters[row]) * p >= q * term32[base + row] + r
    own = queries.own[query] - int64(base)
    if 0 <= own < CHUNK:
        passing[uint64(own)] = 0
    # Every entry is written, and the next one takes its place unless it counts: a branch that
    # nobody can predict costs more than a write. Eights with any row come first, then their rows.
    at, some = scratch.filled[slot], uint64(0)
    for word in range(uint64(CHUNK // 8)):
        scratch.eights[some] = word
        some += uint64(scratch.passing_words[word] != uint64(0))
    for position in range(some):
        first = scratch.eights[position] * uint64(8)
        for row in range(first, first + uint64(8)):
            rows[at] = uint32(base + row)
            at += uint64(passing[row])
    scratch.filled[slot] = at


@kernel(**INNER)
def _weigh(
    fitted: Fitted,
    queries: Queries,
    query: int,
    chunk: int,
    scratch: Scratch,
    slot: int,
) -> None:
    """Weigh the new candidates by the counters of the tile that begins at `chunk`."""
    rows, bits, terms = scratch.rows[slot], scratch.bits[slot], scratch.terms
    counters, base = scratch.counters[slot], uint64(chunk * CHUNK)
    x, y, g = queries.x[query], queries.y[query], queries.g
    first, filled = scratch.weighed[slot], scratch.filled[slot]
    for position in range(
        first, filled
    ):  # a loop of its own: divisions then become vectors
        row = uint64(rows[position])
        terms[position], bits[position] = fitted.term[row], counters[row - base]
    for position in range(first, filled):
        count = float64(bits[position])
        weight = np.float32(count / (x + y * terms[position] + g * count))
        bits[position] = weight.view(np.uint32)
    scratch.weighed[slot] = filled


@kernel(**INNER)
def _keep_best(k: int, scratch: Scratch, slot: int) -> None:
    """Keep the k best candidates; the k-th is the new threshold."""
    if scratch.filled[slot] >= uint64(k):
        least = keep_best(
            scratch.bits[slot], scratch.rows[slot], scratch.filled[slot], k
        )
        scratch.filled[slot] = scratch.weighed[slot] = uint64(k)
        bound = scratch.bound.view(np.uint32)
        if (
            least >= bound[slot]
        ):  # else the threshold is a guess, and fewer than k reach it
            bound[slot], scratch.guessed[slot] = least, False


@kernel(**INNER)
def _write(scratch: Scratch, slot: int, query: int, out: NeighbourLists) -> None:
    """Hand the candidates that are left over; a length of -1 says that the guess was too high."""
    if scratch.guessed[slot]:
        out.length[query] = -1
        return
    length = out.length[query] = scratch.filled[slot]
    out.rows[query, :length] = scratch.rows[slot, :length]
    out.weights[query, :length] = scratch.bits[slot, :length].view(np.float32)


@kernel
def kth_largest(bits: NDArray[np.uint32], count: Any, k: int, steps: Any) -> Any:
    """A value v with at least k of `bits[:count]` >= v, 1 <= k <= count.

    Bisection of the range of the values is cheaper than a histogram at this size. After 32 steps v
    is the k-th largest or has exactly k values not below it; fewer steps give a lower bound.
    """
    bottom = high = bits[0]
    for position in range(uint64(count)):
        bottom, high = min(bottom, bits[position]), max(high, bits[position])
    while bottom < high and steps > 0:
        steps -= 1
        middle = uint32(bottom + ((high - bottom) >> uint32(1)))
        above = uint32(0)
        for position in range(uint64(count)):
            above = uint32(
                above + uint32(bits[position] > middle)
            )  # += would make it 64 bits
        if above >= uint64(k):
            bottom = uint32(middle + uint32(1))
            if above == uint64(k):
                break
        else:
            high = middle
    return bottom


@kernel
def keep_best(
    bits: NDArray[np.uint32], rows: NDArray[np.uint32], count: Any, k: int
) -> Any:
    """Move the k best candidates to the front, order kept; returns the k-th weight's bits."""
    bound = uint32(kth_largest(bits, count, k, int64(32)))
    kept = _keep(bits, rows, uint64(0), uint64(count), bound)
    first, surplus = kept, kept - uint64(k)
    while surplus > uint64(0):
        first -= uint64(1)
        surplus -= uint64(bits[first] == bound)
    _keep(bits, rows, first, kept, bound + uint32(1))
    return bits[: uint64(k)].min()


@kernel(**INNER)
def _keep(bits: Any, rows: Any, first: Any, last: Any, bound: Any) -> Any:
    """Of the candidates [first, last) keep those not below the bound; returns their end."""
    kept = first
    for position in range(first, last):
        value = bits[position]
        bits[kept], rows[kept] = value, rows[position]  # as in `_collect`
        kept += uint64(value >= bound)
    return kept
