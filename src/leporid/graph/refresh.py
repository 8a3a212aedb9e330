"""`refresh_graph`: the graph of a log that has grown, from the graph it had.

The similarity of two rows changes only where one of them changes. So a changed row is searched
for anew, and an unchanged one is compared with the changed rows alone: what it chose among the
unchanged rows is known down to the last row it chose, and its new choice is known as long as it
does not reach below that. Where changed rows fell behind it and too few came up, the row is
searched for anew as well.

So that this stays rare, a few more neighbours than K are kept of every row that is searched for
(`Spare`): a list then may lose that many before it has to be searched for again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray

from leporid.errors import GraphError
from leporid.graph.directed import directed_neighbours, usable_k
from leporid.graph.layout import Found
from leporid.graph.matrix import Members, members_of, take_rows
from leporid.graph.selection import keep_best, ranks_behind
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import symmetrise
from leporid.graph.types import KnnGraph
from leporid.kernel import kernel
from leporid.progress import NullProgress, ProgressLike, make_progress
from leporid.threads import on_each_share, resolve_threads

__all__ = ["RefreshedGraph", "Spare", "refresh_graph"]

SPARE = 16
"""One spare neighbour for so many of the K."""
SEARCH_ALL_FROM = 0.5
"""Share of changed rows from which on all lists are searched for again. Measured up to there at
Anime's size (`benchmarks/bench_refresh_share.py`), where merging still takes 0.84 of the time."""
SEARCH_ALL_BELOW = 10_000
"""Rows below which they are whatever the share: with 5,741 of them that is quicker."""
MERGE_ROWS = 8192
"""Rows merged at a time."""
NEAR = 4
"""An unchanged row is compared with all changed ones; of those it chose so many times as many as
their share of all rows lets expect are kept. Rows that choose more are searched for anew."""

FEWEST_NEAR = 32
"""And at least so many."""


class Spare(NamedTuple):
    """What is known of each row's ranking beyond its K neighbours: the places right after them."""

    rows: NDArray[np.int32]
    """int32[n, s], ascending within a row."""
    weights: NDArray[np.float32]
    """float32[n, s]."""
    length: NDArray[np.int32]
    """int32[n]: how many of the s places are known."""
    complete: NDArray[np.bool_]
    """bool[n]: no row beyond these has a positive similarity."""


class RefreshedGraph(NamedTuple):
    """The graph of the new rows and what the next refresh can use."""

    graph: KnnGraph
    spare: Spare
    changed: int
    """Rows that are new or have other members than before."""
    searched: int
    """Rows compared with all rows; the lists of the others were merged."""


class _Limits(NamedTuple):
    k: int
    """Neighbours of a row in the old graph."""
    wanted: int
    """Neighbours of a row in the new graph."""
    room: int
    """`wanted` and the spare ones."""


