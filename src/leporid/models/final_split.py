"""`everything`: all interactions as one training part, for the final fit."""

import numpy as np

from leporid.data import Interactions, Split
from leporid.errors import DataError


def everything(data: Interactions | Split) -> Split:
    """Return all interactions as one training part, in time order per user; nothing held out."""
    include_seen = False
    if isinstance(data, Split):
        include_seen = data.include_seen
        data = joined_parts(data)
    elif not isinstance(data, Interactions):
        kind = type(data).__name__
        raise DataError(
            f"refit takes Interactions or a Split, not {kind}: use leporid.load(...)"
        )
    nothing = data.select(np.empty(0, dtype=np.int64))
    return Split(data, nothing, nothing, "everything", include_seen)


def joined_parts(split: Split) -> Interactions:
    """Return the interactions of all parts of a split, sorted by user and time."""
    joined = Interactions.joined(split.train, split.valid, split.test)
    # Where times are equal or unknown, what was held out comes last.
    if joined.time is None:
        order = np.lexsort((joined.user,))
    else:
        order = np.lexsort((joined.time, joined.user))
    return joined.select(order)
