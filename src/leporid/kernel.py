"""How kernels are compiled: once, kept on disk, without the GIL and without bounds checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

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
    """Compile to machine code on the first call: `@kernel`, or `@kernel(parallel=True)`.

    `options` are numba's, over the defaults every kernel has: a division by zero gives what
    numpy gives, and the GIL is released.
    """
    compiled = njit(**{**_OPTIONS, **options})
    return compiled if function is None else compiled(function)
