"""Random numbers for compiled kernels (SplitMix64): a stream per task, named by a few integers.

Parallel kernels so give the same bits on any number of threads.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S11, _S32 = np.uint64(11), np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
_UNIT = 1.0 / (1 << 53)


@numba.njit(cache=True, inline="always")
def next_state(state: Any) -> Any:
    """uint64: the state after `state`; `to_bits` turns a state into random bits."""
    return state + _GOLDEN


@numba.njit(cache=True, inline="always")
def to_bits(state: Any) -> Any:
    """uint64: 64 random bits of a state."""
    z = (state ^ (state >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@numba.njit(cache=True)
def stream(seed: Any, first: Any, second: Any) -> Any:
    """uint64: the first state of the stream named (seed, first, second)."""
    state = to_bits(np.uint64(seed) + _GOLDEN)
    state = to_bits((state ^ np.uint64(first)) + _GOLDEN)
    return to_bits((state ^ np.uint64(second)) + _GOLDEN)


@numba.njit(cache=True, inline="always")
def below(bits: Any, n: Any) -> Any:
    """int64: uniform in [0, n) from 64 random bits; n < 2^32, bias below 2^-32 n."""
    return np.int64(((bits >> _S32) * np.uint64(n)) >> _S32)


@numba.njit(cache=True, inline="always")
def uniform(bits: Any) -> Any:
    """float64: uniform in [0, 1) from 64 random bits."""
    return np.float64(bits >> _S11) * _UNIT
