"""The columns of the paper's Table 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Interactions

__all__ = ["TAIL_SHARE", "DatasetStats", "dataset_stats"]

TAIL_SHARE = 0.25
"""The tail is this share of the users (or items): those with the fewest interactions."""


@dataclass(frozen=True)
class DatasetStats:
    """Size, density and how little of the data the tail holds."""

    users: int
    """Number of users."""
    items: int
    """Number of items."""
    interactions: int
    """Number of distinct (user, item) pairs."""
    density: float
    """interactions / (users x items)."""
    tail_user_share: float
    """Share of all interactions that the 25% least active users made."""
    tail_item_share: float
    """Share of all interactions that the 25% least popular items received."""

    def as_dict(self) -> dict[str, int | float]:
        """Plain values, in the order of the paper's table."""
        return asdict(self)


def dataset_stats(interactions: Interactions) -> DatasetStats:
    """Table 1 for any log; users and items of the id maps without interactions count as tail."""
    n_users, n_items, n = interactions.n_users, interactions.n_items, len(interactions)
    return DatasetStats(
        users=n_users,
        items=n_items,
        interactions=n,
        density=n / (n_users * n_items) if n else 0.0,
        tail_user_share=_tail_share(np.bincount(interactions.user, minlength=n_users)),
        tail_item_share=_tail_share(np.bincount(interactions.item, minlength=n_items)),
    )


def _tail_share(counts: NDArray[np.int64]) -> float:
    """The share of the total that the smallest quarter of the counts (rounded down) holds."""
    total = int(counts.sum())
    tail = np.sort(counts)[: int(len(counts) * TAIL_SHARE)]
    return float(tail.sum() / total) if total else 0.0
