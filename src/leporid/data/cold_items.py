"""`cold_items_split`: some items never occur in training, as those that arrive tomorrow."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Interactions
from leporid.data.split import Split
from leporid.data.splitting import split_by
from leporid.errors import ConfigError, DataError


def cold_items_split(
    data: Interactions,
    share: float = 0.1,
    by: Literal["random", "time"] = "random",
    *,
    protocol: str = "temporal",
    train: float = 0.7,
    valid: float = 0.1,
    seed: int = 0,
) -> Split:
    """A split by `protocol` in which a share of the items occurs in the test part alone.

    Their interactions in the training and validation parts are left out; the name of the protocol
    says how many. All parts keep the ids of all items, so that cold items are candidates. Judge
    with the strata 'cold-items' and 'warm-items' of a `MetricTable`.

    Parameters
    ----------
    share : of the items, above 0 and below 1
    by : "random" draws the cold items; "time" takes those that appear last, on one clock for all
    protocol, train, valid : as for `leporid.data.split_by`
    seed : of the draw, and of a random protocol
    """
    if not 0 < share < 1:
        raise ConfigError(f"the share of cold items must be above 0 and below 1, not {share:g}")
    count = round(share * data.n_items)
    if count == 0:
        raise DataError(f"{share:g} of {data.n_items} items is none: give a larger share")
    cold = np.zeros(data.n_items, bool)
    if by == "random":
        cold[np.random.default_rng(seed).permutation(data.n_items)[:count]] = True
    elif by == "time":
        cold[np.argsort(_first_seen(data), kind="stable")[-count:]] = True
    else:
        raise ConfigError(f"cold items are chosen by 'random' or by 'time', not by {by!r}")
    whole = split_by(data, protocol, train=train, valid=valid, seed=seed)
    first, then = (part.select(~cold[part.item]) for part in (whole.train, whole.valid))
    dropped = len(whole.train) + len(whole.valid) - len(first) - len(then)
    named = f"cold-items({share:g}, {by}, seed={seed}, left out {dropped})"
    return Split(first, then, whole.test, f"{named} of {whole.protocol}")


def _first_seen(data: Interactions) -> NDArray[np.int64]:
    """int64[n_items]: the time of each item's first interaction."""
    if data.time is None:
        raise DataError("cold items by time need times: name the time column, or draw by='random'")
    first = np.full(data.n_items, np.iinfo(np.int64).max)
    np.minimum.at(first, data.item, data.time)
    return first
