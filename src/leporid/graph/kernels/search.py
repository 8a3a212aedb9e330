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

from typing import TypeAlias

import numpy as np
from numba import float32, float64, int64, uint32, uint64
from numpy.typing import NDArray

from leporid.foundation import INNER, Integer, kernel
from leporid.graph.kernels.layout import (
    CHUNK,
    QUERIES,
    WORDS,
    Fitted,
    NeighbourLists,
    Queries,
    Scratch,
)

Counters: TypeAlias = NDArray[np.unsignedinteger]
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
    """Find the neighbours of the query rows `targets`, a block of `QUERIES` at a time.

    The first threshold is the similarity of this rank in the sample; with 0 nothing is guessed.
    """
    chunks = len(fitted.bits)
    tile_chunks = scratch.counters.shape[1] // CHUNK
    capacity = uint64(scratch.rows.shape[1])
    for start in range(0, len(targets), QUERIES):
        block = targets[start : start + QUERIES]
        for slot in range(len(block)):
            _begin(sample, queries, block[slot], rank, scratch, slot)
        for tile in range(len(fitted.list_start)):
            first = tile * tile_chunks
            for slot in range(len(block)):
                _scatter(fitted, queries, block[slot], tile, scratch.counters[slot])
            for chunk in range(first, min(first + tile_chunks, chunks)):
                for slot in range(len(block)):
                    query = block[slot]
                    counters = scratch.counters[slot, (chunk - first) * CHUNK :]
                    _count_shared(fitted, queries, query, chunk, counters)
                    _collect(fitted, queries, query, chunk, counters, scratch, slot)
                    # The candidates of another chunk might not fit into the buffer.
                    if scratch.filled[slot] + uint64(CHUNK) > capacity:
                        _weigh(fitted, queries, query, first, scratch, slot)
                        _keep_best(k, scratch, slot)
            for slot in range(len(block)):
                _weigh(fitted, queries, block[slot], first, scratch, slot)
            scratch.counters[: len(block)] = 0
        for slot in range(len(block)):
            _keep_best(k, scratch, slot)
            _write(scratch, slot, block[slot], out)


@kernel(**INNER)
def _begin(
    sample: Fitted,
    queries: Queries,
    query: int,
    rank: int,
    scratch: Scratch,
    slot: int,
) -> None:
    """Empty the buffers of a slot, and set the first threshold of the query in it."""
    scratch.filled[slot] = uint64(0)
    scratch.weighed[slot] = uint64(0)
    scratch.bound[slot] = float32(0)
    scratch.guessed[slot] = False
    if rank > 0:
        _guess(sample, queries, query, rank, scratch, slot)


@kernel(**INNER)
def _scatter(
    fitted: Fitted,
    queries: Queries,
    query: int,
    tile: int,
    counters: Counters,
) -> None:
    """Add one to the counter of each fitted row of the tile, for each rare column it shares."""
    list_start = fitted.list_start[tile]
    first = uint64(queries.rare_start[query])
    last = uint64(queries.rare_start[query + 1])
    for position in range(first, last):
        column = uint64(queries.rare_columns[position])
        start = uint64(list_start[column])
        stop = uint64(list_start[column + uint64(1)])
        for entry in range(start, stop):
            counters[uint64(fitted.list_rows[entry])] += uint32(1)


