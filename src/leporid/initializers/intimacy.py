"""PageRank intimacy: which nodes a random walk from a node, sent home with chance alpha, meets.

s_v = alpha sum_t (1 - alpha)^t (A D^-1)^t e_v. All pairs would be a dense matrix, so each
node's row is computed by forward push: mass is pushed on only where at least
`tolerance` x degree has gathered. What is left unpushed bounds the error:
0 <= s_v(u) - settled(u), and their sum over u is the unpushed mass.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from leporid.kernel import kernel
from leporid.progress import ProgressLike


@kernel
def push(
    indptr: Any, indices: Any, source: Any, alpha: Any, tolerance: Any,
    settled: Any, waiting: Any, queue: Any, queued: Any, touched: Any,
) -> Any:  # fmt: skip
    """Forward push from `source`; returns how many nodes are listed in `touched`.

    `settled` and `waiting` (float64[n]) hold the estimates and the mass not pushed yet; they and
    `queued` must be zero on entry, on the nodes of `touched` they are left for the caller.
    """
    n = len(settled)
    n_touched = 1
    touched[0] = source
    waiting[source] = 1.0
    queued[source] = 1
    queue[0] = source
    head, tail, size = 0, 1, 1
    while size > 0:
        node = queue[head]
        head = head + 1 if head + 1 < n else 0
        size -= 1
        queued[node] = 0
        mass = waiting[node]
        waiting[node] = 0.0
        settled[node] += alpha * mass
        degree = indptr[node + 1] - indptr[node]
        if degree == 0:
            continue
        share = (1 - alpha) * mass / degree
        for at in range(indptr[node], indptr[node + 1]):
            other = indices[at]
            if waiting[other] == 0.0 and settled[other] == 0.0 and queued[other] == 0:
                touched[n_touched] = other
                n_touched += 1
            waiting[other] += share
            if queued[other] == 0 and waiting[other] >= tolerance * (
                indptr[other + 1] - indptr[other]
            ):
                queued[other] = 1
                queue[tail] = other
                tail = tail + 1 if tail + 1 < n else 0
                size += 1
    return n_touched


@kernel(parallel=True)
def _rows(
    indptr: Any, indices: Any, k: Any, alpha: Any, tolerance: Any, lanes: Any, begin: Any, end: Any,
    nodes: Any, values: Any,
) -> None:  # fmt: skip
    n = len(indptr) - 1
    for lane in numba.prange(lanes):
        settled, waiting = np.zeros(n), np.zeros(n)
        queue, touched = np.empty(n, np.int32), np.empty(n + 1, np.int32)
        queued = np.zeros(n, np.uint8)
        for source in range(begin + lane, end, lanes):
            count = push(
                indptr, indices, np.int32(source), alpha, tolerance,
                settled, waiting, queue, queued, touched,
            )  # fmt: skip
            for place in range(k):
                best, best_value = -1, 0.0
                for at in range(count):
                    node = touched[at]
                    # Unpushed mass counts by the share that would come to rest there.
                    value = settled[node] + alpha * waiting[node]
                    if node != source and (
                        value > best_value or (value == best_value and node < best)
                    ):
                        best, best_value = node, value
                nodes[source, place] = best
                values[source, place] = best_value
                if best >= 0:
                    settled[best], waiting[best] = -1.0, 0.0
            for at in range(count):
                settled[touched[at]] = 0.0
                waiting[touched[at]] = 0.0


def intimate_nodes(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    k: int,
    alpha: float,
    tolerance: float,
    progress: ProgressLike,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """int32[n, k] most intimate other nodes (best first, -1 pads) and float32[n, k] intimacies."""
    n = len(indptr) - 1
    nodes = np.full((n, k), -1, dtype=np.int32)
    values = np.zeros((n, k), dtype=np.float32)
    chunk = 2048
    progress.start("intimacy", -(-n // chunk))
    for begin in range(0, n, chunk):
        _rows(
            indptr, indices, k, alpha, tolerance, numba.get_num_threads(), begin,
            min(begin + chunk, n), nodes, values,
        )  # fmt: skip
        progress.advance()
    return nodes, values
