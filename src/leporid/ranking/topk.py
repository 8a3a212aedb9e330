"""`TopK`: ranked lists of item indices with their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TopK:
    """The best `k` items of each of `m` users, best first; ties go to the smaller index."""

    items: NDArray[np.int32]
    """int32[m, k]; -1 pads a row with fewer than k candidates."""
    scores: NDArray[np.float32]
    """float32[m, k]; -inf where `items` is -1."""