@kernel(inline="always")
def _popcount(word: np.uint64) -> np.uint64:
    """Count the set bits, in a form that LLVM turns into its vector instruction."""
    word = word - ((word >> uint64(1)) & uint64(0x5555555555555555))
    pairs = (word >> uint64(2)) & uint64(0x3333333333333333)
    word = (word & uint64(0x3333333333333333)) + pairs
    word = (word + (word >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return (word * uint64(0x0101010101010101)) >> uint64(56)


@kernel(inline="always")
def _count_shared(
    fitted: Fitted,
    queries: Queries,
    query: int,
    chunk: int,
    counters: Counters,
) -> None:
    """Add the popular columns that the query shares with each row of a chunk to its counters."""
    for panel in range(fitted.bits.shape[1]):
        bits = fitted.bits[chunk, panel]
        words = queries.words[query, panel]
        for row in range(uint64(CHUNK)):
            shared = uint64(0)
            for word in range(uint64(WORDS)):
                shared += _popcount(bits[word, row] & words[word])
            counters[row] += uint32(shared)


@kernel(**INNER)
def _guess(
    sample: Fitted,
    queries: Queries,
    query: int,
    rank: int,
    scratch: Scratch,
    slot: int,
) -> None:
    """Set the threshold to a similarity of a certain rank, nearly, among the sampled rows."""
    x = float32(queries.x[query])
    y = float32(queries.y[query])
    g = float32(queries.g)
    counters = scratch.counters[slot]
    similar = scratch.sample
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
    counters: Counters,
    scratch: Scratch,
    slot: int,
) -> None:
    """Append the rows of a chunk that may reach the threshold."""
    passing = scratch.passing
    term32 = fitted.term32
    rows = scratch.rows[slot]
    base = uint64(chunk * CHUNK)
    # c / (x + y b + g c) >= t, written as c p >= q b + r; never true for c = 0.
    t = scratch.bound[slot] * _SAFETY
    p = float32(1.0 - t * queries.g)
    q = float32(t * queries.y[query])
    r = float32(max(t * queries.x[query], 1e-30))
    for row in range(uint64(CHUNK)):
        passing[row] = float32(counters[row]) * p >= q * term32[base + row] + r
    query_itself = queries.own[query] - int64(base)
    if 0 <= query_itself < CHUNK:
        passing[uint64(query_itself)] = 0
    # Every entry is written, and the next one takes its place unless it counts: a branch that
    # nobody can predict costs more than a write. Eights with any row come first, then their rows.
    at = scratch.filled[slot]
    eights = uint64(0)
    for word in range(uint64(CHUNK // 8)):
        scratch.eights[eights] = word
        eights += uint64(scratch.passing_words[word] != uint64(0))
    for position in range(eights):
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
    rows = scratch.rows[slot]
    bits = scratch.bits[slot]
    terms = scratch.terms
    counters = scratch.counters[slot]
    base = uint64(chunk * CHUNK)
    x = queries.x[query]
    y = queries.y[query]
    g = queries.g
    first = scratch.weighed[slot]
    filled = scratch.filled[slot]
    # A loop of its own: divisions then become vectors.
    for position in range(first, filled):
        row = uint64(rows[position])
        terms[position] = fitted.term[row]
        bits[position] = counters[row - base]
    for position in range(first, filled):
        count = float64(bits[position])
        weight = np.float32(count / (x + y * terms[position] + g * count))
        bits[position] = weight.view(np.uint32)
    scratch.weighed[slot] = filled


@kernel(**INNER)
def _keep_best(k: int, scratch: Scratch, slot: int) -> None:
    """Keep the k best candidates; the k-th is the new threshold."""
    filled = scratch.filled[slot]
    if filled < uint64(k):
        return
    least = keep_best(scratch.bits[slot], scratch.rows[slot], filled, k)
    scratch.filled[slot] = uint64(k)
    scratch.weighed[slot] = uint64(k)
    bound = scratch.bound.view(np.uint32)
    # Otherwise the threshold is a guess, and fewer than k reach it.
    if least >= bound[slot]:
        bound[slot] = least
        scratch.guessed[slot] = False


@kernel(**INNER)
def _write(scratch: Scratch, slot: int, query: int, out: NeighbourLists) -> None:
    """Write the candidates that are left; a length of -1 says that the guess was too high."""
    if scratch.guessed[slot]:
        out.length[query] = -1
        return
    length = scratch.filled[slot]
    out.length[query] = length
    out.rows[query, :length] = scratch.rows[slot, :length]
    out.weights[query, :length] = scratch.bits[slot, :length].view(np.float32)


@kernel
def kth_largest(
    bits: NDArray[np.uint32],
    count: Integer,
    k: int,
    steps: Integer,
) -> np.uint32:
    """Return a value v with at least k of `bits[:count]` >= v, 1 <= k <= count.

    Bisection of the range of the values is cheaper than a histogram at this size. After 32 steps v
    is the k-th largest or has exactly k values not below it; fewer steps give a lower bound.
    """
    bottom: np.uint32 = bits[0]
    high = bits[0]
    for position in range(uint64(count)):
        bottom = min(bottom, bits[position])
        high = max(high, bits[position])
    while bottom < high and steps > 0:
        steps -= 1
        middle = uint32(bottom + ((high - bottom) >> uint32(1)))
        above = uint32(0)
        for position in range(uint64(count)):
            is_above = uint32(bits[position] > middle)
            above = uint32(above + is_above)  # += would make it 64 bits
        if above >= uint64(k):
            bottom = uint32(middle + uint32(1))
            if above == uint64(k):
                break
        else:
            high = middle
    return bottom


@kernel
def keep_best(
    bits: NDArray[np.uint32],
    rows: NDArray[np.uint32],
    count: Integer,
    k: int,
) -> np.uint32:
    """Move the k best candidates to the front, in order; return the bits of the k-th weight."""
    bound = uint32(kth_largest(bits, count, k, int64(32)))
    end = _keep(bits, rows, uint64(0), uint64(count), bound)
    first = end
    surplus = end - uint64(k)
    while surplus > uint64(0):
        first -= uint64(1)
        surplus -= uint64(bits[first] == bound)
    _keep(bits, rows, first, end, bound + uint32(1))
    least: np.uint32 = bits[: uint64(k)].min()
    return least


@kernel(**INNER)
def _keep(
    bits: NDArray[np.uint32],
    rows: NDArray[np.uint32],
    first: np.uint64,
    last: np.uint64,
    bound: np.uint32,
) -> np.uint64:
    """Keep the candidates of [first, last) that are not below the bound; return their end."""
    end = first
    for position in range(first, last):
        value = bits[position]
        bits[end] = value  # as in `_collect`
        rows[end] = rows[position]
        end += uint64(value >= bound)
    return end
