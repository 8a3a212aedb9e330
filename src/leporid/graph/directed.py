"""Top-K neighbours as rows with ascending indices: what graphs and recommenders start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import GraphError
from leporid.graph.bitset import fitted_rows, query_rows, rank_columns
from leporid.graph.layout import Fitted, Found, Queries, Scratch
from leporid.graph.matrix import Members
from leporid.graph.search import CHUNK_GROUPS, QUERIES, search_rows
from leporid.graph.similarity import Similarity
from leporid.progress import ProgressLike
from leporid.threads import on_each_thread

__all__ = ["directed_neighbours", "usable_k"]

BATCHES = 40
"""Calls into the kernel: progress is shown, and an interrupt seen, between two of them."""
LEAST_BATCH = 1024
"""Rows in a call, at least: threads wait for one another at its end."""
SAMPLE = 1024
"""Rows from which a first threshold is guessed, at least."""


def usable_k(k: Any, others: int) -> int:
    """`k` as an integer of at least 1, and at most the number of other rows."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise GraphError(f"k must be an integer of at least 1, not {k!r}")
    return min(int(k), others)


def directed_neighbours(
    queries: Members,
    fitted: Members,
    k: int,
    similarity: Similarity,
    own: NDArray[np.int64] | None,
    threads: int,
    progress: ProgressLike,
    *,
    only: NDArray[np.int64] | None = None,
    found: Found | None = None,
) -> Found:
    """The k most similar fitted rows of every query row; `k` >= 1.

    `own` int64[queries]: the fitted row that each query is itself (-1: none), which is no neighbour
    of it; None leaves nothing out.

    Order is by the similarity as a float32 number, then by smaller index; a similarity of zero is
    no neighbour. Memory: n x k results, the layout of the rows, and some buffers a thread. `only`
    names the query rows to search for; `found`, where the results go (others stay as they are).
    """
    columns = rank_columns(fitted)
    terms = similarity.terms(queries.degrees, fitted.degrees)
    base = fitted_rows(fitted, columns, terms.b)
    wanted = query_rows(queries, columns, terms, own)
    if found is None:
        found = Found(
            np.empty((queries.n, k), np.int32),
            np.empty((queries.n, k), np.float32),
            np.zeros(queries.n, np.int32),
        )
    stride, rank = _sampling(base, fitted.n, k)
    scratch = _scratch(base, wanted, k, stride, threads)
    everyone = np.arange(queries.n, dtype=np.int64) if only is None else only
    batch = max(-(-len(everyone) // BATCHES), QUERIES * threads * 4, LEAST_BATCH)
    progress.start("neighbours", len(everyone))
    for first in range(0, len(everyone), batch):
        part = everyone[first : first + batch]
        _search(part, base, wanted, scratch, k, stride, rank, found)
        failed = part[found.length[part] < 0]
        if len(failed):
            _search(failed, base, wanted, scratch, k, 1, 0, found)
        progress.advance(len(part))
    return found


def _search(
    rows: NDArray[np.int64],
    base: Fitted,
    wanted: Queries,
    scratch: list[Scratch],
    k: int,
    stride: int,
    rank: int,
    found: Found,
) -> None:
    turn = np.zeros(1, np.int64)
    on_each_thread(
        lambda thread: search_rows(
            rows, turn, base, wanted, scratch[thread], k, stride, rank, found
        ),
        len(scratch),
    )


def _sampling(base: Fitted, rows: int, k: int) -> tuple[int, int]:
    """Every how many groups to sample, and which rank in the sample to take as the guess.

    The rank is four standard deviations beyond the expected one: a guess that is a little low
    costs a few more candidates, one that is too high a second search.
    """
    sampled = max(SAMPLE, rows // 16)
    stride = base.tile_groups * 16 // sampled
    if stride < 2:
        return 1, 0
    expected = k * (-(-base.tile_groups // stride) * 16) / rows
    return stride, int(expected + 4 * expected**0.5 + 4)


def _scratch(base: Fitted, wanted: Queries, k: int, stride: int, threads: int) -> list[Scratch]:
    # A pair shares at most as many rare columns as the query has: 16 bits nearly always do.
    most = int(np.diff(wanted.rare_start).max(initial=0)) + 512 * base.panels
    counter = np.uint16 if most <= np.iinfo(np.uint16).max else np.uint32
    capacity = max(4 * k, 4096) + 2 * CHUNK_GROUPS * 16
    sampled = (-(-base.tile_groups // stride)) * 16
    made = []
    for _ in range(threads):
        weights = np.zeros((QUERIES, capacity), np.float32)
        sample = np.zeros(sampled, np.float32)
        made.append(
            Scratch(
                np.zeros((QUERIES, base.tile_groups * 16), counter),
                np.zeros((QUERIES, capacity), np.uint32),
                np.zeros((QUERIES, capacity), np.uint32),
                weights,
                weights.view(np.uint32),
                sample,
                sample.view(np.uint32),
            )
        )
    return made
