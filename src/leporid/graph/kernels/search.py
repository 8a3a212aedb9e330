"""The neighbour search: count what two rows share, keep what can still be among the K best.

A block of query rows passes over all fitted rows, tile by tile. For each query the rare columns are
scattered into a row of counters through the column lists; then, chunk by chunk (its bits stay in
the first-level cache for all queries of the block), the popcounts of the popular columns are added
and the sums compared with the query's threshold. Only rows that may beat it become candidates.

The first threshold is a guess from an evenly spaced sample of the rows; it rises whenever the
buffer is full. A guess that is too high leaves fewer than K candidates; such rows are searched
again without one, so the result never depends on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, float64, int64, uint16, uint32, uint64
from numpy.typing import NDArray

from leporid.graph.kernels.layout import (
    CHUNK_GROUPS,
    QUERIES,
    Fitted,
    NeighbourLists,
    Queries,
    Scratch,
)
from leporid.graph.kernels.selection import keep_above, keep_best, kth_largest
from leporid.graph.kernels.simd import (
    add_lanes,
    fetch_add,
    load_lanes,
    lowest_bit,
    panel_counts,
    passing,
    splat_panel,
    store_counters,
    store_similarity,
)
from leporid.kernel import INNER, kernel

_GROUP = 256
"""Words of one group in one panel: 16 words x 16 rows."""
_SAFETY = 1.0 - 1e-6
"""The filter works in float32: its rounding must never reject a true neighbour."""


@kernel
def search_rows(
    targets: NDArray[np.int64],
    turn: NDArray[np.int64],
    fitted: Fitted,
    queries: Queries,
    scratch: Scratch,
    k: int,
    sample: tuple[int, int],
    out: NeighbourLists,
) -> None:
    """Neighbours of the query rows `targets`, a block of `QUERIES` at a time.

    Several threads may run this at once with the same `turn` (int64[1], zero at first: the number
    of the next block) and a scratch each. `sample`: see `_guess`; with a rank of 0 nothing is
    guessed.
    """
    tiles = len(fitted.list_start) // fitted.strips
    most = uint64(CHUNK_GROUPS * 16 + 16)
    while True:
        start = fetch_add(turn, int64(1)) * QUERIES
        if start >= len(targets):
            break
        block = targets[start : start + QUERIES]
        for slot in range(QUERIES):
            scratch.filled[slot] = scratch.weighed[slot] = uint64(0)
            scratch.bound_bits[slot] = scratch.guessed[slot] = uint32(0)
        for tile in range(tiles):
            first = tile * fitted.tile_groups
            stop = min(fitted.groups, first + fitted.tile_groups)
            for slot in range(len(block)):
                _scatter(fitted, queries, block[slot], tile, scratch.counters[slot])
                if sample[1] > 0 and tile == 0:
                    _guess(fitted, queries, block[slot], sample, scratch, slot)
            for group in range(first, stop, CHUNK_GROUPS):
                chunk = (group, min(CHUNK_GROUPS, stop - group), (group - first) * 16)
                scratch.mask_words[:] = 0
                for slot in range(len(block)):
                    _filter_chunk(fitted, queries, block[slot], chunk, scratch, slot)
                    _collect(scratch, slot, chunk[2], group * 16)
                    # The candidates of another chunk might not fit into the buffer.
                    if scratch.filled[slot] + most > uint64(scratch.rows.shape[1]):
                        _keep_best(fitted, queries, block[slot], k, scratch, slot)
            scratch.counters[: len(block)] = 0
        for slot in range(len(block)):
            _keep_best(fitted, queries, block[slot], k, scratch, slot)
            _write(scratch, slot, block[slot], k, out)


@kernel(**INNER)
def _scatter(
    fitted: Fitted, queries: Queries, query: int, tile: int, counters: NDArray[Any]
) -> None:
    """Add one to the counter of each fitted row of the tile, for each rare column it shares."""
    one = counters.dtype.type(1)
    first, last = uint64(queries.rare_start[query]), uint64(queries.rare_start[query + 1])
    for strip in range(tile * fitted.strips, (tile + 1) * fitted.strips):
        list_start = fitted.list_start[strip]
        for position in range(first, last):
            column = uint64(queries.rare_columns[position])
            start, stop = uint64(list_start[column]), uint64(list_start[column + uint64(1)])
            for entry in range(start, stop):
                counters[uint64(fitted.list_rows[entry])] += one


@kernel(**INNER)
def _guess(
    fitted: Fitted, queries: Queries, query: int, sample: Any, scratch: Scratch, slot: int
) -> None:
    """Set the threshold to a similarity of a certain rank, nearly, in a sample of the first tile.

    The sample is (every how many groups, which rank).
    """
    stride, rank = sample
    x, y, g = float32(queries.x[query]), float32(queries.y[query]), float32(queries.g)
    counters = scratch.counters[slot]
    taken: Any = uint64(0)
    panels = uint64(fitted.panels)
    for group in range(uint64(0), uint64(fitted.tile_groups), uint64(stride)):
        counts = load_lanes(counters, group * uint64(16))
        for panel in range(panels):
            words = splat_panel(queries.words, (uint64(query) * panels + panel) * uint64(16))
            at = (panel * uint64(fitted.groups) + group) * uint64(_GROUP)
            counts = add_lanes(counts, panel_counts(words, fitted.bits, at))
        store_similarity(counts, x, y, g, fitted.term32, group * uint64(16), scratch.sample, taken)
        taken += uint64(16)
    scratch.bound_bits[slot] = kth_largest(scratch.sample_bits, taken, rank, uint32(0), int64(20))
    scratch.guessed[slot] = scratch.bound_bits[slot] > uint32(0)


@kernel(inline="always")
def _filter_chunk(
    fitted: Fitted, queries: Queries, query: int, chunk: Any, scratch: Scratch, slot: int
) -> None:
    """Complete the counters of a chunk; `masks` says who may beat the threshold.

    The chunk is (first group, number of groups, position of their counters).
    """
    group, groups, begin = chunk
    counters, masks = scratch.counters[slot], scratch.masks
    panels, row = fitted.panels, group * 16
    # c / (x + y b + g c) >= t, written as c p >= q b + r; never true for c = 0.
    t = scratch.bound[slot] * _SAFETY
    p, q = float32(1.0 - t * queries.g), float32(t * queries.y[query])
    r = float32(max(t * queries.x[query], 1e-30))
    for panel in range(panels):
        words = splat_panel(queries.words, uint64((query * panels + panel) * 16))
        bits = uint64((panel * fitted.groups + group) * _GROUP)
        _add_panel(words, fitted.bits, bits, groups, counters, begin)
    # No branch in this loop: one on the mask would be guessed wrong half of the time, and late.
    for step in range(uint64(0), uint64(groups * 16), uint64(16)):
        counts = load_lanes(counters, uint64(begin) + step)
        masks[step >> uint64(4)] = passing(counts, p, q, r, fitted.term32, uint64(row) + step)
    own = queries.own[query] - row
    if 0 <= own < groups * 16:
        masks[own >> 4] &= uint16(~(uint32(1) << uint32(own & 15)))


@kernel(**INNER)
def _add_panel(
    words: Any, bits: NDArray[np.uint32], first: Any, groups: int, counters: Any, begin: int
) -> None:
    """Add one panel's popcounts of `groups` groups to the counters from `begin` on."""
    for step in range(uint64(groups)):
        counts = panel_counts(words, bits, first + step * uint64(_GROUP))
        at = uint64(begin) + step * uint64(16)
        store_counters(add_lanes(counts, load_lanes(counters, at)), counters, at)


