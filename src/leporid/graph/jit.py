"""How the kernels of this room are compiled: once, without the GIL, without bounds checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.extending import intrinsic

__all__ = ["kernel", "vector_code"]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile to machine code on the first call and keep it on disk."""
    return njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")(function)


def vector_code(function: Callable[..., Any]) -> Any:
    """Make a function that returns LLVM code callable from kernels."""
    return intrinsic(function)
