"""Lay rows out for the search: popular columns as bits, the rest as lists.

Columns are renumbered by popularity. Every 512 of them that are popular enough become a panel:
a row is 16 words of 32 bits in it, and 16 rows lie side by side. The rarer columns stay lists, of
the columns of a row (queries) and of the rows of a column (fitted rows).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray

from leporid.graph.layout import Fitted, Queries
from leporid.graph.matrix import Members
from leporid.graph.simd import LANES, WORDS
from leporid.graph.similarity import Terms
from leporid.kernel import kernel

__all__ = ["Columns", "fitted_rows", "query_rows", "rank_columns"]

PANEL = 32 * WORDS
"""Columns in a panel: 512."""
TILE_GROUPS = 4096
"""Groups in a tile: 65,536 rows, what a 16-bit number can tell apart."""
STRIP_GROUPS = 1024
"""Groups in a strip: 16,384 counters of 16 bits are two thirds of a first-level cache."""
SCATTER_COST = 1.2
"""Seconds to add one to a counter, over seconds to intersect one pair of rows in a panel."""
NOWHERE = 1e30
"""The term of a row that does not exist or is empty: no threshold lets it pass."""


class Columns(NamedTuple):
    """How columns are renumbered."""

    rank: NDArray[np.uint32]
    """uint32[n_columns]: 0 for the most popular; ties to the smaller column."""
    panels: int
    """The first `panels` x 512 ranks are bits."""


def rank_columns(members: Members) -> Columns:
    """Rank the columns, and put into panels those for which scattering would cost more."""
    popularity = np.bincount(members.columns, minlength=members.n_columns)
    order = np.argsort(-popularity, kind="stable")
    rank = np.empty(members.n_columns, np.uint32)
    rank[order] = np.arange(members.n_columns, dtype=np.uint32)
    # A column of f rows costs f increments in each of those f rows' searches.
    increments = popularity[order].astype(np.float64) ** 2
    of_panel = np.add.reduceat(increments, np.arange(0, len(order), PANEL))
    return Columns(rank, int(np.sum(of_panel * SCATTER_COST > float(members.n) ** 2)))


def fitted_rows(members: Members, columns: Columns, b: NDArray[np.float64]) -> Fitted:
    """The rows to be searched; `b` as in `similarity.Terms`."""
    groups = -(-members.n // LANES)
    tile_groups = min(groups, TILE_GROUPS)
    strips = -(-tile_groups // STRIP_GROUPS)
    tiles = -(-groups // tile_groups)
    rare = max(members.n_columns - columns.panels * PANEL, 0)
    bits = np.zeros(columns.panels * groups * WORDS * LANES, np.uint32)
    list_start = np.zeros((tiles * strips, rare + 1), np.int64)
    list_rows = _fill_fitted(
        members.indptr,
        members.columns,
        columns.rank,
        columns.panels,
        groups,
        tile_groups,
        strips,
        bits,
        list_start,
    )
    term = np.full(groups * LANES, NOWHERE)
    term[: members.n] = np.where(members.degrees > 0, b, NOWHERE)
    return Fitted(
        bits,
        columns.panels,
        groups,
        tile_groups,
        strips,
        list_start,
        list_rows,
        term,
        term.astype(np.float32),
    )


def query_rows(
    members: Members, columns: Columns, terms: Terms, own: NDArray[np.int64] | None
) -> Queries:
    """The rows whose neighbours are wanted; `own` as in `Queries`, None for -1 everywhere."""
    words = np.zeros(max(members.n * columns.panels * WORDS, 1), np.uint32)
    rare_start = np.zeros(members.n + 1, np.int64)
    rare_columns = _fill_queries(
        members.indptr, members.columns, columns.rank, columns.panels, words, rare_start
    )
    if own is None:
        own = np.full(members.n, -1, np.int64)
    return Queries(words, rare_start, rare_columns, own, terms.x, terms.y, terms.g)


@kernel
def _fill_fitted(
    indptr: NDArray[np.int64],
    members: NDArray[np.int32],
    rank: NDArray[np.uint32],
    panels: int,
    groups: int,
    tile_groups: int,
    strips: int,
    bits: NDArray[np.uint32],
    list_start: NDArray[np.int64],
) -> Any:
    """Set the bits, and sort the rare entries by tile, strip, column and row."""
    popular = uint64(panels * PANEL)
    rows = len(indptr) - 1
    for row in range(rows):
        group, lane = uint64(row >> 4), uint64(row & 15)
        strip = _strip_of(row, tile_groups, strips)
        for position in range(uint64(indptr[row]), uint64(indptr[row + 1])):
            column = uint64(rank[uint64(members[position])])
            if column < popular:
                panel, place = column // uint64(PANEL), column % uint64(PANEL)
                word = (panel * uint64(groups) + group) * uint64(WORDS) + (place >> uint64(5))
                bit = uint32(uint32(1) << uint32(place & uint64(31)))
                bits[word * uint64(LANES) + lane] |= bit
            else:
                list_start[strip, column - popular + uint64(1)] += 1
    total = 0
    for strip in range(len(list_start)):
        list_start[strip, 0] = total
        for column in range(1, list_start.shape[1]):
            total += list_start[strip, column]
            list_start[strip, column] = total
    list_rows = np.empty(total, np.uint16)
    cursor = list_start.copy()
    for row in range(rows):
        strip = _strip_of(row, tile_groups, strips)
        for position in range(uint64(indptr[row]), uint64(indptr[row + 1])):
            column = uint64(rank[uint64(members[position])])
            if column >= popular:
                at = cursor[strip, column - popular]
                cursor[strip, column - popular] = at + 1
                list_rows[at] = row % (tile_groups * LANES)
    return list_rows


@kernel
def _strip_of(row: int, tile_groups: int, strips: int) -> Any:
    tile, inside = divmod(row, tile_groups * LANES)
    return tile * strips + inside // (STRIP_GROUPS * LANES)


@kernel
def _fill_queries(
    indptr: NDArray[np.int64],
    members: NDArray[np.int32],
    rank: NDArray[np.uint32],
    panels: int,
    words: NDArray[np.uint32],
    rare_start: NDArray[np.int64],
) -> Any:
    """Set the bits of each row, and gather the ranks of its rare columns."""
    popular = uint64(panels * PANEL)
    rare_columns = np.empty(len(members), np.uint32)
    filled = uint64(0)
    for row in range(len(indptr) - 1):
        first_word = uint64(row * panels * WORDS)
        for position in range(uint64(indptr[row]), uint64(indptr[row + 1])):
            column = uint64(rank[uint64(members[position])])
            if column < popular:
                bit = uint32(uint32(1) << uint32(column & uint64(31)))
                words[first_word + (column >> uint64(5))] |= bit
            else:
                rare_columns[filled] = uint32(column - popular)
                filled += uint64(1)
        rare_start[row + 1] = filled
    return rare_columns[:filled].copy()
