"""The neighbour search: count what two rows share, keep what can still be among the K best.

A block of query rows walks over all fitted rows, tile by tile. For each query the rare columns are
scattered into a row of counters through the column lists; then, chunk by chunk (the chunk's bits
stay in the first-level cache while every query of the block passes over it), the popcounts of the
popular columns are added and the sums are compared with the query's threshold. Only rows that
may beat it are written to the query's candidate buffer.

The threshold starts as a guess from an evenly spaced sample of the rows, so that few candidates are
written at all, and rises whenever the buffer is full. A guess that proves too high leaves fewer
than K candidates; such rows are reported and searched again without one, so the result never
depends on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, float64, int64, uint16, uint32, uint64
from numpy.typing import NDArray

from leporid.graph.layout import Fitted, Found, Queries, Scratch
from leporid.graph.selection import keep_best, kth_largest
from leporid.graph.simd import (
    add_lanes,
    bits_in,
    compress_lanes,
    fetch_add,
    load_counters,
    load_lanes,
    lowest_bit,
    mask_above,
    panel_counts,
    passing,
    splat_panel,
    store_counters,
    store_similarity,
)
from leporid.kernel import kernel

__all__ = ["CHUNK_GROUPS", "QUERIES", "search_rows"]

QUERIES = 8
"""Query rows that share one walk over the fitted rows."""
CHUNK_GROUPS = 16
"""Groups of 16 fitted rows whose bits (16 KB a panel) stay in cache for a block of queries."""
_GROUP = 256
"""Words of one group in one panel: 16 words x 16 rows."""
_SAFETY = 1.0 - 1e-6
"""The filter works in float32: its rounding must never reject a true neighbour."""


@kernel
def _scatter(
    columns: NDArray[np.uint32],
    first: int,
    last: int,
    list_start: NDArray[np.int64],
    list_rows: NDArray[np.uint16],
    counters: NDArray[Any],
) -> None:
    """Add one to the counter of each fitted row of the strip, for each rare column it shares."""
    one = counters.dtype.type(1)
    for position in range(uint64(first), uint64(last)):
        column = uint64(columns[position])
        start, stop = uint64(list_start[column]), uint64(list_start[column + uint64(1)])
        for entry in range(start, stop):
            counters[uint64(list_rows[entry])] += one


@kernel
def _add_panel(
    bits: NDArray[np.uint32],
    words: NDArray[np.uint32],
    word: int,
    group: int,
    groups: int,
    counters: NDArray[Any],
    place: int,
) -> None:
    """Add one panel's popcounts of `groups` groups to the counters from `place` on."""
    query = splat_panel(words, uint64(word))
    for step in range(uint64(groups)):
        counts = panel_counts(query, bits, (uint64(group) + step) * uint64(_GROUP))
        at = uint64(place) + step * uint64(16)
        store_counters(add_lanes(counts, load_counters(counters, at)), counters, at)


@kernel
def _add_panel_and_filter(
    bits: NDArray[np.uint32],
    words: NDArray[np.uint32],
    word: int,
    group: int,
    groups: int,
    counters: NDArray[Any],
    place: int,
    p: float,
    q: float,
    r: float,
    term: NDArray[np.float32],
    row: int,
    masks: NDArray[np.uint16],
) -> None:
    """`_add_panel`, and which of the rows from `row` on may beat the threshold.

    No branch in this loop: one on the mask would be guessed wrong half of the time, and late.
    """
    query = splat_panel(words, uint64(word))
    for step in range(uint64(groups)):
        counts = panel_counts(query, bits, (uint64(group) + step) * uint64(_GROUP))
        at = uint64(place) + step * uint64(16)
        counts = add_lanes(counts, load_counters(counters, at))
        store_counters(counts, counters, at)
        masks[step] = passing(counts, p, q, r, term, uint64(row) + step * uint64(16))


@kernel
def _filter(
    groups: int,
    counters: NDArray[Any],
    place: int,
    p: float,
    q: float,
    r: float,
    term: NDArray[np.float32],
    row: int,
    masks: NDArray[np.uint16],
) -> None:
    """The same for data in which no column is popular enough for a panel."""
    for step in range(uint64(groups)):
        counts = load_counters(counters, uint64(place) + step * uint64(16))
        masks[step] = passing(counts, p, q, r, term, uint64(row) + step * uint64(16))


