"""What a task finds where it runs: the threads of its worker, and arrays it may write to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T", bound=tuple[Any, ...])

one_at_a_time = threading.Lock()
"""A worker works on one block at a time, on all its threads: one layout of the rows in memory."""


def worker_threads() -> int:
    """Threads this worker was given; 1 outside a worker."""
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1


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
