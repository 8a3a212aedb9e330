"""Keep the K best of a buffer of candidates, in the order they came.

Weights are non-negative float32 numbers seen as their bits, which sort as the numbers do.
Candidates arrive with ascending row index, so a stable selection gives ties to the smaller index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint32, uint64
from numpy.typing import NDArray

from leporid.kernel import kernel


@kernel
def kth_largest(bits: NDArray[np.uint32], count: Any, k: int, steps: Any) -> Any:
    """A value v with at least k of `bits[:count]` >= v, 1 <= k <= count.

    Bisection of the range of the values is cheaper than a histogram at this size. After 32 steps v
    is the k-th largest or has exactly k values not below it; fewer steps give a lower bound.
    """
    bottom = high = uint32(0)
    for position in range(uint64(count)):
        high = max(high, bits[position])
    while bottom < high and steps > 0:
        steps -= 1
        middle = uint32(bottom + ((high - bottom) >> uint32(1)))
        above = uint32(0)
        for position in range(uint64(count)):
            above += uint32(bits[position] > middle)
        if above >= uint64(k):
            bottom = uint32(middle + uint32(1))
            if above == uint64(k):
                break
        else:
            high = middle
    return bottom


@kernel
def keep_best(bits: NDArray[np.uint32], rows: NDArray[np.uint32], count: Any, k: int) -> Any:
    """Move the k best candidates to the front, order kept; returns the k-th weight's bits."""
    bound = uint32(kth_largest(bits, count, k, int64(32)))
    ties: Any = uint64(k)
    for position in range(uint64(count)):
        ties -= uint64(bits[position] > bound)
    least = uint32(0xFFFFFFFF)
    kept = uint64(0)
    for position in range(uint64(count)):
        value: Any = bits[position]
        is_tie: Any = value == bound and ties > uint64(0)
        ties -= uint64(is_tie)
        if value > bound or is_tie:
            bits[kept], rows[kept] = value, rows[position]
            least = min(least, value)
            kept += uint64(1)
    return least