@kernel
def _collect(
    masks: NDArray[np.uint64],
    counters: NDArray[Any],
    place: int,
    row: int,
    rows: NDArray[np.uint32],
    counts: NDArray[np.uint32],
    filled: int,
) -> Any:
    """Append the rows named by the masks of a chunk, with their counts; the new length."""
    at = uint64(filled)
    for position in range(uint64(len(masks))):
        word = masks[position]
        base = position * uint64(64)
        while word:
            offset = base + lowest_bit(word)
            word &= word - uint64(1)
            rows[at] = uint32(uint64(row) + offset)
            counts[at] = uint32(counters[uint64(place) + offset])
            at += uint64(1)
    return at


@kernel
def _guess(
    fitted: Fitted,
    queries: Queries,
    query: int,
    stride: int,
    rank: int,
    scratch: Scratch,
    slot: int,
) -> Any:
    """The `rank`-th largest similarity, nearly, among every `stride`-th group of the first tile."""
    x, y, g = float32(queries.x[query]), float32(queries.y[query]), float32(queries.g)
    counters = scratch.counters[slot]
    taken = uint64(0)
    panels = uint64(fitted.panels)
    for group in range(uint64(0), uint64(fitted.tile_groups), uint64(stride)):
        counts = load_counters(counters, group * uint64(16))
        for panel in range(panels):
            words = splat_panel(queries.words, (uint64(query) * panels + panel) * uint64(16))
            at = (panel * uint64(fitted.groups) + group) * uint64(_GROUP)
            counts = add_lanes(counts, panel_counts(words, fitted.bits, at))
        store_similarity(counts, x, y, g, fitted.term32, group * uint64(16), scratch.sample, taken)
        taken += uint64(16)
    return kth_largest(scratch.sample_bits, taken, rank, 0, 20)


@kernel
def _weigh(
    scratch: Scratch,
    slot: int,
    first: int,
    last: int,
    x: float,
    y: float,
    g: float,
    term: NDArray[np.float64],
    floor: int,
) -> Any:
    """Similarities of the candidates [first, last); those not above `floor` are dropped.

    Returns the new end; the weights are zero from there to a multiple of 16.
    """
    rows, counts = scratch.rows[slot], scratch.counts[slot]
    weights, bits = scratch.weights[slot], scratch.bits[slot]
    for position in range(uint64(first), uint64(last)):
        count = float64(counts[position])
        weights[position] = float32(count / (x + y * term[uint64(rows[position])] + g * count))
    for position in range(uint64(last), uint64(last) + uint64(16)):
        bits[position] = uint32(0)
    kept = uint64(first)
    for position in range(uint64(first), uint64(last), uint64(16)):
        values, lanes = load_lanes(bits, position), load_lanes(rows, position)
        mask = mask_above(values, uint32(floor))
        compress_lanes(values, mask, bits, kept)
        compress_lanes(lanes, mask, rows, kept)
        kept += bits_in(mask)
    for position in range(kept, kept + uint64(16)):
        bits[position] = uint32(0)
    return kept


@kernel
def _set_filter(
    filters: NDArray[np.float32], slot: int, t: float, x: float, y: float, g: float
) -> None:
    """c / (x + y b + g c) >= t, written as c p >= q b + r; never true for c = 0."""
    t *= _SAFETY
    filters[slot, 0] = 1.0 - t * g
    filters[slot, 1] = t * y
    filters[slot, 2] = max(t * x, 1e-30)