def refresh_graph(
    graph: KnnGraph,
    before: Any,
    after: Any,
    k: int | None = None,
    *,
    spare: Spare | None = None,
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
) -> RefreshedGraph:
    """`knn_graph(after, k)` to the bit, re-using what `graph = knn_graph(before, ...)` knows.

    Parameters
    ----------
    before, after : sparse matrix [n, m] and [n + new rows, m + new columns], or `Members`
        Row i of both is the same row. It may have gained members, or lost some.
    k : neighbours of a row, clipped to the number of other rows; None for that of `graph`.
    spare : of the `RefreshedGraph` that made `graph`, where there is one.
    """
    old, new = members_of(before, "before"), members_of(after, "after")
    _check(graph, old, new)
    wanted = usable_k(graph.k if k is None else k, new.n - 1)
    limits = _Limits(graph.k, wanted, min(new.n - 1, wanted + max(1, wanted // SPARE)))
    workers, reporter = resolve_threads(threads), make_progress(progress)
    measure = Similarity(graph.similarity)
    found = Found(
        np.empty((new.n, limits.room), np.int32),
        np.empty((new.n, limits.room), np.float32),
        np.full(new.n, -1, np.int32),
    )
    complete = np.zeros(new.n, np.bool_)
    changed = np.ones(new.n, np.bool_)
    _compare(old.indptr, old.columns, new.indptr, new.columns, changed)
    n_changed = int(changed.sum())
    # A larger K needs places of the ranking that the old lists may not have.
    few = n_changed < SEARCH_ALL_FROM * new.n
    if n_changed == 0 or (few and new.n >= SEARCH_ALL_BELOW):
        known = _no_spare(graph) if spare is None else spare
        _merge_all(graph, known, new, changed, limits, measure, found, complete, workers)
    search = np.flatnonzero(found.length < 0).astype(np.int64)
    if len(search):
        directed_neighbours(
            new,
            new,
            limits.room,
            measure,
            np.arange(new.n),
            workers,
            reporter,
            only=search,
            found=found,
        )
        complete[search] = found.length[search] < limits.room
    kept, rest = _split(found, complete, limits)
    refreshed = symmetrise(kept, wanted, graph.side, graph.similarity, workers)
    if progress is True:
        reporter.close()
    return RefreshedGraph(refreshed, rest, n_changed, len(search))


def _check(graph: KnnGraph, old: Members, new: Members) -> None:
    if graph.n != old.n:
        raise GraphError(f"the graph has {graph.n} nodes and `before` {old.n} rows: not of it")
    if new.n < old.n or new.n_columns < old.n_columns:
        raise GraphError(
            f"`after` has {new.n} rows and {new.n_columns} columns, fewer than the "
            f"{old.n} and {old.n_columns} of `before`: rows and columns keep their places"
        )
    if graph.k < 1 or new.n < 2:
        raise GraphError("a graph needs at least 2 rows to be refreshed")


def _no_spare(graph: KnnGraph) -> Spare:
    empty = np.zeros((graph.n, 1), np.int32)
    # All other rows are in lists of n - 1; fewer than K in a row means that it chose them all.
    complete = (np.diff(graph.indptr) < graph.k) | (graph.k == graph.n - 1)
    return Spare(empty, empty.astype(np.float32), np.zeros(graph.n, np.int32), complete)


def _merge_all(
    graph: KnnGraph,
    spare: Spare,
    new: Members,
    changed: NDArray[np.bool_],
    limits: _Limits,
    measure: Similarity,
    found: Found,
    complete: NDArray[np.bool_],
    threads: int,
) -> None:
    """New lists of the unchanged rows, where they are certain; a length of -1 where not."""
    movers = np.flatnonzero(changed)
    base = take_rows(new, movers)
    unchanged = np.flatnonzero(~changed)
    expected = limits.wanted * len(movers) // new.n
    width = min(len(movers), limits.room, NEAR * expected + FEWEST_NEAR)
    longest = int(np.diff(graph.indptr).max()) + spare.rows.shape[1] + width + 64
    scratch = [np.zeros((2, 2, longest), np.uint32) for _ in range(threads)]
    for first in range(0, len(unchanged), MERGE_ROWS):
        rows = unchanged[first : first + MERGE_ROWS]
        if width:
            near = directed_neighbours(
                take_rows(new, rows), base, width, measure, None, threads, NullProgress()
            )
        else:
            none = np.zeros((len(rows), 1), np.int32)
            near = Found(none, none.astype(np.float32), none[:, 0])

        def work(thread: int, begin: int, end: int, rows: Any = rows, near: Found = near) -> None:
            part = slice(begin, end)
            _merge(
                graph.indptr,
                graph.indices,
                graph.weights,
                spare,
                changed,
                movers,
                rows[part],
                Found(near.rows[part], near.weights[part], near.length[part]),
                limits,
                scratch[thread],
                scratch[thread][1].view(np.float32),
                found,
                complete,
            )

        on_each_share(work, 0, len(rows), threads)


def _split(found: Found, complete: NDArray[np.bool_], limits: _Limits) -> tuple[Found, Spare]:
    """The best K of each list, in the memory of the lists, and the others."""
    n, room = found.rows.shape
    width = max(room - limits.wanted, 1)
    rest = Spare(
        np.zeros((n, width), np.int32),
        np.zeros((n, width), np.float32),
        np.zeros(n, np.int32),
        complete,
    )
    bits = found.weights.reshape(-1).view(np.uint32)
    _keep_k(found.rows.reshape(-1), bits, found.length, limits, rest, rest.weights.view(np.uint32))
    size = n * limits.wanted
    rows = found.rows.reshape(-1)[:size].reshape(n, limits.wanted)
    weights = found.weights.reshape(-1)[:size].reshape(n, limits.wanted)
    return Found(rows, weights, np.minimum(found.length, limits.wanted).astype(np.int32)), rest


@kernel
def _compare(
    old_indptr: NDArray[np.int64],
    old_columns: NDArray[np.int32],
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    changed: NDArray[np.bool_],
) -> None:
    """Mark the old rows that have the same members in both."""
    for row in range(len(old_indptr) - 1):
        length = old_indptr[row + 1] - old_indptr[row]
        if length != indptr[row + 1] - indptr[row]:
            continue
        same = True
        for place in range(length):
            same &= old_columns[old_indptr[row] + place] == columns[indptr[row] + place]
        changed[row] = not same


@kernel
def _merge(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    spare: Spare,
    changed: NDArray[np.bool_],
    movers: NDArray[np.int64],
    rows: NDArray[np.int64],
    near: Found,
    limits: _Limits,
    scratch: NDArray[np.uint32],
    scratch_weights: NDArray[np.float32],
    found: Found,
    complete: NDArray[np.bool_],
) -> None:
    """What each of `rows` chose among the unchanged rows, and `near` among the changed ones.

    `scratch` uint32[2, 2, longest]: names of rows and weights, twice; `scratch_weights` is its
    second half seen as float32.
    """
    own, own_bits = scratch[0, 0], scratch[1, 0]
    own_weights = scratch_weights[0]
    best, best_bits = scratch[0, 1], scratch[1, 1]
    best_weights = scratch_weights[1]
    for position in range(len(rows)):
        row = rows[position]
        start, stop = indptr[row], indptr[row + 1]
        count = stop - start
        for place in range(count):
            own[place] = uint32(indices[start + place])
            own_weights[place] = weights[start + place]
        if count > limits.k:
            # The row's own choice are its K best edges; the others are rows that chose it.
            _pad(own_bits, count)
            keep_best(own_bits, own, uint64(count), limits.k, uint32(0))
            count = limits.k
        # The last place of the ranking that is known.
        least, last = np.float32(np.inf), uint32(0)
        for place in range(count):
            if own_weights[place] <= least:
                least, last = own_weights[place], own[place]
        extra = spare.length[row]
        for place in range(extra):
            other = uint32(spare.rows[row, place])
            weight = spare.weights[row, place]
            if ranks_behind(weight, other, least, last):
                least, last = weight, other
        close = near.length[position]
        everything = spare.complete[row]
        if close == near.rows.shape[1] and close < len(movers):
            # More changed rows may follow: what lies behind the last of these is not known.
            low, at = np.float32(np.inf), uint32(0)
            for place in range(close):
                if near.weights[position, place] <= low:
                    low = near.weights[position, place]
                    at = uint32(movers[near.rows[position, place]])
            if everything or ranks_behind(least, last, low, at):
                least, last = low, at
            everything = False
        # Three ascending lists of different rows become one.
        a, b, c, total = 0, 0, 0, 0
        nobody = uint32(0xFFFFFFFF)
        while a < count or b < extra or c < close:
            first = own[a] if a < count else nobody
            second = uint32(spare.rows[row, b]) if b < extra else nobody
            third = uint32(movers[near.rows[position, c]]) if c < close else nobody
            if third < first and third < second:
                weight = near.weights[position, c]
                other = third
                taken = spare.complete[row] or not ranks_behind(weight, other, least, last)
                c += 1
            elif first < second:
                weight, other, taken = own_weights[a], first, not changed[first]
                a += 1
            else:
                weight, other = spare.weights[row, b], second
                taken = not changed[second]
                b += 1
            certain = everything or not ranks_behind(weight, other, least, last)
            if taken and certain:
                best[total] = other
                best_weights[total] = weight
                total += 1
        if total < limits.wanted and not everything:
            continue
        complete[row] = everything and total <= limits.room
        if total > limits.room:
            _pad(best_bits, total)
            keep_best(best_bits, best, uint64(total), limits.room, uint32(0))
            total = limits.room
        for place in range(total):
            found.rows[row, place] = best[place]
            found.weights[row, place] = best_weights[place]
        found.length[row] = total


@kernel
def _pad(bits: NDArray[np.uint32], count: int) -> None:
    for place in range(count, count + 16):
        bits[place] = uint32(0)


@kernel
def _keep_k(
    rows: NDArray[np.int32],
    bits: NDArray[np.uint32],
    length: NDArray[np.int32],
    limits: _Limits,
    rest: Spare,
    rest_bits: NDArray[np.uint32],
) -> None:
    """Move the K best of each list together; a list is read before its place is written to."""
    names, values = np.zeros(limits.room + 32, np.uint32), np.zeros(limits.room + 32, np.uint32)
    for row in range(len(length)):
        count = length[row]
        start, target = row * limits.room, row * limits.wanted
        for place in range(count):
            names[place], values[place] = uint32(rows[start + place]), bits[start + place]
        kept = min(count, limits.wanted)
        left = 0
        if count > limits.wanted:
            _pad(values, count)
            least = keep_best(values, names, uint64(count), limits.wanted, uint32(0))
            last = uint32(0)
            for place in range(kept):
                if values[place] == least:
                    last = names[place]
            for place in range(count):
                value, name = bits[start + place], uint32(rows[start + place])
                if ranks_behind(value, name, least, last):
                    rest.rows[row, left], rest_bits[row, left] = name, value
                    left += 1
        rest.length[row] = left
        for place in range(kept):
            rows[target + place], bits[target + place] = names[place], values[place]
