"""How kernels are compiled: once, kept on disk, without the GIL and without bounds checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from numba import njit
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: Any = None, **options: Any) -> Any:
    """Compile to machine code on the first call: `@kernel`, or `@kernel(parallel=True)`.

    `options` are numba's, over the defaults every kernel has: a division by zero gives what
    numpy gives, and the GIL is released.
    """
    compiled = njit(
        **{"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy", **options}
    )
    return compiled if function is None else compiled(function)


def vector_code(function: Callable[..., Any]) -> Any:
    """Make a function that returns LLVM code callable from kernels."""
    return intrinsic(function)
