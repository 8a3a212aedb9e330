"""How kernels are compiled: once, kept on disk, without the GIL and without bounds checks.

Their random numbers (SplitMix64) come in streams, one per task, each named by a few integers:
parallel kernels so give the same bits on any number of threads.
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy as np
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S11, _S32 = np.uint64(11), np.uint64(32)
_UNIT = 1.0 / (1 << 53)

_OPTIONS = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}
_OPTIONS |= {"no_cfunc_wrapper": True}  # their addresses are never taken

INNER = {"no_cpython_wrapper": True}
"""Options of a kernel that only kernels call: the wrapper that unpacks Python's arguments
takes longer to compile than most loops."""


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: Any = None, **options: Any) -> Any:
    """Compile to machine code on the first call: `@kernel`, or `@kernel(parallel=True)`."""
    compiled = njit(**{**_OPTIONS, **options})
    return compiled if function is None else compiled(function)


@njit(cache=True, inline="always")
def next_state(state: Any) -> Any:
    """uint64: the state after `state`; `to_bits` turns a state into random bits."""
    return state + _GOLDEN


@njit(cache=True, inline="always")
def to_bits(state: Any) -> Any:
    """uint64: 64 random bits of a state."""
    z = (state ^ (state >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit(cache=True)
def stream(seed: Any, first: Any, second: Any) -> Any:
    """uint64: the first state of the stream named (seed, first, second)."""
    state = to_bits(np.uint64(seed) + _GOLDEN)
    state = to_bits((state ^ np.uint64(first)) + _GOLDEN)
    return to_bits((state ^ np.uint64(second)) + _GOLDEN)


@njit(cache=True, inline="always")
def below(bits: Any, n: Any) -> Any:
    """int64: uniform in [0, n) from 64 random bits; n < 2^32, bias below 2^-32 n."""
    return np.int64(((bits >> _S32) * np.uint64(n)) >> _S32)


@njit(cache=True, inline="always")
def uniform(bits: Any) -> Any:
    """float64: uniform in [0, 1) from 64 random bits."""
    return np.float64(bits >> _S11) * _UNIT
