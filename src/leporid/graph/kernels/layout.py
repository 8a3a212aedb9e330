"""What the search reads, works in and writes: popular columns as bits, the rest as lists.

Columns are renumbered by popularity. Every 512 of them that are popular enough become a panel:
a row is 16 words of 32 bits in it, and 16 rows lie side by side. The rarer columns stay lists, of
the columns of a row (queries) and of the rows of a column (fitted rows).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph.kernels.simd import LANES, WORDS
from leporid.graph.similarity import Terms
from leporid.graph.types import BinaryCSR
from leporid.kernel import INNER, kernel

PANEL = 32 * WORDS
"""Columns in a panel: 512."""
TILE_GROUPS = 4096
"""Groups of 16 rows in a tile: 65,536 rows, what a 16-bit number can tell apart."""
STRIP_GROUPS = 1024
"""Groups in a strip: 16,384 counters of 16 bits are two thirds of a first-level cache."""
CHUNK_GROUPS = 16
"""Groups of a chunk, whose bits (16 KB per panel) stay in cache for a block of queries."""
QUERIES = 8
"""Query rows that share one walk over the fitted rows."""
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


class Fitted(NamedTuple):
    """The rows that are searched, in groups of 16."""

    bits: NDArray[np.uint32]
    """uint32[panels * groups * 16 * 16]: panel, group of rows, word, row."""
    panels: int
    groups: int
    tile_groups: int
    """Groups in a tile."""
    strips: int
    """Parts of a tile whose counters fit the first-level cache; each column has a list in each."""
    list_start: NDArray[np.int64]
    """int64[tiles * strips, rare columns + 1]: where each column's list starts in `list_rows`."""
    list_rows: NDArray[np.uint16]
    """Rows of each rare column, counted from the start of the tile."""
    term: NDArray[np.float64]
    """float64[groups * 16]: b of each row (see `similarity`); huge where there is no row."""
    term32: NDArray[np.float32]


class Queries(NamedTuple):
    """The n rows whose neighbours are searched; similarity = c / (x + y b + g c)."""

    words: NDArray[np.uint32]
    """uint32[n * panels * 16]: the bits of each row."""
    rare_start: NDArray[np.int64]
    rare_columns: NDArray[np.uint32]
    own: NDArray[np.int64]
    """int64[n]: the fitted row that a query is itself, which is left out; -1 where it is none."""
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    g: float


class NeighbourLists(NamedTuple):
    """The neighbours of each of n rows, by ascending index; arrays [n, k]."""

    rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    length: NDArray[np.int32]
    """int32[n]; -1 where a guessed threshold was too high."""

    @classmethod
    def empty(cls, n: int, k: int) -> NeighbourLists:
        """Room for k neighbours of each of n rows."""
        return cls(np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.zeros(n, np.int32))

    def csr(self, columns: int) -> sparse.csr_array:
        """float32[n, columns] with the weights; a copy."""
        taken = np.arange(self.rows.shape[1]) < self.length[:, None]
        indptr = np.concatenate([[0], np.cumsum(self.length)])
        edges = (self.weights[taken], self.rows[taken], indptr)
        return sparse.csr_array(edges, shape=(len(self.length), columns))


class Scratch(NamedTuple):
    """Work space of one thread: a slot of each for every query of a block."""

    counters: NDArray[Any]
    """uint16 or uint32 [QUERIES, tile rows], all zero between tiles."""
    rows: NDArray[np.uint32]
    """uint32[QUERIES, capacity]: the candidates."""
    counts: NDArray[np.uint32]
    """Columns they share with the query."""
    weights: NDArray[np.float32]
    bits: NDArray[np.uint32]
    """`weights`, seen as integers."""
    filled: NDArray[np.uint64]
    """uint64[QUERIES]: candidates in the buffers, the first `weighed` of them with weights."""
    weighed: NDArray[np.uint64]
    bound: NDArray[np.float32]
    """float32[QUERIES]: the weight of the threshold."""
    bound_bits: NDArray[np.uint32]
    guessed: NDArray[np.uint32]
    """uint32[QUERIES]: 1 while the threshold is a guess, 0 once K candidates have reached it."""
    masks: NDArray[np.uint16]
    """uint16[CHUNK_GROUPS]: the rows of a chunk that may beat the threshold."""
    mask_words: NDArray[np.uint64]
    """`masks`, four at a time."""
    sample: NDArray[np.float32]
    """float32[sampled rows]."""
    sample_bits: NDArray[np.uint32]


def rank_columns(members: BinaryCSR) -> Columns:
    """Rank the columns, and put into panels those for which scattering would cost more."""
    popularity = np.bincount(members.columns, minlength=members.n_columns)
    order = np.argsort(-popularity, kind="stable")
    rank = np.empty(members.n_columns, np.uint32)
    rank[order] = np.arange(members.n_columns, dtype=np.uint32)
    # A column of f rows costs f increments in each of those f rows' searches.
    increments = popularity[order].astype(np.float64) ** 2
    of_panel = np.add.reduceat(increments, np.arange(0, len(order), PANEL))
    return Columns(rank, int(np.sum(of_panel * SCATTER_COST > float(members.n) ** 2)))


