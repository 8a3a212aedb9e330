"""`DatasetStats`: the columns of the paper's Table 2."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

TAIL_SHARE = 0.25
"""The tail is this share of the users (or items): those with the fewest interactions."""


@dataclass(frozen=True)
class DatasetStats:
    """Size, density and how little of the data the tail holds."""

    users: int
    items: int
    interactions: int
    """Number of events: of distinct (user, item) pairs, unless repeated events were kept."""
    density: float
    """Distinct pairs / (users x items)."""
    tail_user_share: float
    """Share of all interactions that the 25% least active users made."""
    tail_item_share: float
    """Share of all interactions that the 25% least popular items received."""
    repeat_share: float = 0.0
    """Share of all interactions whose user had the item before (where there is a goal: that)."""

    def as_dict(self) -> dict[str, int | float]:
        """Plain values, in the order of the paper's table; repeats only where there are any."""
        return {k: v for k, v in asdict(self).items() if k != "repeat_share" or v}


def tail_share(counts: NDArray[np.int32 | np.int64]) -> float:
    """The share of the total that the smallest quarter of the counts (rounded down) holds."""
    total = int(counts.sum())
    tail = np.sort(counts)[: int(len(counts) * TAIL_SHARE)]
    return float(tail.sum() / total) if total else 0.0
