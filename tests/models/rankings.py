"""Ranked lists compared by the scores at each place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_ranking(found: NDArray[Any], expected: NDArray[Any], scores: NDArray[np.float32]) -> None:
    """int[m, n] lists, -1 for an empty place, have the same scores of float32[m, n_items].

    Which of two items comes first whose scores differ by rounding depends on the processor.
    """
    np.testing.assert_array_equal(found >= 0, expected >= 0)
    rows = np.arange(len(found))[:, None]
    ranked = [np.where(items >= 0, scores[rows, items], 0) for items in (found, expected)]
    np.testing.assert_allclose(*ranked, rtol=1e-4, atol=1e-5)
    for row in found:
        assert len(np.unique(row[row >= 0])) == np.count_nonzero(row >= 0)
