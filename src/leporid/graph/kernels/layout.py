"""What the search reads, works in and writes: popular columns as bits, the rest as lists.

Columns are renumbered by popularity. Every 256 of them that are popular enough become a panel, four
words of 64 bits per row; the words of 512 rows, a chunk, lie side by side. The rarer columns stay
lists, of the columns of a row (queries) and of the rows of a column (fitted rows).
"""

from typing import NamedTuple, Self

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray
from scipy import sparse

from leporid.foundation import kernel
from leporid.graph.types import BinaryCSR, Terms

WORDS = 4
"""64-bit words of a row in a panel."""
PANEL = 64 * WORDS
"""Columns in a panel."""
CHUNK = 512
"""Rows whose bits stay in cache for a block of queries."""
TILE = 32 * CHUNK
"""Rows whose counters fit the first-level cache; each rare column has a list in each tile."""
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
    """The first `panels` x 256 ranks are bits."""


class Queries(NamedTuple):
    """The n rows whose neighbours are searched; similarity = c / (x + y b + g c)."""

    words: NDArray[np.uint64]
    """uint64[n, panels, 4]: the bits of each row."""
    rare_start: NDArray[np.int64]
    rare_columns: NDArray[np.uint32]
    own: NDArray[np.int64]
    """int64[n]: the fitted row that a query is itself, which is left out; -1 where it is none."""
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    g: float


class Fitted(NamedTuple):
    """The rows that are searched, in chunks and tiles."""

    bits: NDArray[np.uint64]
    """uint64[chunks, panels, 4, CHUNK]."""
    list_start: NDArray[np.int64]
    """int64[tiles, rare columns + 1]: where each column's list starts in `list_rows`."""
    list_rows: NDArray[np.uint16]
    """Rows of each rare column, counted from the start of the tile."""
    term: NDArray[np.float64]
    """float64[chunks * CHUNK]: b of each row (see `similarity`); huge where there is no row."""
    term32: NDArray[np.float32]


class NeighbourLists(NamedTuple):
    """The neighbours of each of n rows, by ascending index; arrays [n, k]."""

    rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    length: NDArray[np.int32]
    """int32[n]; -1 where a guessed threshold was too high."""

    @classmethod
    def empty(cls, n: int, k: int) -> Self:
        """Make room for k neighbours of each of n rows."""
        return cls(
            np.empty((n, k), np.int32),
            np.empty((n, k), np.float32),
            np.zeros(n, np.int32),
        )

    def csr(self, columns: int) -> sparse.csr_array:
        """Return float32[n, columns] with the weights, as a copy."""
        taken = np.arange(self.rows.shape[1]) < self.length[:, None]
        indptr = np.concatenate([[0], np.cumsum(self.length)])
        edges = (self.weights[taken], self.rows[taken], indptr)
        return sparse.csr_array(edges, shape=(len(self.length), columns))


class Scratch(NamedTuple):
    """Work space of one thread: a slot of each for every query of a block."""

    counters: NDArray[np.unsignedinteger]
    """uint16 or uint32 [QUERIES, TILE]: columns shared with the query; all zero between tiles."""
    rows: NDArray[np.uint32]
    """uint32[QUERIES, capacity]: the candidates."""
    bits: NDArray[np.uint32]
    """uint32[QUERIES, capacity]: the weights of the candidates, seen as integers."""
    terms: NDArray[np.float64]
    """float64[capacity]: b of the candidates while they are weighed."""
    weighed: NDArray[np.uint64]
    """uint64[QUERIES]: candidates that have a weight, the first ones."""
    filled: NDArray[np.uint64]
    """uint64[QUERIES]: candidates in the buffers."""
    bound: NDArray[np.float32]
    """float32[QUERIES]: the weight of the threshold."""
    guessed: NDArray[np.bool_]
    """bool[QUERIES]: whether the threshold is a guess, not reached by K candidates yet."""
    passing: NDArray[np.uint8]
    """uint8[CHUNK]: 1 for the rows of a chunk that may beat the threshold."""
    passing_words: NDArray[np.uint64]
    """uint64[CHUNK / 8]: `passing`, eight at a time."""
    eights: NDArray[np.uint64]
    """uint64[CHUNK / 8]: the positions in `passing_words` that are not zero."""
    sample: NDArray[np.float32]
    """float32[TILE]: similarities of sampled rows."""


def rank_columns(members: BinaryCSR) -> Columns:
    """Rank the columns, and put into panels those for which scattering would cost more."""
    popularity = np.bincount(members.columns, minlength=members.n_columns)
    order = np.argsort(-popularity, kind="stable")
    rank = np.empty(members.n_columns, np.uint32)
    rank[order] = np.arange(members.n_columns, dtype=np.uint32)
    # A column of f rows costs f increments in each of those f rows' searches.
    increments = popularity[order].astype(np.float64) ** 2
    of_panel = np.add.reduceat(increments, np.arange(0, len(order), PANEL))
    panels = np.sum(of_panel * SCATTER_COST > float(members.n) ** 2)
    return Columns(rank, int(panels))


