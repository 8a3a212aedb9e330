"""Repeated events: which of them are the first of their pair, and what is done with the others."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leporid.kernel import kernel

Duplicates = Literal["first", "sum", "all"]
"""Of several events of a pair stays the first in time, alone or with the sum of all their weights
(each 1 without weights), or every one."""
DUPLICATES = ("first", "sum", "all")


@kernel
def first_of_pairs(
    indptr: NDArray[Any], items: NDArray[Any], known: Any, n_items: int
) -> NDArray[np.bool_]:
    """bool[n]: False where the user has the item from an earlier event, or in `known`.

    `known` is (indptr, items) of events before all of these.
    """
    first = np.zeros(len(items), np.bool_)
    seen_by = np.full(n_items, -1, np.int64)
    for user in range(len(indptr) - 1):
        for place in range(known[0][user], known[0][user + 1]):
            seen_by[known[1][place]] = user
        for place in range(indptr[user], indptr[user + 1]):
            first[place] = seen_by[items[place]] != user
            seen_by[items[place]] = user
    return first