@kernel(inline="always")
def _collect(scratch: Scratch, slot: int, begin: int, row: int) -> None:
    """Append the rows named by the masks of a chunk, from `row` on, with their counts."""
    masks, counters = scratch.mask_words, scratch.counters[slot]
    rows, counts = scratch.rows[slot], scratch.counts[slot]
    at: Any = scratch.filled[slot]
    for position in range(uint64(len(masks))):
        word = masks[position]
        base = position * uint64(64)
        while word:
            offset = base + lowest_bit(word)
            word &= word - uint64(1)
            rows[at] = uint32(uint64(row) + offset)
            counts[at] = uint32(counters[uint64(begin) + offset])
            at += uint64(1)
    scratch.filled[slot] = at


@kernel(**INNER)
def _keep_best(
    fitted: Fitted, queries: Queries, query: int, k: int, scratch: Scratch, slot: int
) -> None:
    """Weigh the new candidates and keep the k best; the k-th is the new threshold."""
    rows, counts = scratch.rows[slot], scratch.counts[slot]
    weights, bits = scratch.weights[slot], scratch.bits[slot]
    x, y, g = queries.x[query], queries.y[query], queries.g
    first, last = scratch.weighed[slot], scratch.filled[slot]
    for position in range(first, last):
        count = float64(counts[position])
        term = fitted.term[uint64(rows[position])]
        weights[position] = float32(count / (x + y * term + g * count))
    # A guess may be reached by fewer than k: candidates equal to it are kept.
    floor = uint32(scratch.bound_bits[slot] - scratch.guessed[slot])
    filled = keep_above(bits, rows, first, last, floor)
    if filled > uint64(k):
        scratch.bound_bits[slot] = keep_best(bits, rows, filled, k, floor)
        scratch.guessed[slot] = 0
        filled = uint64(k)
    scratch.filled[slot] = scratch.weighed[slot] = filled


@kernel(**INNER)
def _write(scratch: Scratch, slot: int, query: int, k: int, out: NeighbourLists) -> None:
    """Hand the candidates that are left over; a length of -1 says that the guess was too high."""
    length = scratch.filled[slot]
    if length < uint64(k) and scratch.guessed[slot]:
        out.length[query] = -1
        return
    out.length[query] = length
    for position in range(length):
        out.rows[query, position] = scratch.rows[slot, position]
        out.weights[query, position] = scratch.weights[slot, position]
