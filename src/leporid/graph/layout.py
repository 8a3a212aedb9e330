"""What the search reads, works in and writes, as plain arrays the kernels can take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fitted", "Found", "Queries", "Scratch"]


class Fitted(NamedTuple):
    """The rows that are searched, in groups of 16."""

    bits: NDArray[np.uint32]
    """uint32[panels * groups * 16 * 16]: panel, group of rows, word, row."""
    panels: int
    groups: int
    tile_groups: int
    """Groups in a tile; a tile has at most 65,536 rows, so that lists hold 16-bit numbers."""
    strips: int
    """Parts of a tile whose counters fit the first-level cache; each column has a list a strip."""
    list_start: NDArray[np.int64]
    """int64[tiles * strips, rare columns + 1]: where each column's list starts in `list_rows`."""
    list_rows: NDArray[np.uint16]
    """Rows of each rare column, counted from the start of the tile."""
    term: NDArray[np.float64]
    """float64[groups * 16]: b of each row (see `similarity`); huge where there is no row."""
    term32: NDArray[np.float32]


class Queries(NamedTuple):
    """The n rows whose neighbours are wanted; similarity = c / (x + y b + g c)."""

    words: NDArray[np.uint32]
    """uint32[n * panels * 16]: the bits of each row."""
    rare_start: NDArray[np.int64]
    """int64[n + 1]."""
    rare_columns: NDArray[np.uint32]
    own: NDArray[np.int64]
    """int64[n]: the fitted row that a query is itself, which is left out; -1 where it is none."""
    x: NDArray[np.float64]
    """float64[n]."""
    y: NDArray[np.float64]
    """float64[n]."""
    g: float


class Scratch(NamedTuple):
    """Work space of one thread: a row of each for every query of a block."""

    counters: NDArray[Any]
    """uint16 or uint32 [QUERIES, tile rows], all zero between tiles."""
    rows: NDArray[np.uint32]
    """uint32[QUERIES, capacity]."""
    counts: NDArray[np.uint32]
    weights: NDArray[np.float32]
    bits: NDArray[np.uint32]
    """`weights`, seen as integers."""
    sample: NDArray[np.float32]
    """float32[sampled rows]."""
    sample_bits: NDArray[np.uint32]


class Found(NamedTuple):
    """Where the neighbours of query i go: row i, by ascending index."""

    rows: NDArray[np.int32]
    """int32[n, k]."""
    weights: NDArray[np.float32]
    """float32[n, k]."""
    length: NDArray[np.int32]
    """int32[n]; -1 where a guess failed."""
