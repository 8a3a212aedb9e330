"""Top-K neighbours as rows with ascending indices: what graphs and recommenders start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import GraphError
from leporid.graph.kernels.layout import (
    QUERIES,
    Fitted,
    NeighbourLists,
    fitted_rows,
    query_rows,
    rank_columns,
    scratch_space,
)
from leporid.graph.kernels.search import search_rows
from leporid.graph.matrix import Members
from leporid.graph.similarity import Similarity
from leporid.progress import ProgressLike
from leporid.threads import on_each_thread

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
    out: NeighbourLists | None = None,
) -> NeighbourLists:
    """The k most similar fitted rows of every query row.

    `own` int64[queries]: the fitted row that each query is itself (-1: none), which is no neighbour
    of it; None leaves nothing out.

    Order is by the similarity as a float32 number, then by smaller index; a similarity of zero is
    no neighbour. Memory: n x k results (`out`, where they are to go), the layout of the rows, and
    some buffers per thread.
    """
    lists = NeighbourLists.empty(queries.n, k) if out is None else out
    if k == 0:
        return lists
    columns = rank_columns(fitted)
    terms = similarity.terms(queries.degrees, fitted.degrees)
    base = fitted_rows(fitted, columns, terms.b)
    wanted = query_rows(queries, columns, terms, own)
    sample = _sampling(base, fitted.n, k)
    scratch = [scratch_space(base, wanted, k, sample[0]) for _ in range(threads)]

    def search(rows: NDArray[np.int64], sample: tuple[int, int]) -> None:
        turn = np.zeros(1, np.int64)
        on_each_thread(
            lambda i: search_rows(rows, turn, base, wanted, scratch[i], k, sample, lists), threads
        )

    batch = max(-(-queries.n // BATCHES), QUERIES * threads * 4, LEAST_BATCH)
    progress.start("neighbours", queries.n)
    for first in range(0, queries.n, batch):
        part = np.arange(first, min(first + batch, queries.n), dtype=np.int64)
        search(part, sample)
        failed = part[lists.length[part] < 0]
        if len(failed):
            search(failed, (1, 0))
        progress.advance(len(part))
    return lists


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