@kernel
def search_rows(
    wanted: NDArray[np.int64],
    turn: NDArray[np.int64],
    fitted: Fitted,
    queries: Queries,
    scratch: Scratch,
    k: int,
    stride: int,
    rank: int,
    found: Found,
) -> None:
    """Neighbours of the query rows `wanted`, a block of `QUERIES` at a time.

    Several threads may run this at once with the same `turn` (int64[1], zero at first: the number
    of the next block) and a scratch each. With `rank` > 0 thresholds are guessed from every
    `stride`-th group.
    """
    filled = np.zeros(QUERIES, np.uint64)
    weighed = np.zeros(QUERIES, np.uint64)
    floor = np.zeros(QUERIES, np.uint32)
    guessed = np.zeros(QUERIES, np.bool_)
    filters = np.zeros((QUERIES, 3), np.float32)
    bound = np.zeros(1, np.uint32)
    bound_float = bound.view(np.float32)
    mask_words = np.zeros(CHUNK_GROUPS // 4, np.uint64)
    masks = mask_words.view(np.uint16)
    capacity = uint64(scratch.rows.shape[1])
    panels, g = fitted.panels, queries.g
    tiles = len(fitted.list_start) // fitted.strips
    while True:
        start = fetch_add(turn, int64(1)) * QUERIES
        if start >= len(wanted):
            break
        block = min(QUERIES, len(wanted) - start)
        for slot in range(block):
            filled[slot] = weighed[slot] = 0
            floor[slot] = 0
            guessed[slot] = False
            filters[slot, 0], filters[slot, 1], filters[slot, 2] = 1.0, 0.0, 0.5
        for tile in range(tiles):
            tile_start = tile * fitted.tile_groups
            tile_stop = min(fitted.groups, tile_start + fitted.tile_groups)
            for slot in range(block):
                query = wanted[start + slot]
                for strip in range(tile * fitted.strips, (tile + 1) * fitted.strips):
                    _scatter(
                        queries.rare_columns,
                        queries.rare_start[query],
                        queries.rare_start[query + 1],
                        fitted.list_start[strip],
                        fitted.list_rows,
                        scratch.counters[slot],
                    )
                if rank > 0 and tile == 0:
                    bound[0] = _guess(fitted, queries, query, stride, rank, scratch, slot)
                    if bound[0] > 0:
                        guessed[slot] = True
                        floor[slot] = bound[0] - uint32(1)
                        _set_filter(
                            filters, slot, bound_float[0], queries.x[query], queries.y[query], g
                        )
            for group in range(tile_start, tile_stop, CHUNK_GROUPS):
                groups = min(CHUNK_GROUPS, tile_stop - group)
                place = (group - tile_start) * 16
                if groups < CHUNK_GROUPS:
                    mask_words[:] = 0
                for slot in range(block):
                    query = wanted[start + slot]
                    counters = scratch.counters[slot]
                    p, q, r = filters[slot, 0], filters[slot, 1], filters[slot, 2]
                    for panel in range(panels - 1):
                        _add_panel(
                            fitted.bits,
                            queries.words,
                            (query * panels + panel) * 16,
                            panel * fitted.groups + group,
                            groups,
                            counters,
                            place,
                        )
                    if panels > 0:
                        _add_panel_and_filter(
                            fitted.bits,
                            queries.words,
                            (query * panels + panels - 1) * 16,
                            (panels - 1) * fitted.groups + group,
                            groups,
                            counters,
                            place,
                            p,
                            q,
                            r,
                            fitted.term32,
                            group * 16,
                            masks,
                        )
                    else:
                        _filter(groups, counters, place, p, q, r, fitted.term32, group * 16, masks)
                    own = queries.own[query] - group * 16
                    if 0 <= own < groups * 16:
                        masks[own >> 4] &= uint16(~(uint32(1) << uint32(own & 15)))
                    filled[slot] = _collect(
                        mask_words,
                        counters,
                        place,
                        group * 16,
                        scratch.rows[slot],
                        scratch.counts[slot],
                        filled[slot],
                    )
                    done = group + groups == fitted.groups
                    if done or filled[slot] + uint64(CHUNK_GROUPS * 16 + 16) > capacity:
                        filled[slot] = _weigh(
                            scratch,
                            slot,
                            weighed[slot],
                            filled[slot],
                            queries.x[query],
                            queries.y[query],
                            g,
                            fitted.term,
                            floor[slot],
                        )
                        if filled[slot] > uint64(k):
                            bound[0] = keep_best(
                                scratch.bits[slot], scratch.rows[slot], filled[slot], k, floor[slot]
                            )
                            filled[slot] = k
                            floor[slot] = bound[0]
                            guessed[slot] = False
                            _set_filter(
                                filters, slot, bound_float[0], queries.x[query], queries.y[query], g
                            )
                        weighed[slot] = filled[slot]
                    if done:
                        length = filled[slot]
                        if length < uint64(k) and guessed[slot]:
                            found.length[query] = -1
                        else:
                            found.length[query] = length
                            rows, weights = scratch.rows[slot], scratch.weights[slot]
                            for position in range(length):
                                found.rows[query, position] = rows[position]
                                found.weights[query, position] = weights[position]
            scratch.counters[:block] = 0
