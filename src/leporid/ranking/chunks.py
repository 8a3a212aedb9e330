"""How many users to score at once: the one rule, for evaluation and for recommending."""

from __future__ import annotations

from leporid.errors import ConfigError
from leporid.memory import free_memory

_SHARE = 8
_LARGEST = 256 * 2**20
_MOST_USERS = 2048


def chunk_rows(n_items: int, batch_size: int | None = None) -> int:
    """Rows of float32 scores to hold at once.

    The scores of a chunk take at most an eighth of the free memory, since a model may need
    several such arrays to compute them, and at most 256 MiB; a chunk has at most 2,048 users,
    since what a neural model keeps for each is not known here, and at least one. A `batch_size`
    overrides the rule.
    """
    if batch_size is not None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, not {batch_size}")
        return batch_size
    rows = min(free_memory() // _SHARE, _LARGEST) // (4 * max(n_items, 1))
    return max(1, min(rows, _MOST_USERS))