def query_rows(
    members: BinaryCSR,
    columns: Columns,
    terms: Terms,
    own: NDArray[np.int64] | None = None,
) -> Queries:
    """Lay out the rows whose neighbours are searched; without `own` they are no fitted rows."""
    words = np.zeros((members.n, columns.panels, WORDS), np.uint64)
    rare_start = np.zeros(members.n + 1, np.int64)
    rare_columns = _fill(members, columns, words.reshape(members.n, -1), rare_start)
    if own is None:
        own = np.full(members.n, -1, np.int64)
    return Queries(words, rare_start, rare_columns, own, terms.x, terms.y, terms.g)


def fitted_rows(
    members: BinaryCSR,
    columns: Columns,
    terms: Terms,
    rows: Queries | None = None,
) -> Fitted:
    """Lay out the rows to be searched; `rows` are the same as queries, if these exist already."""
    if rows is None:
        rows = query_rows(members, columns, terms)
    n = members.n
    chunks = -(-n // CHUNK)
    bits = np.zeros((chunks, columns.panels, WORDS, CHUNK), np.uint64)
    for chunk, first in enumerate(range(0, n, CHUNK)):
        words = rows.words[first : first + CHUNK]
        bits[chunk, :, :, : len(words)] = words.transpose(1, 2, 0)
    list_start, list_rows = _column_lists(rows, _rare_columns(members, columns.panels))
    term = np.full(chunks * CHUNK, NOWHERE)
    term[:n] = np.where(members.degrees > 0, terms.b, NOWHERE)
    return Fitted(bits, list_start, list_rows, term, term.astype(np.float32))


def _column_lists(
    rows: Queries,
    rare: int,
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Return `list_start` and `list_rows` of `Fitted`, for so many rare columns."""
    tiles = range(0, len(rows.words), TILE)
    list_start = np.empty((len(tiles), rare + 1), np.int64)
    list_rows = np.empty(len(rows.rare_columns), np.uint16)
    for tile, first in enumerate(tiles):
        starts = rows.rare_start[first : first + TILE + 1]
        entries = slice(starts[0], starts[-1])
        columns = rows.rare_columns[entries].view(np.int32)
        lists = sparse.csr_array(
            (np.ones(len(columns), np.int8), columns, starts - starts[0]),
            shape=(len(starts) - 1, rare),
        ).tocsc()
        list_start[tile] = lists.indptr + starts[0]
        list_rows[entries] = lists.indices
    return list_start, list_rows


def scratch_space(k: int, longest_query: int) -> Scratch:
    """Make the work space of one thread, for queries of at most this many columns."""
    capacity = _capacity(k)
    passing = np.zeros(CHUNK, np.uint8)
    return Scratch(
        counters=np.zeros((QUERIES, TILE), np.min_scalar_type(longest_query)),
        rows=np.zeros((QUERIES, capacity), np.uint32),
        bits=np.zeros((QUERIES, capacity), np.uint32),
        terms=np.zeros(capacity),
        weighed=np.zeros(QUERIES, np.uint64),
        filled=np.zeros(QUERIES, np.uint64),
        bound=np.zeros(QUERIES, np.float32),
        guessed=np.zeros(QUERIES, np.bool_),
        passing=passing,
        passing_words=passing.view(np.uint64),
        eights=np.zeros(CHUNK // 8, np.uint64),
        sample=np.zeros(TILE, np.float32),
    )


def search_bytes(members: BinaryCSR, k: int, threads: int) -> int:
    """Return the bytes that the neighbour search holds, apart from the lists it writes."""
    n = members.n
    columns = rank_columns(members)
    words = 8 * WORDS * columns.panels * n
    rare = len(members.columns)
    if columns.panels:
        is_popular = columns.rank[members.columns] < columns.panels * PANEL
        rare -= int(np.count_nonzero(is_popular))
    lists = 6 * rare + 8 * -(-n // TILE) * _rare_columns(members, columns.panels)
    capacity = _capacity(k)
    scratch = QUERIES * (2 * TILE + 8 * capacity) + 8 * capacity + 4 * TILE
    return 2 * words + lists + threads * scratch + 80 * n


def _rare_columns(members: BinaryCSR, panels: int) -> int:
    """Return the number of columns that are lists, and not bits in panels."""
    return max(members.n_columns - panels * PANEL, 0)


def _capacity(k: int) -> int:
    """Return the candidates a query's buffer holds before the best K of them are kept."""
    return max(4 * k, 4096) + CHUNK


@kernel
def _fill(
    members: BinaryCSR,
    columns: Columns,
    words: NDArray[np.uint64],
    rare_start: NDArray[np.int64],
) -> NDArray[np.uint32]:
    """Set the bits of each row, and gather the ranks of its rare columns."""
    popular = uint64(columns.panels * PANEL)
    rare_columns = np.empty(len(members.columns), np.uint32)
    filled = uint64(0)
    for row in range(len(members.indptr) - 1):
        first = uint64(members.indptr[row])
        stop = uint64(members.indptr[row + 1])
        for position in range(first, stop):
            column = uint64(columns.rank[uint64(members.columns[position])])
            if column < popular:
                words[row, column >> uint64(6)] |= uint64(1) << (column & uint64(63))
            else:
                rare_columns[filled] = uint32(column - popular)
                filled += uint64(1)
        rare_start[row + 1] = filled
    return rare_columns[:filled].copy()
