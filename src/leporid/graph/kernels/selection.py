"""Keep the K best of a buffer of candidates, in the order they came.

Weights are non-negative float32 numbers seen as their bits, which sort as the numbers do.
Candidates arrive with ascending row index, so a stable selection gives ties to the smaller index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint16, uint32, uint64
from numpy.typing import NDArray

from leporid.graph.kernels.simd import bits_in, compress_lanes, load_lanes, mask_above, mask_equal
from leporid.kernel import INNER, kernel


@kernel
def kth_largest(bits: NDArray[np.uint32], count: Any, k: int, low: Any, steps: Any) -> Any:
    """A value v with at least k of `bits[:count]` >= v, none of which is below `low`.

    `bits` is padded with zeros to a multiple of 16, and 1 <= k <= count. Bisection of the range of
    the values is cheaper than a histogram at this size. After 32 steps v is the k-th largest or
    has exactly k values not below it; fewer steps give a lower bound.
    """
    high = uint32(low)
    for position in range(uint64(count)):
        high = max(high, bits[position])
    bottom = uint32(low)
    while bottom < high and steps > 0:
        steps -= 1
        middle = uint32(bottom + ((high - bottom) >> uint32(1)))
        above = uint64(0)
        for position in range(uint64(0), uint64(count), uint64(16)):
            above += bits_in(mask_above(load_lanes(bits, position), middle))
        if above >= uint64(k):
            bottom = uint32(middle + uint32(1))
            if above == uint64(k):
                break
        else:
            high = middle
    return bottom


@kernel
def keep_above(
    bits: NDArray[np.uint32], rows: NDArray[np.uint32], first: Any, last: Any, floor: Any
) -> Any:
    """Of the candidates [first, last) keep those above `floor`, order kept; returns the new end.

    The bits are zero from there to a multiple of 16.
    """
    for position in range(uint64(last), uint64(last) + uint64(16)):
        bits[position] = uint32(0)
    kept = uint64(first)
    for position in range(uint64(first), uint64(last), uint64(16)):
        values, lanes = load_lanes(bits, position), load_lanes(rows, position)
        mask = mask_above(values, uint32(floor))
        compress_lanes(values, mask, bits, kept)
        compress_lanes(lanes, mask, rows, kept)
        kept += bits_in(mask)
    for position in range(kept, kept + uint64(16)):
        bits[position] = uint32(0)
    return kept


@kernel
def keep_best(
    bits: NDArray[np.uint32], rows: NDArray[np.uint32], count: Any, k: int, low: Any
) -> Any:
    """Move the k best candidates to the front, order kept; returns the k-th weight's bits."""
    bound = kth_largest(bits, count, k, low, int64(32))
    least = uint32(0xFFFFFFFF)
    above = uint64(0)
    for position in range(uint64(count)):
        value = bits[position]
        least = min(least, value if value >= bound else uint32(0xFFFFFFFF))
    for position in range(uint64(0), uint64(count), uint64(16)):
        above += bits_in(mask_above(load_lanes(bits, position), bound))
    ties = uint64(k) - above
    kept = uint64(0)
    for position in range(uint64(0), uint64(count), uint64(16)):
        values, lanes = load_lanes(bits, position), load_lanes(rows, position)
        equal = mask_equal(values, bound)
        taken = bits_in(equal)
        while taken > ties:
            equal = _without_highest(equal)
            taken -= uint64(1)
        ties -= taken
        mask = uint16(mask_above(values, bound) | equal)
        compress_lanes(values, mask, bits, kept)
        compress_lanes(lanes, mask, rows, kept)
        kept += bits_in(mask)
    return least


@kernel(**INNER)
def _without_highest(mask: int) -> Any:
    highest = uint32(0x8000)
    while not uint32(mask) & highest:
        highest = uint32(highest >> uint32(1))
    return uint16(uint32(mask) ^ highest)
