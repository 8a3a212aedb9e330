"""Torch's thread count, kept.

A numba kernel can change the number of OpenMP threads of the whole process, torch's too. Sums
over another number of threads round differently, so a run could not be repeated to the bit.
Until the count has been set once, MKL also takes fewer threads where it likes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["kept_torch_threads"]


@contextlib.contextmanager
def kept_torch_threads() -> Iterator[None]:
    """Torch has as many threads after the block as before it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
