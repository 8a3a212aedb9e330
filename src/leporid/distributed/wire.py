"""Arrays as Dask hands them to a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["writable"]

T = TypeVar("T", bound=tuple[Any, ...])


def writable(arrays: T) -> T:
    """The same named tuple with arrays that may be written to.

    Those that came over the wire, or from a worker's disk, may be read-only; numba would compile
    every kernel a second time for them.
    """
    make: Callable[..., T] = type(arrays)
    return make(
        *(
            np.require(value, requirements=["C", "W"]) if isinstance(value, np.ndarray) else value
            for value in arrays
        )
    )