def fitted_rows(members: BinaryCSR, columns: Columns, b: NDArray[np.float64]) -> Fitted:
    """The rows to be searched; `b` as in `similarity.Terms`."""
    panels = columns.panels
    groups = -(-members.n // LANES)
    tile_groups = min(groups, TILE_GROUPS)
    strips = -(-tile_groups // STRIP_GROUPS)
    tiles = -(-groups // tile_groups)
    bits = np.zeros(panels * groups * WORDS * LANES, np.uint32)
    list_start = np.zeros((tiles * strips, _rare_columns(members, panels) + 1), np.int64)
    shape = (groups, tile_groups, strips)
    list_rows = _fill_fitted(members, columns, shape, bits, list_start)
    term = np.full(groups * LANES, NOWHERE)
    term[: members.n] = np.where(members.degrees > 0, b, NOWHERE)
    term32 = term.astype(np.float32)
    return Fitted(bits, panels, *shape, list_start, list_rows, term, term32)


def query_rows(
    members: BinaryCSR, columns: Columns, terms: Terms, own: NDArray[np.int64] | None
) -> Queries:
    """The rows whose neighbours are searched; `own` as in `Queries`, None for -1 everywhere."""
    words = np.zeros(max(members.n * columns.panels, 1) * WORDS, np.uint32)
    rare_start = np.zeros(members.n + 1, np.int64)
    rare_columns = _fill_queries(members, columns, words, rare_start)
    if own is None:
        own = np.full(members.n, -1, np.int64)
    return Queries(words, rare_start, rare_columns, own, terms.x, terms.y, terms.g)


def scratch_space(base: Fitted, queries: Queries, k: int, stride: int) -> Scratch:
    """Buffers of one thread."""
    # A pair shares at most as many rare columns as the query has: 16 bits nearly always do.
    most = int(np.diff(queries.rare_start).max(initial=0)) + PANEL * base.panels
    counter = np.uint16 if most <= np.iinfo(np.uint16).max else np.uint32
    counters = np.zeros((QUERIES, base.tile_groups * LANES), counter)
    rows, counts, bits = np.zeros((3, QUERIES, _capacity(k)), np.uint32)
    sample = np.zeros(-(-base.tile_groups // stride) * LANES, np.uint32)
    filled, weighed = np.zeros((2, QUERIES), np.uint64)
    bound, guessed = np.zeros((2, QUERIES), np.uint32)
    masks = np.zeros(CHUNK_GROUPS // 4, np.uint64)
    weights, bounds, samples = (numbers.view(np.float32) for numbers in (bits, bound, sample))
    state = (filled, weighed, bounds, bound, guessed, masks.view(np.uint16), masks)
    return Scratch(counters, rows, counts, weights, bits, *state, samples, sample)


def search_bytes(members: BinaryCSR, k: int, threads: int) -> int:
    """What the neighbour search holds in memory, apart from the lists it writes."""
    n, columns = members.n, rank_columns(members)
    words = 4 * WORDS * columns.panels * n
    popular = columns.rank[members.columns] < columns.panels * PANEL if columns.panels else 0
    rare = len(members.columns) - int(np.count_nonzero(popular))
    strips = -(-n // (STRIP_GROUPS * LANES))
    lists = 10 * rare + 16 * strips * _rare_columns(members, columns.panels)
    counters = 2 * min(n + LANES, TILE_GROUPS * LANES)
    scratch = QUERIES * (counters + 12 * _capacity(k)) + n
    return 2 * words + lists + threads * scratch + 80 * n


def _rare_columns(members: BinaryCSR, panels: int) -> int:
    return max(members.n_columns - panels * PANEL, 0)


def _capacity(k: int) -> int:
    """Candidates a query's buffer holds before the best K of them are kept."""
    return max(4 * k, 4096) + 2 * CHUNK_GROUPS * LANES


@kernel
def _fill_fitted(
    members: BinaryCSR, columns: Columns, shape: Any, bits: Any, list_start: Any
) -> Any:
    """Set the bits, and sort the rare entries by tile, strip, column and row."""
    groups, tile_groups, strips = shape
    indptr, popular = members.indptr, uint64(columns.panels * PANEL)
    rows = len(indptr) - 1
    for row in range(rows):
        group, lane = uint64(row >> 4), uint64(row & 15)
        strip = _strip_of(row, tile_groups, strips)
        for position in range(uint64(indptr[row]), uint64(indptr[row + 1])):
            column = uint64(columns.rank[uint64(members.columns[position])])
            if column < popular:
                panel, offset = column // uint64(PANEL), column % uint64(PANEL)
                word = (panel * uint64(groups) + group) * uint64(WORDS) + (offset >> uint64(5))
                bit = uint32(uint32(1) << uint32(offset & uint64(31)))
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
            column = uint64(columns.rank[uint64(members.columns[position])])
            if column >= popular:
                at = cursor[strip, column - popular]
                cursor[strip, column - popular] = at + 1
                list_rows[at] = row % (tile_groups * LANES)
    return list_rows


@kernel(**INNER)
def _strip_of(row: int, tile_groups: int, strips: int) -> Any:
    tile, inside = divmod(row, tile_groups * LANES)
    return tile * strips + inside // (STRIP_GROUPS * LANES)


@kernel
def _fill_queries(members: BinaryCSR, columns: Columns, words: Any, rare_start: Any) -> Any:
    """Set the bits of each row, and gather the ranks of its rare columns."""
    indptr, panels = members.indptr, columns.panels
    popular = uint64(panels * PANEL)
    rare_columns = np.empty(len(members.columns), np.uint32)
    filled = uint64(0)
    for row in range(len(indptr) - 1):
        first_word = uint64(row * panels * WORDS)
        for position in range(uint64(indptr[row]), uint64(indptr[row + 1])):
            column = uint64(columns.rank[uint64(members.columns[position])])
            if column < popular:
                bit = uint32(uint32(1) << uint32(column & uint64(31)))
                words[first_word + (column >> uint64(5))] |= bit
            else:
                rare_columns[filled] = uint32(column - popular)
                filled += uint64(1)
        rare_start[row + 1] = filled
    return rare_columns[:filled].copy()
