"""How kernels are compiled: once, kept on disk, without the GIL and without bounds checks.

Their random numbers (SplitMix64) come in streams, one per task, each named by a few integers:
parallel kernels so give the same bits on any number of threads.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])
Integer: TypeAlias = int | np.integer[Any]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S11 = np.uint64(11)
_S27 = np.uint64(27)
_S30 = np.uint64(30)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_UNIT = 1.0 / (1 << 53)

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,  # their addresses are never taken
}

INNER = {"no_cpython_wrapper": True}
"""Options of a kernel that only kernels call: the wrapper that unpacks Python's arguments
takes longer to compile than most loops."""


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """Compile to machine code on the first call: `@kernel`, or `@kernel(parallel=True)`."""
    compiled: Callable[[F], F] = njit(**(_OPTIONS | options))
    return compiled if function is None else compiled(function)


@njit(cache=True, inline="always")
def next_state(state: np.uint64) -> np.uint64:
    """Return the state after `state`; `to_bits` turns a state into random bits."""
    return state + _GOLDEN


@njit(cache=True, inline="always")
def to_bits(state: np.uint64) -> np.uint64:
    """Return 64 random bits of a state."""
    z = (state ^ (state >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit(cache=True)
def stream(seed: Integer, first: Integer, second: Integer) -> np.uint64:
    """Return the first state of the stream named (seed, first, second)."""
    state = to_bits(np.uint64(seed) + _GOLDEN)
    state = to_bits((state ^ np.uint64(first)) + _GOLDEN)
    return to_bits((state ^ np.uint64(second)) + _GOLDEN)


@njit(cache=True, inline="always")
def randint(bits: np.uint64, n: Integer) -> Any:
    """Return an int64 uniform in [0, n) from 64 random bits; n < 2^32, bias below 2^-32 n."""
    return np.int64(((bits >> _S32) * np.uint64(n)) >> _S32)


@njit(cache=True, inline="always")
def uniform(bits: np.uint64) -> np.float64:
    """Return a number uniform in [0, 1) from 64 random bits."""
    return np.float64(bits >> _S11) * _UNIT
